/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of entries, shared by reference. Private to this folder. */
#pragma once

#include "entry.h"

/* An empty list with room for capacity entries; NULL: no memory. */
struct pg_entries *pg_entries_new(size_t capacity) PG_MUST_CHECK;
struct pg_entries *pg_entries_ref(struct pg_entries *entries);
void pg_entries_unref(struct pg_entries *entries);
static inline void pg_entries_unrefp(struct pg_entries **entries)
{
	pg_entries_unref(*entries);
}
#define pg_autoentries PG_CLEANUP(pg_entries_unrefp)

/* A list of its own with the same entries and room for one more; NULL: no memory. */
struct pg_entries *pg_entries_copy(const struct pg_entries *entries) PG_MUST_CHECK;

/* Makes room for one more entry in a list that nobody shares. */
int pg_entries_reserve(struct pg_entries *entries) PG_MUST_CHECK;

bool pg_entries_contain(const struct pg_entries *entries, const struct pg_entry *entry);

/* Drops all but the first of equal entries, in linear time; *ret_removed says how many. */
int pg_entries_merge_duplicates(struct pg_entries *entries, size_t *ret_removed) PG_MUST_CHECK;
