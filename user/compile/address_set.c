/* SPDX-License-Identifier: Apache-2.0 */
#include "address_set.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "prefix_sort.h"

/* An address as two numbers, the more significant first. */
struct bits {
	uint64_t half[2];
};

static struct bits load_bits(const struct pg_addr *addr)
{
	struct bits bits;

	memcpy(bits.half, addr->word, sizeof(bits.half));
	bits.half[0] = be64toh(bits.half[0]);
	bits.half[1] = be64toh(bits.half[1]);
	return bits;
}

/* Length in bits of the 128 that struct pg_addr has. */
static unsigned int key_length(const struct pg_prefix *prefix)
{
	return prefix->length + (prefix->v4 ? 96U : 0U);
}

/* How many leading bits the two addresses share. */
static unsigned int common_bits(const struct pg_addr *a, const struct pg_addr *b)
{
	struct bits x = load_bits(a), y = load_bits(b);

	for (unsigned int i = 0; i < 2; i++) {
		uint64_t difference = x.half[i] ^ y.half[i];

		if (difference)
			return i * 64 + (unsigned int)__builtin_clzll(difference);
	}
	return 128;
}

/*
 * Whether outer holds all of inner, of the same family. Not pg_prefix_contains(): that one says
 * what a range allows, and no IPv6 range allows an IPv4-mapped address.
 */
static bool covers(const struct pg_prefix *outer, const struct pg_prefix *inner)
{
	return outer->length <= inner->length &&
	       common_bits(&outer->addr, &inner->addr) >= key_length(outer);
}

/* Whether low and high, in this order, are the two halves of a range one bit wider. */
static bool are_halves(const struct pg_prefix *low, const struct pg_prefix *high)
{
	return low->length == high->length && low->length > 0 &&
	       common_bits(&low->addr, &high->addr) == key_length(low) - 1;
}

/*
 * Reduces sorted prefixes of one family to the fewest that hold the same addresses, in place.
 * Everything up to count is disjoint and fully merged at each step. Returns the new count.
 */
static size_t merge_sorted(struct pg_prefix *prefixes, size_t total)
{
	size_t count = 0;

	for (size_t i = 0; i < total; i++) {
		if (count > 0 && covers(&prefixes[count - 1], &prefixes[i]))
			continue;
		prefixes[count++] = prefixes[i];
		while (count > 1 && are_halves(&prefixes[count - 2], &prefixes[count - 1])) {
			count--;
			/* The lower half has the bit that goes away cleared already. */
			prefixes[count - 1].length--;
		}
	}
	return count;
}

/* Takes over the array, which has room for more than was left of its ranges. */
static void take_merged(struct pg_prefix **ranges, size_t count, struct pg_prefix **ret_ranges,
			size_t *ret_count)
{
	struct pg_prefix *fitting;

	pg_prefix_sort(*ranges, count);
	count = merge_sorted(*ranges, count);
	if (!count)
		return;
	fitting = reallocarray(*ranges, count, sizeof(*fitting));
	*ret_ranges = fitting ? fitting : *ranges;
	*ret_count = count;
	*ranges = NULL;
}

static int out_of_memory(struct pg_error *err, size_t count)
{
	return pg_fail(err, -ENOMEM, "no memory to compile an address set of %zu ranges", count);
}

int pg_compile_prefixes(const struct pg_prefix *prefixes, size_t count,
			struct pg_address_set *ret_set, struct pg_error *err)
{
	pg_autofree struct pg_prefix *v4 = NULL, *v6 = NULL;
	struct pg_address_set set = {};
	size_t v4_count = 0, v6_count;

	for (size_t i = 0; i < count; i++)
		v4_count += prefixes[i].v4;
	v6_count = count - v4_count;
	v4 = reallocarray(NULL, v4_count + 1, sizeof(*v4));
	v6 = reallocarray(NULL, v6_count + 1, sizeof(*v6));
	if (!v4 || !v6)
		return out_of_memory(err, count);
	v4_count = v6_count = 0;
	for (size_t i = 0; i < count; i++)
		*(prefixes[i].v4 ? &v4[v4_count++] : &v6[v6_count++]) = prefixes[i];
	take_merged(&v4, v4_count, &set.v4, &set.v4_count);
	take_merged(&v6, v6_count, &set.v6, &set.v6_count);
	*ret_set = set;
	return 0;
}

/* Appends what the entry means in addresses; a name other than localhost means none yet. */
static size_t entry_prefixes(const struct pg_entry *entry, struct pg_prefix ret_prefixes[2])
{
	switch (entry->kind) {
	case PG_ENTRY_IP4:
	case PG_ENTRY_IP6:
	case PG_ENTRY_CIDR4:
	case PG_ENTRY_CIDR6:
		ret_prefixes[0] = entry->prefix;
		return 1;
	case PG_ENTRY_HOST:
		if (strcmp(entry->name, "localhost") != 0)
			return 0;
		ret_prefixes[0] = (struct pg_prefix){.addr = pg_addr_from_v4(htobe32(0x7f000001)),
						     .length = 32,
						     .v4 = true};
		ret_prefixes[1] = (struct pg_prefix){.addr = {.word = {0, 0, 0, htobe32(1)}},
						     .length = 128,
						     .v4 = false};
		return 2;
	case PG_ENTRY_WILDCARD:
		return 0;
	}
	return 0;
}

int pg_compile_phase(const struct pg_phase_policy *phase, struct pg_address_set *ret_set,
		     struct pg_error *err)
{
	size_t total = phase->entries ? phase->entries->count : 0, count = 0;
	pg_autofree struct pg_prefix *prefixes = NULL;

	if (total > 0) {
		/* localhost is two addresses, and may stand in the list more than once. */
		prefixes = reallocarray(NULL, total, 2 * sizeof(*prefixes));
		if (!prefixes)
			return out_of_memory(err, total);
	}
	for (size_t i = 0; i < total; i++)
		count += entry_prefixes(&phase->entries->items[i], &prefixes[count]);
	return pg_compile_prefixes(prefixes, count, ret_set, err);
}

bool pg_address_set_is_empty(const struct pg_address_set *set)
{
	return !set->v4_count && !set->v6_count;
}

static bool arrays_equal(const struct pg_prefix *a, size_t a_count, const struct pg_prefix *b,
			 size_t b_count)
{
	if (a_count != b_count)
		return false;
	for (size_t i = 0; i < a_count; i++) {
		if (pg_prefix_compare(&a[i], &b[i]) != 0)
			return false;
	}
	return true;
}

bool pg_address_set_equal(const struct pg_address_set *a, const struct pg_address_set *b)
{
	return arrays_equal(a->v4, a->v4_count, b->v4, b->v4_count) &&
	       arrays_equal(a->v6, a->v6_count, b->v6, b->v6_count);
}

void pg_address_set_clear(struct pg_address_set *set)
{
	free(set->v4);
	free(set->v6);
	*set = (struct pg_address_set){0};
}
