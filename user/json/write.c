/* SPDX-License-Identifier: Apache-2.0 */
#include "write.h"

#include <errno.h>
#include <inttypes.h>

#include "base/json_text.h"

int pg_json_writer_start(struct pg_json_writer *writer)
{
	*writer = (struct pg_json_writer){0};
	writer->out = open_memstream(&writer->text, &writer->size);
	return writer->out ? 0 : -ENOMEM;
}

int pg_json_writer_end(struct pg_json_writer *writer, char **ret_text, size_t *ret_size)
{
	const bool failed = ferror(writer->out);

	/* The text is the caller's only after the stream has been closed. */
	if (fclose(PG_TAKE_PTR(writer->out)) == EOF || failed) {
		pg_json_writer_clear(writer);
		return -ENOMEM;
	}
	*ret_text = PG_TAKE_PTR(writer->text);
	*ret_size = writer->size;
	return 0;
}

void pg_json_writer_clear(struct pg_json_writer *writer)
{
	if (writer->out)
		fclose(PG_TAKE_PTR(writer->out));
	free(PG_TAKE_PTR(writer->text));
}

void pg_json_write_name(struct pg_json_writer *writer, const char *name)
{
	if (writer->comma)
		putc(',', writer->out);
	writer->comma = true;
	if (name) {
		pg_json_string(writer->out, name);
		putc(':', writer->out);
	}
}

void pg_json_write_open(struct pg_json_writer *writer, const char *name, char bracket)
{
	pg_json_write_name(writer, name);
	putc(bracket, writer->out);
	writer->comma = false;
}

void pg_json_write_close(struct pg_json_writer *writer, char bracket)
{
	putc(bracket, writer->out);
	writer->comma = true;
}

void pg_json_write_string(struct pg_json_writer *writer, const char *name, const char *text)
{
	pg_json_write_name(writer, name);
	pg_json_string(writer->out, text);
}

void pg_json_write_number(struct pg_json_writer *writer, const char *name, uint64_t number)
{
	pg_json_write_name(writer, name);
	fprintf(writer->out, "%" PRIu64, number);
}

void pg_json_write_decimal(struct pg_json_writer *writer, const char *name, uint64_t number)
{
	pg_json_write_name(writer, name);
	fprintf(writer->out, "\"%" PRIu64 "\"", number);
}

void pg_json_write_real(struct pg_json_writer *writer, const char *name, double number)
{
	pg_json_write_name(writer, name);
	fprintf(writer->out, "%.1f", number);
}

void pg_json_write_bool(struct pg_json_writer *writer, const char *name, bool value)
{
	pg_json_write_name(writer, name);
	fputs(value ? "true" : "false", writer->out);
}

void pg_json_write_null(struct pg_json_writer *writer, const char *name)
{
	pg_json_write_name(writer, name);
	fputs("null", writer->out);
}
