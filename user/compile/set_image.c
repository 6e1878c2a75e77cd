/* SPDX-License-Identifier: Apache-2.0 */
#include "set_image.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

/* A set with so many leaves that finding the place anew costs more than a hint has this many at
 * most: a hint takes four octets, and all of them should stay in a core's cache. */
#define HINTS_MAX	16384U
/* A hint for so many bounds, as long as that is not too many. */
#define BOUNDS_PER_HINT 8U

/* Of the digest: odd, with bits all over (Knuth, MMIX). */
#define MULTIPLIER 6364136223846793005ULL

static __uint128_t number_of(const struct pg_prefix *range, bool v4)
{
	uint64_t half[2];

	if (v4)
		return be32toh(range->addr.word[3]);
	memcpy(half, range->addr.word, sizeof(half));
	return (__uint128_t)be64toh(half[0]) << 64 | be64toh(half[1]);
}

static __uint128_t highest(bool v4)
{
	return v4 ? (__uint128_t)UINT32_MAX : ~(__uint128_t)0;
}

static __uint128_t last_of(const struct pg_prefix *range, bool v4)
{
	const unsigned int host_bits = (v4 ? 32U : 128U) - range->length;

	if (host_bits == 128)
		return ~(__uint128_t)0;
	return number_of(range, v4) | (((__uint128_t)1 << host_bits) - 1);
}

/* Receives the bounds of a family, in order. */
struct bounds {
	struct pg_set_node *leaves;	/* NULL: they are counted only, and digested */
	const struct pg_set_node *same; /* instead: whether they are these */
	bool v4, differ;
	uint32_t count;
	uint64_t digest;
};

static uint64_t mix(uint64_t digest, uint64_t word)
{
	digest = (digest ^ word) * MULTIPLIER;
	return digest ^ digest >> 32;
}

static __uint128_t key_of(const struct pg_set_node *node, uint32_t number, bool v4)
{
	if (v4)
		return node->keys4[number];
	return (__uint128_t)node->keys6[number].high << 64 | node->keys6[number].low;
}

static void put_bound(struct bounds *bounds, __uint128_t bound)
{
	const uint32_t per_node = bounds->v4 ? PG_SET_KEYS4 : PG_SET_KEYS6;
	const uint32_t place = bounds->count++, key = place % per_node;
	struct pg_set_node *leaf;

	if (bounds->same) {
		bounds->differ |= key_of(&bounds->same[place / per_node], key, bounds->v4) != bound;
		return;
	}
	if (!bounds->leaves) {
		bounds->digest = mix(bounds->digest, (uint64_t)bound);
		if (!bounds->v4)
			bounds->digest = mix(bounds->digest, (uint64_t)(bound >> 64));
		return;
	}
	leaf = &bounds->leaves[place / per_node];
	if (bounds->v4) {
		leaf->keys4[key] = (uint32_t)bound;
		return;
	}
	leaf->keys6[key] = (struct pg_set_key6){
		.high = (uint64_t)(bound >> 64),
		.low = (uint64_t)bound,
	};
}

/* Ranges that touch become one. Returns whether the highest address of all is in the last. */
static bool put_bounds(struct bounds *bounds, const struct pg_address_set *set)
{
	const struct pg_prefix *ranges = bounds->v4 ? set->v4 : set->v6;
	const size_t count = bounds->v4 ? set->v4_count : set->v6_count;
	size_t i = 0;

	while (i < count) {
		__uint128_t last = last_of(&ranges[i], bounds->v4);

		put_bound(bounds, number_of(&ranges[i], bounds->v4));
		while (++i < count && number_of(&ranges[i], bounds->v4) == last + 1)
			last = last_of(&ranges[i], bounds->v4);
		if (last == highest(bounds->v4))
			return true;
		put_bound(bounds, last + 1);
	}
	return false;
}

static uint32_t keys_per_node(enum pg_table table)
{
	return table == PG_TABLE_V4 ? PG_SET_KEYS4 : PG_SET_KEYS6;
}

static uint32_t nodes_for(uint32_t items, uint32_t per_node)
{
	return (items + per_node - 1) / per_node;
}

static uint32_t hints_for(uint32_t bounds)
{
	uint32_t hints = PG_SET_HINTS;

	while (hints < HINTS_MAX && hints < bounds / BOUNDS_PER_HINT)
		hints *= 2;
	return hints;
}

static int plan_tree(struct pg_set_image *image, enum pg_table table, struct pg_error *err)
{
	struct pg_set_tree *tree = &image->root.trees[table];
	struct bounds bounds = {.v4 = table == PG_TABLE_V4, .digest = image->digest};
	uint32_t nodes;

	tree->last = put_bounds(&bounds, image->set);
	image->bounds[table] = nodes = bounds.count;
	image->digest = mix(bounds.digest, (uint64_t)nodes << 1 | tree->last);
	if (!nodes)
		return 0;
	image->tables |= (uint8_t)(1U << table);
	do {
		if (tree->levels == PG_SET_LEVELS)
			return pg_fail(err, -E2BIG, "%u bounds are too many for an address set",
				       bounds.count);
		nodes = nodes_for(nodes, keys_per_node(table));
		tree->base[tree->levels++] = image->nodes;
		image->nodes += nodes;
	} while (nodes > 1);
	if (tree->levels == 1)
		return 0;
	tree->hints = image->nodes;
	tree->hint_mask = hints_for(bounds.count) - 1;
	image->nodes += nodes_for(tree->hint_mask + 1, PG_SET_HINTS);
	return 0;
}

