/* SPDX-License-Identifier: Apache-2.0 */
/* Writing one JSON document, with commas where they belong. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"

/*
 * All functions may be called after a failure, which pg_json_writer_end() reports. name is that of
 * the member, NULL in arrays and for the document itself.
 */
struct pg_json_writer {
	FILE *out; /* for text that is JSON already: pg_json_write_name() first */
	char *text;
	size_t size;
	bool comma; /* before the next value */
};

/* -ENOMEM */
int pg_json_writer_start(struct pg_json_writer *writer) PG_MUST_CHECK;
/* The text, which the caller frees, with a NUL that *ret_size does not count; -ENOMEM. */
int pg_json_writer_end(struct pg_json_writer *writer, char **ret_text,
		       size_t *ret_size) PG_MUST_CHECK;
/* Gives up what was written, if that has not ended. */
void pg_json_writer_clear(struct pg_json_writer *writer);
#define pg_autojsonwriter PG_CLEANUP(pg_json_writer_clear)

void pg_json_write_open(struct pg_json_writer *writer, const char *name, char bracket);
void pg_json_write_close(struct pg_json_writer *writer, char bracket);
/* The comma and name of a value that the caller writes to ->out. */
void pg_json_write_name(struct pg_json_writer *writer, const char *name);
/* NULL: null */
void pg_json_write_string(struct pg_json_writer *writer, const char *name, const char *text);
void pg_json_write_number(struct pg_json_writer *writer, const char *name, uint64_t number);
/* As a string of digits: a number of 64 bits, for PG_JSON_DECIMAL. */
void pg_json_write_decimal(struct pg_json_writer *writer, const char *name, uint64_t number);
/* With one digit after the point. */
void pg_json_write_real(struct pg_json_writer *writer, const char *name, double number);
void pg_json_write_bool(struct pg_json_writer *writer, const char *name, bool value);
void pg_json_write_null(struct pg_json_writer *writer, const char *name);
