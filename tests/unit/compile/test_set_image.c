/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's nodes against the set that they were made of, read as docs and abi/set.h say: the
 * last bound at or below the address, found by going down from the root, has an even place.
 */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "compile/set_image.h"

static uint64_t random_state;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1dULL;
}

struct key {
	uint64_t high, low;
};

static struct key key_of(const struct pg_addr *addr, bool v4)
{
	uint64_t half[2];

	if (v4)
		return (struct key){0, ntohl(addr->word[3])};
	memcpy(half, addr->word, sizeof(half));
	return (struct key){be64toh(half[0]), be64toh(half[1])};
}

static struct key key_at(const struct pg_set_node *node, uint32_t number, bool v4)
{
	if (v4)
		return (struct key){0, node->keys4[number]};
	return (struct key){node->keys6[number].high, node->keys6[number].low};
}

static bool is_above(struct key a, struct key b)
{
	return a.high > b.high || (a.high == b.high && a.low > b.low);
}

static bool contains(const struct pg_set_image *image, const struct pg_set_node *nodes,
		     const struct pg_addr *addr)
{
	const bool v4 = pg_addr_is_v4(addr);
	const uint32_t per_node = v4 ? PG_SET_KEYS4 : PG_SET_KEYS6;
	const struct pg_set_tree *tree = &nodes[0].root.trees[v4 ? PG_TABLE_V4 : PG_TABLE_V6];
	const struct key key = key_of(addr, v4);
	const uint64_t most = v4 ? UINT32_MAX : UINT64_MAX;
	uint32_t place = 0;

	if (!(image->tables & (1U << (v4 ? PG_TABLE_V4 : PG_TABLE_V6))))
		return false;
	cr_assert(tree->levels > 0);
	if (key.low == most && (v4 || key.high == most))
		return tree->last;
	for (uint32_t level = tree->levels; level-- > 0;) {
		const uint32_t number = tree->base[level] + place;
		uint32_t rank = 0;

		cr_assert_lt(number, image->nodes);
		while (rank < per_node && !is_above(key_at(&nodes[number], rank, v4), key))
			rank++;
		if (!rank)
			return false;
		place = place * per_node + rank - 1;
	}
	return !(place & 1);
}

static struct pg_set_node *make(const struct pg_address_set *set, struct pg_set_image *image)
{
	struct pg_set_node *nodes;
	struct pg_error err = {};

	cr_assert_eq(pg_set_image_plan(set, image, &err), 0, "%s", err.text);
	nodes = calloc(image->nodes + 1, sizeof(*nodes));
	cr_assert_not_null(nodes);
	if (image->nodes)
		pg_set_image_write(image, nodes);
	return nodes;
}

static void look_up(const struct pg_address_set *set, const struct pg_set_image *image,
		    const struct pg_set_node *nodes, const struct pg_addr *addr)
{
	char text[PG_ADDR_TEXT];

	cr_assert_eq(contains(image, nodes, addr), pg_address_set_contains(set, addr), "%s",
		     pg_addr_format(addr, text));
}

/* The address that is so far from this one. */
static struct pg_addr step(const struct pg_addr *from, bool v4, int by)
{
	struct pg_addr addr = *from;
	uint8_t *octets = (uint8_t *)addr.word;

	for (int i = 15; i >= (v4 ? 12 : 0); i--) {
		const int sum = octets[i] + by;

		octets[i] = (uint8_t)sum;
		by = sum < 0 ? -1 : sum > 255 ? 1 : 0;
	}
	return addr;
}

static struct pg_addr any_addr(bool v4, unsigned int spread)
{
	struct pg_addr addr = {.word = {htonl(0x20010db8)}};

	if (v4)
		return pg_addr_from_v4(htonl((uint32_t)(next_random() >> (64 - spread))));
	addr.word[1] = (uint32_t)next_random() & htonl(spread > 16 ? 0xff : 0);
	addr.word[3] = htonl((uint32_t)(next_random() >> (64 - spread)));
	return addr;
}

