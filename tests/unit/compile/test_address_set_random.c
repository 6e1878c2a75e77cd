/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler against a naive reference: a window of eight address bits is small enough to be a
 * table of 256 cells, from which membership and the only possible canonical form can be read off.
 */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <string.h>

#include "base/clock.h"
#include "compile/address_set.h"

#define WINDOW_BITS 8
#define CELLS	    (1U << WINDOW_BITS)

static uint64_t random_state;

static uint32_t random_below(uint32_t bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 16) % bound);
}

/* Bits start..start+7 of a family's addresses, under fixed bits before them. */
struct window {
	bool v4;
	unsigned int start;
	struct pg_addr base;
	bool cells[CELLS];
};

static void set_bit(struct pg_addr *addr, unsigned int bit, bool value)
{
	uint8_t *octet = (uint8_t *)addr->word + bit / 8;

	*octet = (uint8_t)((*octet & ~(0x80 >> bit % 8)) | (value ? 0x80 >> bit % 8 : 0));
}

static struct pg_addr window_address(const struct window *window, unsigned int cell)
{
	struct pg_addr addr = window->base;

	for (unsigned int i = 0; i < WINDOW_BITS; i++)
		set_bit(&addr, (window->v4 ? 96 : 0) + window->start + i,
			cell >> (WINDOW_BITS - 1 - i) & 1);
	return addr;
}

static struct pg_prefix window_prefix(const struct window *window, unsigned int cell,
				      unsigned int depth)
{
	return (struct pg_prefix){.addr = window_address(window, cell),
				  .length = (uint8_t)(window->start + depth),
				  .v4 = window->v4};
}

static void random_window(struct window *window, bool v4)
{
	const unsigned int family_bits = v4 ? 32 : 128;
	/* Both ends of the address often: /0 and exact addresses. */
	unsigned int kind = random_below(4);

	memset(window, 0, sizeof(*window));
	window->v4 = v4;
	window->start = kind == 0   ? 0
			: kind == 1 ? random_below(family_bits - WINDOW_BITS)
				    : family_bits - WINDOW_BITS;
	if (v4)
		window->base = pg_addr_from_v4(0);
	if (!v4 && kind == 3) {
		/* Inside the IPv4-mapped range. */
		window->base = pg_addr_from_v4(0);
		set_bit(&window->base, 100, 1);
		return;
	}
	for (unsigned int i = 0; i < window->start; i++)
		set_bit(&window->base, (v4 ? 96 : 0) + i, random_below(2));
}

static size_t fill_randomly(struct window *window, struct pg_prefix *ret_prefixes, size_t count)
{
	/* Few wide ranges, else everything is covered by them. */
	const unsigned int narrowest = random_below(WINDOW_BITS + 1);

	for (size_t i = 0; i < count; i++) {
		unsigned int depth = narrowest + random_below(WINDOW_BITS + 1 - narrowest);
		unsigned int width = CELLS >> depth, first = random_below(CELLS) / width * width;

		ret_prefixes[i] = window_prefix(window, first, depth);
		memset(&window->cells[first], 1, width);
	}
	return count;
}

/* Appends the widest ranges that hold only set cells. */
static void canonical(const struct window *window, unsigned int first, unsigned int depth,
		      struct pg_prefix *ret_prefixes, size_t *count)
{
	unsigned int width = CELLS >> depth, set = 0;

	for (unsigned int i = 0; i < width; i++)
		set += window->cells[first + i];
	if (set == 0)
		return;
	if (set == width) {
		ret_prefixes[(*count)++] = window_prefix(window, first, depth);
		return;
	}
	canonical(window, first, depth + 1, ret_prefixes, count);
	canonical(window, first + width / 2, depth + 1, ret_prefixes, count);
}

static void expect_canonical(const struct window *window, const struct pg_prefix *ranges,
			     size_t range_count, uint64_t seed)
{
	struct pg_prefix expected[CELLS];
	size_t count = 0;

	canonical(window, 0, 0, expected, &count);
	cr_assert_eq(count, range_count, "seed %lu", seed);
	for (size_t i = 0; i < count; i++)
		cr_assert(pg_prefix_compare(&ranges[i], &expected[i]) == 0, "seed %lu: range %zu",
			  seed, i);
}

/* Whether any of the input holds addr; knows nothing of order or merging. */
static bool naive_contains(const struct pg_prefix *prefixes, size_t count,
			   const struct pg_addr *addr)
{
	for (size_t i = 0; i < count; i++) {
		if (pg_prefix_contains(&prefixes[i], addr))
			return true;
	}
	return false;
}

