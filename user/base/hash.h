/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A keyed hash (SipHash-1-3; Aumasson, Bernstein 2012), and a table of numbers found by it: whoever
 * chooses what is hashed does not know the key, so cannot make it all fall on one place.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleanup.h"

struct pg_hash_key {
	uint64_t word[2];
};

void pg_hash_key_make(struct pg_hash_key *ret_key);
uint64_t pg_hash(const struct pg_hash_key *key, const void *data, size_t size);

/*
 * Open addressing. The table does not see the items, only the lower half of their hashes and their
 * numbers, which index an array of the caller's. All zero is an empty table.
 */
struct pg_hash_place {
	uint32_t hash;
	uint32_t item; /* + 1; 0: free */
};

struct pg_hash_table {
	struct pg_hash_place *places;
	size_t size; /* a power of two, or 0 */
	size_t count;
};

/* Makes room for more items than there are; -ENOMEM leaves the table as it is. */
int pg_hash_table_reserve(struct pg_hash_table *table, size_t more) PG_MUST_CHECK;
/* There must be room. */
void pg_hash_table_add(struct pg_hash_table *table, uint64_t hash, uint32_t item);
/* The item must be there. */
void pg_hash_table_remove(struct pg_hash_table *table, uint64_t hash, uint32_t item);
void pg_hash_table_clear(struct pg_hash_table *table);

/*
 * The next item that was added with the hash, or one that is alike in its lower half: the caller
 * compares. *cursor is 0 at first.
 */
bool pg_hash_table_next(const struct pg_hash_table *table, uint64_t hash, size_t *cursor,
			uint32_t *ret_item);
