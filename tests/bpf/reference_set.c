/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_set.h"

#include <stdlib.h>
#include <string.h>

#define FREE 255

/* Keeps the first bits of the 128 and sets the others as told. */
static struct pg_addr cut(const struct pg_addr *addr, unsigned int bits, bool ones)
{
	struct pg_addr result;
	uint8_t octets[16];

	memcpy(octets, addr, sizeof(octets));
	for (unsigned int bit = bits; bit < 128; bit++) {
		const uint8_t one = (uint8_t)(0x80 >> bit % 8);

		octets[bit / 8] = ones ? octets[bit / 8] | one : octets[bit / 8] & (uint8_t)~one;
	}
	memcpy(&result, octets, sizeof(result));
	return result;
}

/* Bits of the 128: an IPv4 address is the last 32. */
static unsigned int bits_of(bool v4, unsigned int length)
{
	return v4 ? 96 + length : length;
}

struct pg_addr reference_first(const struct pg_prefix *prefix)
{
	return cut(&prefix->addr, bits_of(prefix->v4, prefix->length), false);
}

struct pg_addr reference_last(const struct pg_prefix *prefix)
{
	return cut(&prefix->addr, bits_of(prefix->v4, prefix->length), true);
}

struct pg_addr reference_beside(struct pg_addr addr, bool further)
{
	uint8_t octets[16];

	memcpy(octets, &addr, sizeof(octets));
	for (size_t i = sizeof(octets); i-- > 0;) {
		octets[i] = (uint8_t)(octets[i] + (further ? 1 : -1));
		if (octets[i] != (further ? 0 : 0xff))
			break;
	}
	memcpy(&addr, octets, sizeof(octets));
	return addr;
}

static bool is_v4(const struct pg_addr *addr)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(addr, mapped, sizeof(mapped));
}

/* FNV-1a */
static size_t hash_of(const struct pg_addr *addr, unsigned int length, bool v4)
{
	const uint8_t *octets = (const uint8_t *)addr;
	uint64_t hash = 0xcbf29ce484222325U ^ (uint64_t)(length << 1 | v4);

	for (size_t i = 0; i < sizeof(*addr); i++)
		hash = (hash ^ octets[i]) * 0x100000001b3U;
	return (size_t)(hash ^ hash >> 29);
}

/* The slot that has it, or the free one where it belongs. */
static struct pg_prefix *find(const struct reference_set *set, const struct pg_addr *addr,
			      unsigned int length, bool v4)
{
	for (size_t at = hash_of(addr, length, v4);; at++) {
		struct pg_prefix *slot = &set->slots[at & set->mask];

		if (slot->length == FREE || (slot->length == length && slot->v4 == v4 &&
					     !memcmp(&slot->addr, addr, sizeof(*addr))))
			return slot;
	}
}

bool reference_set_make(struct reference_set *ret_set, const struct pg_prefix *prefixes,
			size_t count)
{
	size_t room = 16;

	while (room < 2 * count)
		room *= 2;
	*ret_set = (struct reference_set){
		.slots = calloc(room, sizeof(*prefixes)),
		.mask = room - 1,
	};
	if (!ret_set->slots)
		return false;
	for (size_t i = 0; i < room; i++)
		ret_set->slots[i].length = FREE;
	for (size_t i = 0; i < count; i++) {
		const struct pg_addr first = reference_first(&prefixes[i]);
		struct pg_prefix *slot = find(ret_set, &first, prefixes[i].length, prefixes[i].v4);

		*slot = prefixes[i];
		slot->addr = first;
		ret_set->lengths[prefixes[i].v4][prefixes[i].length] = true;
	}
	return true;
}

void reference_set_clear(struct reference_set *set)
{
	free(set->slots);
	*set = (struct reference_set){0};
}

bool reference_set_contains(const struct reference_set *set, const struct pg_addr *addr)
{
	const bool v4 = is_v4(addr);

	for (unsigned int length = 0; length <= (v4 ? 32 : 128); length++) {
		const struct pg_addr first = cut(addr, bits_of(v4, length), false);

		if (set->lengths[v4][length] && find(set, &first, length, v4)->length != FREE)
			return true;
	}
	return false;
}
