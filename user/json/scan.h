/* SPDX-License-Identifier: Apache-2.0 */
/* What cJSON does not check, checked before it sees the text. */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"

/* What can be wrong with a text before its meaning is looked at. */
enum pg_json_fault {
	PG_JSON_SYNTAX,
	PG_JSON_TOO_LARGE,
	PG_JSON_TOO_DEEP,
	PG_JSON_TOO_MANY_VALUES,
};

struct pg_json_limits {
	size_t size; /* octets of the text; what is skipped counts too */
	size_t depth;
	/* Elements and members. cJSON takes over sixty octets for each, so 64 MiB of "0,0,0,"
	 * would otherwise become gigabytes. */
	size_t values;
	/*
	 * A member of the outermost object whose value is left as it is: another parser reads it.
	 * It counts neither as depth nor as values. NULL: none.
	 */
	const char *skip;
};

/* The value that stands in the copy for the one that is skipped. */
#define PG_JSON_SKIPPED '0'

struct pg_json_scan {
	size_t size; /* of the copy */
	/* The value that was skipped, the last of its name; NULL: none. */
	const char *skipped;
	size_t skipped_size;
	/* On failure: what, and at which octet of the text. */
	enum pg_json_fault fault;
	size_t position;
};

/*
 * Checks size, nesting depth, number of values, UTF-8, and that strings have no raw control
 * characters; copies text to copy (size + 1 octets) with PG_TEXT_NUL for each \u0000 in a string,
 * and a NUL after it. -EINVAL: see ret_scan->fault.
 */
int pg_json_scan(const char *text, size_t size, const struct pg_json_limits *limits, char *copy,
		 struct pg_json_scan *ret_scan) PG_MUST_CHECK;
