/* SPDX-License-Identifier: Apache-2.0 */
/* Text from outside: UTF-8, printable form, edit distance; paths. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleanup.h"

/*
 * How a NUL inside a JSON string is kept in a C string: the two octets of "modified UTF-8", which
 * valid UTF-8 never contains. The scan puts it in place of each \u0000, since cJSON would cut the
 * string there and take what is left for the whole.
 */
#define PG_TEXT_NUL "\xc0\x80"

/* Decodes one code point of at most size octets. Returns its length, 0 if it is not UTF-8. */
size_t pg_utf8_decode(const char *text, size_t size, uint32_t *ret_code);

/*
 * A fresh copy in which control characters and what else could mislead a terminal are escaped as
 * \uXXXX; what is longer than max octets ends with "...". NULL: no memory.
 */
char *pg_text_printable(const char *text, size_t size, size_t max) PG_MUST_CHECK;

/* Whether the path is the other one or below it; neither ends with a slash, unless it is the root.
 */
bool pg_path_is_within(const char *path, const char *other);

/* Longest misspelling that is taken for a known word. */
#define PG_TEXT_NEAR 2

/* The word with the least Levenshtein distance to text, at most PG_TEXT_NEAR, or NULL. */
const char *pg_text_nearest(const char *text, const char *const *words, size_t count);