static void expect_membership(const struct window *window, const struct pg_address_set *set,
			      const struct pg_prefix *prefixes, size_t count, uint64_t seed)
{
	for (unsigned int cell = 0; cell < CELLS; cell++) {
		struct pg_addr addr = window_address(window, cell);
		bool expected = window->cells[cell];

		/* A destination in the mapped form is IPv4, whatever an IPv6 range says. */
		if (!window->v4 && pg_addr_is_v4(&addr))
			expected = naive_contains(prefixes, count, &addr);
		cr_assert_eq(pg_address_set_contains(set, &addr), expected, "seed %lu: cell %u",
			     seed, cell);
	}
}

static void shuffle(struct pg_prefix *prefixes, size_t count)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = random_below((uint32_t)i);
		struct pg_prefix swap = prefixes[i - 1];

		prefixes[i - 1] = prefixes[j];
		prefixes[j] = swap;
	}
}

/* The same addresses, cut into other pieces: every cell on its own, in any order, some twice. */
static size_t split_differently(const struct window *window, struct pg_prefix *ret_prefixes)
{
	size_t count = 0;

	for (unsigned int cell = 0; cell < CELLS; cell++) {
		for (unsigned int n = window->cells[cell] ? 1 + random_below(2) : 0; n > 0; n--)
			ret_prefixes[count++] = window_prefix(window, cell, WINDOW_BITS);
	}
	return count;
}

static void try_one(uint64_t seed)
{
	static struct pg_prefix prefixes[4 * CELLS];
	struct pg_address_set set, other;
	struct window v4, v6;
	size_t count;

	random_state = seed * 0x9e3779b97f4a7c15ULL + 1;
	random_window(&v4, true);
	random_window(&v6, false);
	count = fill_randomly(&v4, prefixes, random_below(CELLS));
	count += fill_randomly(&v6, prefixes + count, random_below(CELLS));
	shuffle(prefixes, count);
	cr_assert_eq(pg_compile_prefixes(prefixes, count, &set, NULL), 0);
	expect_canonical(&v4, set.v4, set.v4_count, seed);
	expect_canonical(&v6, set.v6, set.v6_count, seed);
	expect_membership(&v4, &set, prefixes, count, seed);
	expect_membership(&v6, &set, prefixes, count, seed);

	count = split_differently(&v4, prefixes);
	count += split_differently(&v6, prefixes + count);
	shuffle(prefixes, count);
	cr_assert_eq(pg_compile_prefixes(prefixes, count, &other, NULL), 0);
	cr_assert(pg_address_set_equal(&set, &other), "seed %lu", seed);
	if (count > 0) {
		pg_address_set_clear(&other);
		cr_assert_eq(pg_compile_prefixes(prefixes, 0, &other, NULL), 0);
		cr_assert_not(pg_address_set_equal(&set, &other), "seed %lu", seed);
	}
	pg_address_set_clear(&set);
	pg_address_set_clear(&other);
}

Test(address_set_random, small_universes)
{
	for (uint64_t seed = 1; seed <= 3000; seed++)
		try_one(seed);
}

#define MILLION 1048576

static struct pg_addr random_address(bool v4)
{
	struct pg_addr addr = {0};

	for (unsigned int i = 0; i < 4; i++)
		addr.word[i] = htonl(random_below(UINT32_MAX));
	/* IPv6 under one /32, as real lists are. */
	if (!v4)
		addr.word[0] = htonl(0x20010db8);
	return v4 ? pg_addr_from_v4(addr.word[3]) : addr;
}

Test(address_set_random, a_million_entries)
{
	struct pg_prefix *prefixes = calloc(MILLION, sizeof(*prefixes));
	struct pg_address_set set;
	uint64_t start, took;
	size_t inside = 0;

	cr_assert(prefixes);
	random_state = 20240229;
	for (size_t i = 0; i < MILLION; i++) {
		bool v4 = random_below(2);

		prefixes[i].addr = random_address(v4);
		prefixes[i].v4 = v4;
		prefixes[i].length = (uint8_t)(v4 ? 20 + random_below(13) : 64 + random_below(65));
		pg_prefix_mask(&prefixes[i]);
	}
	start = pg_monotonic_ns();
	cr_assert_eq(pg_compile_prefixes(prefixes, MILLION, &set, NULL), 0);
	took = pg_monotonic_ns() - start;
	cr_log_info("compiled %d entries in %llu us", MILLION, took / PG_NSEC_PER_USEC);
	/* The naive reference is slow: a hundred addresses, half of them near an entry. */
	for (unsigned int i = 0; i < 100; i++) {
		struct pg_addr addr = random_address(i % 4 < 2);
		bool expected;

		if (i % 2) {
			addr = prefixes[random_below(MILLION)].addr;
			addr.word[3] ^= htonl(random_below(512));
		}
		expected = naive_contains(prefixes, MILLION, &addr);
		cr_assert_eq(pg_address_set_contains(&set, &addr), expected, "sample %u", i);
		inside += expected;
	}
	cr_expect(inside > 0 && inside < 100, "%zu of 100 inside", inside);
	pg_address_set_clear(&set);
	free(prefixes);
}
