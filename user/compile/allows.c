/* SPDX-License-Identifier: Apache-2.0 */
#include "allows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address_set.h"
#include "name_index.h"

/* A hostname of 253 characters with "*." before it. */
#define NAME_ROOM 256

/* An address set has one form only: a adds nothing to b if both together are b. */
static bool has_addresses(const struct pg_phase_policy *a, const struct pg_phase_policy *b)
{
	const size_t count = a->entries->count + b->entries->count;
	struct pg_entries both = {.references = 1, .count = count};
	const struct pg_phase_policy together = {.mode = PG_MODE_ALLOWLIST, .entries = &both};
	struct pg_address_set wide = {0}, narrow = {0};
	bool result = false;

	/* The names in it stay the originals'. */
	both.items = reallocarray(NULL, count + 1, sizeof(*both.items));
	if (!both.items)
		return false;
	for (size_t i = 0; i < count; i++)
		both.items[i] = i < a->entries->count ? a->entries->items[i]
						      : b->entries->items[i - a->entries->count];
	if (pg_compile_phase(&together, &wide, NULL) == 0 &&
	    pg_compile_phase(b, &narrow, NULL) == 0)
		result = pg_address_set_equal(&wide, &narrow);
	pg_address_set_clear(&wide);
	pg_address_set_clear(&narrow);
	free(both.items);
	return result;
}

static bool has_name(const struct pg_name_index *index, const struct pg_entry *entry)
{
	char name[NAME_ROOM];

	if (entry->kind == PG_ENTRY_HOST)
		/* localhost is two addresses, and has been looked at as such. */
		return pg_name_index_find(index, entry->name).lists ||
		       strcmp(entry->name, "localhost") == 0;
	if (entry->kind != PG_ENTRY_WILDCARD)
		return true;
	/* A label that no host entry has: it stands for all labels. */
	snprintf(name, sizeof(name), "*.%s", entry->name);
	return pg_name_index_find(index, name).lists;
}

bool pg_entries_have_names(const struct pg_entries *a, const struct pg_entries *b)
{
	PG_CLEANUP(pg_name_index_freep) struct pg_name_index *index = NULL;

	if (pg_name_index_new(&b, 1, &index, NULL) < 0)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!has_name(index, &a->items[i]))
			return false;
	return true;
}

bool pg_phase_allows_no_more(const struct pg_phase_policy *a, const struct pg_phase_policy *b)
{
	if (a->mode == PG_MODE_NO_NETWORK || b->mode == PG_MODE_PUBLIC)
		return true;
	if (a->mode != PG_MODE_ALLOWLIST)
		return false;
	if (a->entries->count == 0)
		return true;
	if (b->mode != PG_MODE_ALLOWLIST)
		return false;
	return a->entries == b->entries ||
	       (has_addresses(a, b) && pg_entries_have_names(a->entries, b->entries));
}
