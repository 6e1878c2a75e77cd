/* SPDX-License-Identifier: Apache-2.0 */
/* What cJSON does not check, checked before it sees the text. Private to this folder. */
#pragma once

#include <stddef.h>

#include "diagnostic.h"

/*
 * How a NUL inside a JSON string is kept in a C string: the two octets of "modified UTF-8", which
 * valid UTF-8 never contains. The scan puts it in place of each \u0000, since cJSON would cut the
 * string there and take what is left for the whole.
 */
#define PG_TEXT_NUL "\xc0\x80"

/*
 * JSON values (elements and members) of one document: room for three full lists. cJSON takes over
 * sixty octets for each, so 64 MiB of "0,0,0," would otherwise become gigabytes.
 */
#define PG_POLICY_VALUES_MAX (4UL * 1024 * 1024)

/*
 * Checks nesting depth, number of values, UTF-8, and that strings have no raw control characters;
 * copies text to copy (size + 1 octets) with PG_TEXT_NUL for each \u0000 in a string, and a NUL
 * after it. Returns 0 and the length of the copy, or -EINVAL, the code, and the octet at fault.
 */
int pg_scan(const char *text, size_t size, char *copy, size_t *ret_size,
	    enum pg_diagnostic_code *ret_code, size_t *ret_position) PG_MUST_CHECK;