static struct pg_prefix any_prefix(bool v4)
{
	const unsigned int spread = next_random() % 2 ? 32 : 12;
	struct pg_prefix prefix = {
		.addr = any_addr(v4, spread),
		.length = v4 ? 32 : 128,
		.v4 = v4,
	};

	if (next_random() % 2)
		prefix.length = (uint8_t)(prefix.length - next_random() % 12);
	pg_prefix_mask(&prefix);
	return prefix;
}

static void compare(size_t count)
{
	struct pg_prefix *prefixes = calloc(count + 1, sizeof(*prefixes));
	struct pg_address_set set;
	struct pg_set_image image;
	struct pg_error err = {};
	struct pg_set_node *nodes;

	for (size_t i = 0; i < count; i++)
		prefixes[i] = any_prefix(next_random() % 2);
	cr_assert_eq(pg_compile_prefixes(prefixes, count, &set, &err), 0, "%s", err.text);
	nodes = make(&set, &image);
	for (size_t i = 0; i < count; i++) {
		struct pg_addr addr = prefixes[i].addr;

		look_up(&set, &image, nodes, &addr);
		addr = step(&prefixes[i].addr, prefixes[i].v4, -1);
		look_up(&set, &image, nodes, &addr);
		addr = step(&prefixes[i].addr, prefixes[i].v4, 1);
		look_up(&set, &image, nodes, &addr);
	}
	for (size_t i = 0; i < 2000; i++) {
		const struct pg_addr addr = any_addr(i % 2, i % 4 < 2 ? 32 : 12);

		look_up(&set, &image, nodes, &addr);
	}
	free(nodes);
	free(prefixes);
	pg_address_set_clear(&set);
}

Test(set_image, agrees_with_the_set)
{
	static const size_t counts[] = {0,  1,	 2,   7,    8,	  9,	31,   32,    33,
					63, 100, 300, 1000, 3000, 5000, 9000, 20000, 70000};

	random_state = pg_monotonic_ns() | 1;
	cr_log_info("seed %" PRIu64, random_state);
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		compare(counts[i]);
}

