/* SPDX-License-Identifier: Apache-2.0 */
#include "entries.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

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

/*
 * SipHash-1-3 (Aumasson, Bernstein): keyed, so that a document cannot be made whose entries all
 * fall on one place of the table.
 */

static uint64_t rotate(uint64_t value, int bits)
{
	return value << bits | value >> (64 - bits);
}

static void siphash_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

static uint64_t siphash(const uint64_t key[2], const void *data, size_t size)
{
	uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
			 key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
	const uint8_t *octets = data;

	for (size_t at = 0; at <= size; at += 8) {
		size_t left = size - at < 8 ? size - at : 8;
		uint64_t word = 0;

		memcpy(&word, octets + at, left);
		if (left < 8)
			word |= (uint64_t)size << 56;
		v[3] ^= word;
		siphash_round(v);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		siphash_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint64_t hash_entry(const uint64_t key[2], const struct pg_entry *entry)
{
	const char *name = pg_entry_name(entry);
	uint8_t octets[sizeof(struct pg_addr) + 2];

	/* A host and a wildcard of the same name may share a place; they are compared anyway. */
	if (name)
		return siphash(key, name, strlen(name));
	memcpy(octets, &entry->prefix.addr, sizeof(struct pg_addr));
	octets[sizeof(struct pg_addr)] = entry->prefix.length;
	octets[sizeof(struct pg_addr) + 1] = entry->prefix.v4;
	return siphash(key, octets, sizeof(octets));
}

static void make_key(uint64_t key[2])
{
	/* Early at boot there may be no entropy yet, and a policy must still load. */
	if (getrandom(key, 2 * sizeof(*key), GRND_NONBLOCK) != (ssize_t)(2 * sizeof(*key))) {
		key[0] = pg_monotonic_ns();
		key[1] = (uint64_t)(uintptr_t)key;
	}
}

/* A place of the open-addressing table. The tag spares most looks at entries that differ. */
struct place {
	uint32_t tag;
	uint32_t index; /* of the entry, + 1; 0: free */
};

/* Whether an equal entry is in the table; adds the index if not. */
static bool find_or_add(struct place *table, size_t mask, uint64_t hash,
			const struct pg_entries *entries, size_t index)
{
	uint32_t tag = (uint32_t)(hash >> 32);
	size_t at = hash & mask;

	for (; table[at].index; at = (at + 1) & mask) {
		if (table[at].tag == tag &&
		    pg_entry_equal(&entries->items[table[at].index - 1], &entries->items[index]))
			return true;
	}
	table[at] = (struct place){.tag = tag, .index = (uint32_t)index + 1};
	return false;
}

int pg_entries_merge_duplicates(struct pg_entries *entries, size_t *ret_removed)
{
	pg_autofree struct place *table = NULL;
	size_t size = 16, kept = 0;
	uint64_t key[2];

	while (size < 2 * entries->count)
		size *= 2;
	table = calloc(size, sizeof(*table));
	if (!table)
		return -ENOMEM;
	make_key(key);
	for (size_t i = 0; i < entries->count; i++) {
		uint64_t hash = hash_entry(key, &entries->items[i]);

		/* Move it down first: the table's indices are those of the kept entries. */
		if (i != kept) {
			struct pg_entry moved = entries->items[kept];

			entries->items[kept] = entries->items[i];
			entries->items[i] = moved;
		}
		if (!find_or_add(table, size - 1, hash, entries, kept))
			kept++;
	}
	*ret_removed = entries->count - kept;
	for (size_t i = kept; i < entries->count; i++)
		pg_entry_clear(&entries->items[i]);
	entries->count = kept;
	return 0;
}
