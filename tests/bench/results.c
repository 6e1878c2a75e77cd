/* SPDX-License-Identifier: Apache-2.0 */
#include "results.h"

#include "bench.h"

static void put_text(FILE *out, const char *name, const char *text)
{
	fprintf(out, "\"%s\":\"", name);
	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < ' ')
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

void result_table(FILE *out, const char *table, const char *title, const char *text)
{
	fputc('{', out);
	put_text(out, "table", table);
	fputc(',', out);
	put_text(out, "title", title);
	fputc(',', out);
	put_text(out, "text", text);
	fputs("}\n", out);
}

void result_put(FILE *out, const struct result *result)
{
	fputc('{', out);
	put_text(out, "table", result->table);
	fputc(',', out);
	put_text(out, "row", result->row);
	fputc(',', out);
	put_text(out, "column", result->column);
	fputc(',', out);
	put_text(out, "unit", result->unit);
	fprintf(out, ",\"value\":%.9g", result->value);
	if (result->low < result->high)
		fprintf(out, ",\"low\":%.9g,\"high\":%.9g", result->low, result->high);
	if (result->count)
		fprintf(out, ",\"count\":%zu", result->count);
	fputs("}\n", out);
}

void result_put_values(FILE *out, const struct result *result, double *values, size_t count)
{
	const struct quartiles quartiles = quartiles_of(values, count);
	struct result whole = *result;

	whole.low = quartiles.low;
	whole.value = quartiles.median;
	whole.high = quartiles.high;
	whole.count = count;
	result_put(out, &whole);
}
