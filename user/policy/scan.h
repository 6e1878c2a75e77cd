/* SPDX-License-Identifier: Apache-2.0 */
/* What cJSON does not check, checked before it sees the text. Private to this folder. */
#pragma once

#include <stddef.h>

#include "diagnostic.h"

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
