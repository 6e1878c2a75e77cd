/* SPDX-License-Identifier: Apache-2.0 */
#include "results.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#include "support.h"

static FILE *output;

void results_open(const char *path)
{
	output = path ? fopen(path, "we") : stdout;
	if (!output)
		fail("writing %s: %s", path, strerror(errno));
}

void results_close(void)
{
	if (fflush(output) || ferror(output))
		fail("writing the results failed");
	if (output != stdout)
		fclose(output);
	output = NULL;
}

static void print_text(const char *name, const char *text)
{
	fprintf(output, "\"%s\":\"", name);
	for (; *text; text++) {
		const unsigned char octet = (unsigned char)*text;

		if (octet == '"' || octet == '\\')
			fprintf(output, "\\%c", octet);
		else if (octet < ' ')
			fprintf(output, "\\u%04x", octet);
		else
			fputc(octet, output);
	}
	fputc('"', output);
}

/* The object's texts, in pairs of name and value that end with NULL; it stays open. */
static void begin(const char *const *texts)
{
	char separator = '{';

	for (; *texts; texts += 2) {
		fputc(separator, output);
		print_text(texts[0], texts[1]);
		separator = ',';
	}
}

/* A run that is interrupted leaves whole lines. */
static void end(void)
{
	fputs("}\n", output);
	fflush(output);
}

void results_machine(const char *what, const char *value)
{
	const char *const texts[] = {"machine", what, "value", value, NULL};

	begin(texts);
	end();
}

void results_table(const char *table, const char *title, const char *text)
{
	const char *const texts[] = {"table", table, "title", title, "text", text, NULL};

	fprintf(stderr, "bench: %s\n", title);
	begin(texts);
	end();
}

static void print_number(const char *name, double value)
{
	/* JSON has neither infinities nor NaN. */
	if (isfinite(value))
		fprintf(output, ",\"%s\":%.9g", name, value);
	else
		fprintf(output, ",\"%s\":null", name);
}

void results_cell(const char *table, const char *row, const char *column, const char *unit,
		  struct quartiles value)
{
	const char *const texts[] = {"table", table,  "row", row, "column",
				     column,  "unit", unit,  NULL};

	begin(texts);
	print_number("low", value.low);
	print_number("median", value.median);
	print_number("high", value.high);
	end();
}

void results_value(const char *table, const char *row, const char *column, const char *unit,
		   double value)
{
	const char *const texts[] = {"table", table,  "row", row, "column",
				     column,  "unit", unit,  NULL};

	begin(texts);
	print_number("median", value);
	end();
}

void results_missing(const char *table, const char *row, const char *column, const char *why)
{
	const char *const texts[] = {"table", table,	 "row", row, "column",
				     column,  "missing", why,	NULL};

	begin(texts);
	end();
}