int pg_set_image_plan(const struct pg_address_set *set, struct pg_set_image *ret_image,
		      struct pg_error *err)
{
	struct pg_set_image image = {.set = set, .nodes = 1};
	int error = plan_tree(&image, PG_TABLE_V4, err);

	if (!error)
		error = plan_tree(&image, PG_TABLE_V6, err);
	if (error)
		return error;
	if (!image.tables)
		image.nodes = 0;
	image.digest |= 1;
	*ret_image = image;
	return 0;
}

/* What is behind the last key of a level is above every address that is looked for. */
static void fill_up(struct pg_set_node *level, uint32_t keys, uint32_t key_bytes)
{
	const uint32_t per_node = PG_SET_NODE_BYTES / key_bytes;
	const uint32_t used = keys % per_node;

	if (used)
		memset(level[keys / per_node].octets + (size_t)used * key_bytes, 0xff,
		       (size_t)(per_node - used) * key_bytes);
}

static void write_tree(const struct pg_set_image *image, enum pg_table table,
		       struct pg_set_node *nodes)
{
	const struct pg_set_tree *tree = &image->root.trees[table];
	const uint32_t per_node = keys_per_node(table);
	const uint32_t key_bytes = PG_SET_NODE_BYTES / per_node;
	struct bounds bounds = {.leaves = &nodes[tree->base[0]], .v4 = table == PG_TABLE_V4};
	uint32_t keys;

	put_bounds(&bounds, image->set);
	keys = bounds.count;
	fill_up(bounds.leaves, keys, key_bytes);
	for (uint32_t level = 1; level < tree->levels; level++) {
		const struct pg_set_node *below = &nodes[tree->base[level - 1]];
		struct pg_set_node *here = &nodes[tree->base[level]];

		keys = nodes_for(keys, per_node);
		for (uint32_t i = 0; i < keys; i++)
			memcpy(here[i / per_node].octets + (size_t)(i % per_node) * key_bytes,
			       below[i].octets, key_bytes);
		fill_up(here, keys, key_bytes);
	}
}

void pg_set_image_write(const struct pg_set_image *image, struct pg_set_node *nodes)
{
	nodes[0].root = image->root;
	for (unsigned int table = 0; table < PG_TABLE_COUNT; table++)
		if (image->tables & (1U << table))
			write_tree(image, (enum pg_table)table, nodes);
}

/* The leaves have these bounds, and none behind them: a node is filled up with the highest address.
 */
static bool has_bounds(const struct pg_set_image *image, enum pg_table table,
		       const struct pg_set_node *nodes)
{
	const bool v4 = table == PG_TABLE_V4;
	struct bounds bounds = {.same = &nodes[image->root.trees[table].base[0]], .v4 = v4};
	const uint32_t per_node = keys_per_node(table);

	put_bounds(&bounds, image->set);
	if (bounds.differ)
		return false;
	return bounds.count % per_node == 0 || key_of(&bounds.same[bounds.count / per_node],
						      bounds.count % per_node, v4) == highest(v4);
}

bool pg_set_image_is(const struct pg_set_image *image, const struct pg_set_node *nodes,
		     size_t count)
{
	/* With the same root, all is in the same places. */
	if (image->nodes != count || !count ||
	    memcmp(&nodes[0].root, &image->root, sizeof(image->root)) != 0)
		return false;
	for (unsigned int table = 0; table < PG_TABLE_COUNT; table++)
		if (image->tables & (1U << table) &&
		    !has_bounds(image, (enum pg_table)table, nodes))
			return false;
	return true;
}

int pg_set_nodes_contain(const struct pg_set_node *nodes, size_t count, const struct pg_addr *addr,
			 bool *ret_contained)
{
	const struct pg_prefix exact = pg_prefix_from_addr(addr);
	const enum pg_table table = exact.v4 ? PG_TABLE_V4 : PG_TABLE_V6;
	const struct pg_set_tree *tree = &nodes[0].root.trees[table];
	const __uint128_t wanted = number_of(&exact, exact.v4);
	uint64_t place = 0;

	*ret_contained = false;
	if (!count || tree->levels > PG_SET_LEVELS)
		return -EPROTO;
	if (!tree->levels)
		return 0;
	if (wanted == highest(exact.v4)) {
		*ret_contained = tree->last;
		return 0;
	}
	for (uint32_t level = tree->levels; level-- > 0;) {
		const uint64_t number = tree->base[level] + place;
		uint32_t rank = 0;

		if (number >= count)
			return -EPROTO;
		while (rank < keys_per_node(table) &&
		       key_of(&nodes[number], rank, exact.v4) <= wanted)
			rank++;
		if (!rank)
			return 0;
		place = place * keys_per_node(table) + rank - 1;
	}
	*ret_contained = !(place & 1);
	return 0;
}