static void check_list(const char *const *texts, size_t count, const char *const *inside,
		       const char *const *outside, uint32_t bounds4, uint32_t bounds6)
{
	struct pg_prefix prefixes[8];
	struct pg_address_set set;
	struct pg_set_image image;
	struct pg_error err = {};
	struct pg_set_node *nodes;
	struct pg_addr addr;

	for (size_t i = 0; i < count; i++) {
		char text[64];
		char *slash;

		snprintf(text, sizeof(text), "%s", texts[i]);
		slash = strchr(text, '/');
		*slash = '\0';
		cr_assert_eq(pg_addr_parse(text, &addr), 0);
		prefixes[i] = (struct pg_prefix){.addr = addr,
						 .length = (uint8_t)atoi(slash + 1),
						 .v4 = !strchr(text, ':')};
	}
	cr_assert_eq(pg_compile_prefixes(prefixes, count, &set, &err), 0, "%s", err.text);
	nodes = make(&set, &image);
	cr_expect_eq(image.bounds[PG_TABLE_V4], bounds4, "%u", image.bounds[PG_TABLE_V4]);
	cr_expect_eq(image.bounds[PG_TABLE_V6], bounds6, "%u", image.bounds[PG_TABLE_V6]);
	for (; *inside; inside++) {
		cr_assert_eq(pg_addr_parse(*inside, &addr), 0);
		cr_expect(contains(&image, nodes, &addr), "%s", *inside);
	}
	for (; *outside; outside++) {
		cr_assert_eq(pg_addr_parse(*outside, &addr), 0);
		cr_expect(!contains(&image, nodes, &addr), "%s", *outside);
	}
	free(nodes);
	pg_address_set_clear(&set);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(set_image, ends_of_the_address_space)
{
	check_list(LIST("0.0.0.0/0", "::/0"), 2,
		   LIST("0.0.0.0", "255.255.255.255", "::", "::1",
			"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
		   LIST(NULL), 1, 1);
	check_list(LIST("255.255.255.255/32", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"), 2,
		   LIST("255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
		   LIST("255.255.255.254", "0.0.0.0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe",
			"::"),
		   1, 1);
	check_list(LIST("0.0.0.0/32", "::/128"), 2, LIST("0.0.0.0", "::"),
		   LIST("0.0.0.1", "255.255.255.255", "::1",
			"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
		   2, 2);
}

Test(set_image, ranges_that_touch_have_two_bounds)
{
	check_list(LIST("10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/30"), 3,
		   LIST("10.0.0.1", "10.0.0.4", "10.0.0.7"), LIST("10.0.0.0", "10.0.0.8"), 2, 0);
}

Test(set_image, families_are_apart)
{
	check_list(LIST("::/0"), 1, LIST("::1", "2001:db8::1"), LIST("10.0.0.1"), 0, 1);
	check_list(LIST("0.0.0.0/0"), 1, LIST("10.0.0.1"), LIST("::1", "2001:db8::1"), 1, 0);
}

Test(set_image, many_bounds_stay_small)
{
	enum {
		COUNT = 200000
	};
	struct pg_prefix *prefixes = calloc(COUNT, sizeof(*prefixes));
	struct pg_address_set set;
	struct pg_set_image image;
	struct pg_error err = {};

	/* Every other address of a range, so that nothing merges. */
	for (uint32_t i = 0; i < COUNT; i++) {
		struct pg_addr addr = pg_addr_from_v4(htonl(0x0a000000 + 2 * i));

		prefixes[i] = pg_prefix_from_addr(&addr);
	}
	cr_assert_eq(pg_compile_prefixes(prefixes, COUNT, &set, &err), 0);
	cr_assert_eq(pg_set_image_plan(&set, &image, &err), 0);
	cr_expect_eq(image.bounds[PG_TABLE_V4], 2 * COUNT);
	cr_expect_lt((size_t)image.nodes * PG_SET_NODE_BYTES, 10UL * COUNT);
	free(prefixes);
	pg_address_set_clear(&set);
}

/* Written with its own ranges, or with what it would be without one of them, or with another. */
Test(set_image, knows_whether_nodes_are_the_same)
{
	enum {
		COUNT = 3000
	};
	static struct pg_prefix prefixes[2 * COUNT];
	struct pg_set_image image, other;
	struct pg_error err = {};

	for (uint32_t i = 0; i < COUNT; i++) {
		struct pg_addr addr = pg_addr_from_v4(htonl(0x0a000000 + 2 * i));

		prefixes[i] = pg_prefix_from_addr(&addr);
		addr = (struct pg_addr){.word = {htonl(0x20010db8), 0, 0, htonl(2 * i)}};
		prefixes[COUNT + i] = pg_prefix_from_addr(&addr);
	}
	for (size_t changed = 0; changed < 2UL * COUNT; changed += 457) {
		struct pg_address_set set = {.v4 = prefixes,
					     .v4_count = COUNT,
					     .v6 = prefixes + COUNT,
					     .v6_count = COUNT};
		struct pg_set_node *nodes = make(&set, &image);
		__be32 *last = &prefixes[changed].addr.word[3];

		cr_expect(pg_set_image_is(&image, nodes, image.nodes));
		cr_expect(!pg_set_image_is(&image, nodes, image.nodes - 1));
		/* The addresses have even numbers. */
		*last ^= htonl(1);
		cr_assert_eq(pg_set_image_plan(&set, &other, &err), 0);
		cr_expect_neq(other.digest, image.digest, "%zu", changed);
		cr_expect(!pg_set_image_is(&other, nodes, image.nodes), "%zu", changed);
		*last ^= htonl(1);
		cr_assert_eq(pg_set_image_plan(&set, &other, &err), 0);
		cr_expect_eq(other.digest, image.digest);
		set.v6_count--;
		cr_assert_eq(pg_set_image_plan(&set, &other, &err), 0);
		cr_expect(!pg_set_image_is(&other, nodes, image.nodes));
		free(nodes);
	}
}
