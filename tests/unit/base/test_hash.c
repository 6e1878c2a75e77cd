/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/cleanup.h"

static bool holds(const struct pg_hash_table *table, uint64_t hash, uint32_t item)
{
	uint32_t found;

	for (size_t cursor = 0; pg_hash_table_next(table, hash, &cursor, &found);)
		if (found == item)
			return true;
	return false;
}

Test(hash, depends_on_key_size_and_every_octet)
{
	const struct pg_hash_key key = {.word = {1, 2}}, other = {.word = {1, 3}};
	char text[20] = {0};
	const uint64_t hash = pg_hash(&key, text, sizeof(text));

	cr_expect_eq(pg_hash(&key, text, sizeof(text)), hash);
	cr_expect_neq(pg_hash(&other, text, sizeof(text)), hash);
	for (size_t size = 0; size < sizeof(text); size++) {
		cr_expect_neq(pg_hash(&key, text, size), hash);
		text[size] = 1;
		cr_expect_neq(pg_hash(&key, text, sizeof(text)), hash, "octet %zu", size);
		text[size] = 0;
	}
}

Test(hash, keys_differ)
{
	struct pg_hash_key a, b;

	pg_hash_key_make(&a);
	pg_hash_key_make(&b);
	cr_expect_neq(memcmp(&a, &b, sizeof(a)), 0);
}

Test(hash_table, empty)
{
	struct pg_hash_table table = {};

	cr_expect_not(holds(&table, 7, 0));
	pg_hash_table_clear(&table);
}

/* Against a plain array, with so few hashes that all places are contested, around the end too. */
Test(hash_table, random_against_an_array)
{
	enum {
		ITEMS = 300
	};
	struct pg_hash_table table = {};
	uint64_t hashes[ITEMS] = {0};
	bool present[ITEMS] = {0};
	uint32_t state = 1;

	for (size_t step = 0; step < 30000; step++) {
		uint32_t item;

		state = state * 1664525 + 1013904223;
		item = (state >> 8) % (step < 15000 ? ITEMS : 9);
		if (present[item]) {
			pg_hash_table_remove(&table, hashes[item], item);
		} else {
			cr_assert_eq(pg_hash_table_reserve(&table, 1), 0);
			/* The upper half counts for nothing. */
			hashes[item] = (uint64_t)step << 32 | (uint32_t)(-4 + (int)(state >> 29));
			pg_hash_table_add(&table, hashes[item], item);
		}
		present[item] = !present[item];
		if (step % 64)
			continue;
		for (item = 0; item < ITEMS; item++)
			cr_assert_eq(holds(&table, hashes[item], item), present[item]);
	}
	pg_hash_table_clear(&table);
	cr_expect_eq(table.size, 0);
}
