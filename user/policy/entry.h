/* SPDX-License-Identifier: Apache-2.0 */
/* One allowed_hosts entry: text -> value, or what is wrong with it. Private to this folder. */
#pragma once

#include "policy.h"

/* RFC 1035, 2.3.4: 255 octets on the wire are 253 characters of text. */
#define PG_HOSTNAME_MAX 253
#define PG_LABEL_MAX	63

struct pg_entry_fault {
	enum pg_diagnostic_code code;
	char hint[PG_HOSTNAME_MAX + 1]; /* always an entry in normal form; "": no sure suggestion */
};

/*
 * Reads one entry; text is UTF-8 with PG_TEXT_NUL for NUL. Returns 0 and an entry that
 * pg_entry_clear() releases, -EINVAL and the fault, or -ENOMEM.
 */
int pg_entry_parse(const char *text, struct pg_entry *ret_entry,
		   struct pg_entry_fault *ret_fault) PG_MUST_CHECK;
int pg_entry_copy(const struct pg_entry *entry, struct pg_entry *ret_copy) PG_MUST_CHECK;
bool pg_entry_equal(const struct pg_entry *a, const struct pg_entry *b);
void pg_entry_clear(struct pg_entry *entry);

/* Name of the entry; NULL for addresses and ranges. */
static inline const char *pg_entry_name(const struct pg_entry *entry)
{
	return entry->kind == PG_ENTRY_HOST || entry->kind == PG_ENTRY_WILDCARD ? entry->name
										: NULL;
}
