/* SPDX-License-Identifier: Apache-2.0 */
#include "entries.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

static const char *const kind_names[] = {
#define PG_X(symbol, name) [PG_ENTRY_##symbol] = name,
	PG_ENTRY_KINDS(PG_X)
#undef PG_X
};

const char *pg_entry_kind_name(enum pg_entry_kind kind)
{
	return kind_names[kind];
}

char *pg_entry_format(const struct pg_entry *entry)
{
	const char *name = pg_entry_name(entry);
	char address[PG_ADDR_TEXT];
	char *text = NULL;

	if (!name)
		return strdup(pg_prefix_format(&entry->prefix, address));
	if (asprintf(&text, "%s%s", entry->kind == PG_ENTRY_WILDCARD ? "*." : "", name) < 0)
		return NULL;
	return text;
}

void pg_entry_clear(struct pg_entry *entry)
{
	if (pg_entry_name(entry))
		free(entry->name);
}

int pg_entry_copy(const struct pg_entry *entry, struct pg_entry *ret_copy)
{
	struct pg_entry copy = *entry;

	if (pg_entry_name(entry)) {
		copy.name = strdup(entry->name);
		if (!copy.name)
			return -ENOMEM;
	}
	*ret_copy = copy;
	return 0;
}

bool pg_entry_equal(const struct pg_entry *a, const struct pg_entry *b)
{
	if (a->kind != b->kind)
		return false;
	if (pg_entry_name(a))
		return strcmp(a->name, b->name) == 0;
	return pg_prefix_compare(&a->prefix, &b->prefix) == 0;
}

struct pg_entries *pg_entries_new(size_t capacity)
{
	struct pg_entries *entries = calloc(1, sizeof(*entries));

	if (!entries)
		return NULL;
	entries->references = 1;
	if (capacity) {
		entries->items = calloc(capacity, sizeof(*entries->items));
		if (!entries->items) {
			free(entries);
			return NULL;
		}
	}
	return entries;
}

struct pg_entries *pg_entries_ref(struct pg_entries *entries)
{
	if (entries)
		entries->references++;
	return entries;
}

void pg_entries_unref(struct pg_entries *entries)
{
	if (!entries || --entries->references > 0)
		return;
	for (size_t i = 0; i < entries->count; i++)
		pg_entry_clear(&entries->items[i]);
	free(entries->items);
	free(entries);
}

struct pg_entries *pg_entries_copy(const struct pg_entries *entries)
{
	pg_autoentries struct pg_entries *copy = pg_entries_new(entries->count + 1);

	if (!copy)
		return NULL;
	for (size_t i = 0; i < entries->count; i++) {
		if (pg_entry_copy(&entries->items[i], &copy->items[i]) < 0)
			return NULL;
		copy->count++;
	}
	return PG_TAKE_PTR(copy);
}

int pg_entries_reserve(struct pg_entries *entries)
{
	struct pg_entry *items =
		realloc(entries->items, (entries->count + 1) * sizeof(*entries->items));

	if (!items)
		return -ENOMEM;
	entries->items = items;
	return 0;
}

bool pg_entries_contain(const struct pg_entries *entries, const struct pg_entry *entry)
{
	for (size_t i = 0; i < entries->count; i++) {
		if (pg_entry_equal(&entries->items[i], entry))
			return true;
	}
	return false;
}

static uint64_t hash_entry(const struct pg_hash_key *key, const struct pg_entry *entry)
{
	const char *name = pg_entry_name(entry);
	uint8_t octets[sizeof(struct pg_addr) + 2];

	/* A host and a wildcard of the same name may share a place; they are compared anyway. */
	if (name)
		return pg_hash(key, name, strlen(name));
	memcpy(octets, &entry->prefix.addr, sizeof(struct pg_addr));
	octets[sizeof(struct pg_addr)] = entry->prefix.length;
	octets[sizeof(struct pg_addr) + 1] = entry->prefix.v4;
	return pg_hash(key, octets, sizeof(octets));
}

/* Whether an equal entry is in the table; adds the index if not. There must be room. */
static bool find_or_add(struct pg_hash_table *table, uint64_t hash,
			const struct pg_entries *entries, uint32_t index)
{
	uint32_t other;

	for (size_t cursor = 0; pg_hash_table_next(table, hash, &cursor, &other);)
		if (pg_entry_equal(&entries->items[other], &entries->items[index]))
			return true;
	pg_hash_table_add(table, hash, index);
	return false;
}

int pg_entries_merge_duplicates(struct pg_entries *entries, size_t *ret_removed)
{
	PG_CLEANUP(pg_hash_table_clear) struct pg_hash_table table = {};
	struct pg_hash_key key;
	size_t kept = 0;

	if (pg_hash_table_reserve(&table, entries->count) < 0)
		return -ENOMEM;
	pg_hash_key_make(&key);
	for (size_t i = 0; i < entries->count; i++) {
		uint64_t hash = hash_entry(&key, &entries->items[i]);

		/* Move it down first: the table's indices are those of the kept entries. */
		if (i != kept) {
			struct pg_entry moved = entries->items[kept];

			entries->items[kept] = entries->items[i];
			entries->items[i] = moved;
		}
		if (!find_or_add(&table, hash, entries, (uint32_t)kept))
			kept++;
	}
	*ret_removed = entries->count - kept;
	for (size_t i = kept; i < entries->count; i++)
		pg_entry_clear(&entries->items[i]);
	entries->count = kept;
	return 0;
}
