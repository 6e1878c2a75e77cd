/* SPDX-License-Identifier: Apache-2.0 */
#include "hash.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "clock.h"

#define SIZE_MIN 16

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

uint64_t pg_hash(const struct pg_hash_key *key, const void *data, size_t size)
{
	uint64_t v[4] = {key->word[0] ^ 0x736f6d6570736575, key->word[1] ^ 0x646f72616e646f6d,
			 key->word[0] ^ 0x6c7967656e657261, key->word[1] ^ 0x7465646279746573};
	const uint8_t *octets = data;

	for (size_t at = 0; at <= size; at += 8) {
		size_t left = size - at < 8 ? size - at : 8;
		uint64_t word = 0;

		memcpy(&word, octets + at, left);
		word = le64toh(word);
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

void pg_hash_key_make(struct pg_hash_key *ret_key)
{
	/* Early at boot there may be no entropy yet, and a policy must still load. */
	if (getrandom(ret_key, sizeof(*ret_key), GRND_NONBLOCK) != (ssize_t)sizeof(*ret_key)) {
		ret_key->word[0] = pg_monotonic_ns();
		ret_key->word[1] = (uint64_t)(uintptr_t)ret_key;
	}
}

static void put(struct pg_hash_place *places, size_t size, struct pg_hash_place place)
{
	size_t at = place.hash & (size - 1);

	while (places[at].item)
		at = (at + 1) & (size - 1);
	places[at] = place;
}

int pg_hash_table_reserve(struct pg_hash_table *table, size_t more)
{
	struct pg_hash_place *places;
	size_t size = table->size ? table->size : SIZE_MIN;

	/* At most three quarters full. */
	while (table->count + more > size - size / 4)
		size *= 2;
	if (size == table->size)
		return 0;
	places = calloc(size, sizeof(*places));
	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < table->size; i++)
		if (table->places[i].item)
			put(places, size, table->places[i]);
	free(table->places);
	table->places = places;
	table->size = size;
	return 0;
}

void pg_hash_table_add(struct pg_hash_table *table, uint64_t hash, uint32_t item)
{
	put(table->places, table->size,
	    (struct pg_hash_place){.hash = (uint32_t)hash, .item = item + 1});
	table->count++;
}

void pg_hash_table_remove(struct pg_hash_table *table, uint64_t hash, uint32_t item)
{
	const size_t mask = table->size - 1;
	size_t hole = (uint32_t)hash & mask;

	while (table->places[hole].item != item + 1)
		hole = (hole + 1) & mask;
	/* What follows moves down unless that would put it before its own place. */
	for (size_t at = (hole + 1) & mask; table->places[at].item; at = (at + 1) & mask) {
		const size_t home = table->places[at].hash & mask;

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		table->places[hole] = table->places[at];
		hole = at;
	}
	table->places[hole] = (struct pg_hash_place){};
	table->count--;
}

void pg_hash_table_clear(struct pg_hash_table *table)
{
	free(table->places);
	*table = (struct pg_hash_table){};
}

bool pg_hash_table_next(const struct pg_hash_table *table, uint64_t hash, size_t *cursor,
			uint32_t *ret_item)
{
	if (!table->size)
		return false;
	for (;;) {
		const struct pg_hash_place *place =
			&table->places[((uint32_t)hash + *cursor) & (table->size - 1)];

		if (!place->item)
			return false;
		++*cursor;
		if (place->hash == (uint32_t)hash) {
			*ret_item = place->item - 1;
			return true;
		}
	}
}
