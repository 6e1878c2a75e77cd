/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The address set of a phase: the one place that knows how membership is looked up (abi/set.h).
 *
 * Comparisons are arithmetic and not branches: of a branch the verifier would follow both ways, at
 * each key of each level.
 */
#pragma once

#include "addr.bpf.h"
#include "maps.bpf.h"
#include "verifier.bpf.h"

enum pg_membership {
	PG_SET_MISSING = -1, /* what the header names is not there */
	PG_SET_OUTSIDE = 0,
	PG_SET_MEMBER = 1,
};

/* Multipliers of the hash for hints (Fibonacci hashing, Knuth 6.4). */
#define PG_SET_HASH32 2654435761U
#define PG_SET_HASH64 11400714819323198485ULL

/* No place in any leaf. */
#define PG_SET_NOWHERE 0xffffffffU

static __always_inline struct pg_set_node *pg_set_node(void *set, __u32 index)
{
	return bpf_map_lookup_elem(set, &index);
}

/* 1: a <= b */
static __always_inline __u64 pg_set_at_most4(__u32 a, __u32 b)
{
	__u64 difference = (__u64)a - b - 1;

	barrier_var(difference);
	return difference >> 63;
}

/* 1: a < b */
static __always_inline __u64 pg_set_below64(__u64 a, __u64 b)
{
	__u64 borrow = (~a & b) | (~(a ^ b) & (a - b));

	barrier_var(borrow);
	return borrow >> 63;
}

/* 1: a <= b */
static __always_inline __u64 pg_set_at_most6(const struct pg_set_key6 *a,
					     const struct pg_set_key6 *b)
{
	__u64 differs = a->high ^ b->high;

	differs |= -differs;
	barrier_var(differs);
	differs >>= 63;
	return pg_set_below64(a->high, b->high) |
	       ((differs ^ 1) & (pg_set_below64(b->low, a->low) ^ 1));
}

/* The rank so far, which has no other bits than these: Linux up to 6.1 has lost that, and is told
 * so in a way that the compiler does not take for needless. */
static __always_inline __u64 pg_set_bounded(__u64 rank, __u64 bits)
{
	barrier_var(rank);
	return rank & bits;
}

/* How many keys of the node are not above the address. */
static __always_inline __u32 pg_set_rank4(const struct pg_set_node *node, __u32 addr)
{
	__u64 rank = pg_set_at_most4(node->keys4[31], addr) << 5;

	rank += pg_set_at_most4(node->keys4[rank + 15], addr) << 4;
	rank = pg_set_bounded(rank, 48);
	rank += pg_set_at_most4(node->keys4[rank + 7], addr) << 3;
	rank = pg_set_bounded(rank, 56);
	rank += pg_set_at_most4(node->keys4[rank + 3], addr) << 2;
	rank = pg_set_bounded(rank, 60);
	rank += pg_set_at_most4(node->keys4[rank + 1], addr) << 1;
	rank = pg_set_bounded(rank, 62);
	rank += pg_set_at_most4(node->keys4[rank], addr);
	rank = pg_set_bounded(rank, 63);
	return rank + pg_set_at_most4(node->keys4[rank], addr);
}

static __always_inline __u32 pg_set_rank6(const struct pg_set_node *node,
					  const struct pg_set_key6 *addr)
{
	__u64 rank = pg_set_at_most6(&node->keys6[7], addr) << 3;

	rank += pg_set_at_most6(&node->keys6[rank + 3], addr) << 2;
	rank = pg_set_bounded(rank, 12);
	rank += pg_set_at_most6(&node->keys6[rank + 1], addr) << 1;
	rank = pg_set_bounded(rank, 14);
	rank += pg_set_at_most6(&node->keys6[rank], addr);
	rank = pg_set_bounded(rank, 15);
	return rank + pg_set_at_most6(&node->keys6[rank], addr);
}

static __always_inline enum pg_membership pg_set_of_place(__u32 place)
{
	return place & 1 ? PG_SET_OUTSIDE : PG_SET_MEMBER;
}

/* The hint for the hash, or NULL. */
static __always_inline __u32 *pg_set_hint(void *set, const struct pg_set_tree *tree, __u32 hash)
{
	const __u32 number = hash & tree->hint_mask;
	struct pg_set_node *node;

	if (!tree->hints)
		return NULL;
	node = pg_set_node(set, tree->hints + number / PG_SET_HINTS);
	return node ? &node->hints[number % PG_SET_HINTS] : NULL;
}

/* Goes down the tree; the place of the last bound that is not above the address. */
static __always_inline enum pg_membership pg_set_descend4(void *set, const struct pg_set_tree *tree,
							  __u32 addr, __u32 *ret_place)
{
	__u32 place = pg_unknown_zero(tree->levels);

	for (__u32 level = PG_SET_LEVELS; level-- > 0;) {
		const struct pg_set_node *node;
		__u32 rank;

		if (level >= tree->levels)
			continue;
		node = pg_set_node(set, tree->base[level] + place);
		if (!node)
			return PG_SET_MISSING;
		rank = pg_set_rank4(node, addr);
		if (!rank)
			return PG_SET_OUTSIDE;
		place = place * PG_SET_KEYS4 + rank - 1;
	}
	*ret_place = place;
	return pg_set_of_place(place);
}

static __always_inline enum pg_membership pg_set_descend6(void *set, const struct pg_set_tree *tree,
							  const struct pg_set_key6 *addr,
							  __u32 *ret_place)
{
	__u32 place = pg_unknown_zero(tree->levels);

	for (__u32 level = PG_SET_LEVELS; level-- > 0;) {
		const struct pg_set_node *node;
		__u32 rank;

		if (level >= tree->levels)
			continue;
		node = pg_set_node(set, tree->base[level] + place);
		if (!node)
			return PG_SET_MISSING;
		rank = pg_set_rank6(node, addr);
		if (!rank)
			return PG_SET_OUTSIDE;
		place = place * PG_SET_KEYS6 + rank - 1;
	}
	*ret_place = place;
	return pg_set_of_place(place);
}

/* The next key of a node; key is not the last one, which Linux up to 6.1 does not see: it has to be
 * told so in a way that the compiler does not take for needless. */
static __always_inline __u32 pg_set_next(__u32 key, __u32 keys)
{
	__u32 next = key + 1;

	barrier_var(next);
	return next % keys;
}

/* Whether the place is that of the address. The last one of a node is left to the tree: what
 * follows it is in another node. */
static __always_inline bool pg_set_is_place4(void *set, const struct pg_set_tree *tree, __u32 addr,
					     __u32 place)
{
	const __u32 key = place % PG_SET_KEYS4;
	const struct pg_set_node *node;

	if (key == PG_SET_KEYS4 - 1)
		return false;
	node = pg_set_node(set, tree->base[0] + place / PG_SET_KEYS4);
	return node && node->keys4[key] <= addr &&
	       addr < node->keys4[pg_set_next(key, PG_SET_KEYS4)];
}

static __always_inline bool pg_set_is_place6(void *set, const struct pg_set_tree *tree,
					     const struct pg_set_key6 *addr, __u32 place)
{
	const __u32 key = place % PG_SET_KEYS6;
	const struct pg_set_node *node;

	if (key == PG_SET_KEYS6 - 1)
		return false;
	node = pg_set_node(set, tree->base[0] + place / PG_SET_KEYS6);
	return node && pg_set_at_most6(&node->keys6[key], addr) &&
	       !pg_set_at_most6(&node->keys6[pg_set_next(key, PG_SET_KEYS6)], addr);
}

static __always_inline enum pg_membership pg_set_find4(void *set, const struct pg_set_tree *tree,
						       __u32 addr)
{
	__u32 *hint, place = PG_SET_NOWHERE;
	enum pg_membership found;

	if (addr == 0xffffffff)
		return tree->last ? PG_SET_MEMBER : PG_SET_OUTSIDE;
	hint = pg_set_hint(set, tree, addr * PG_SET_HASH32 >> 16);
	if (hint) {
		place = *(volatile __u32 *)hint;
		if (pg_set_is_place4(set, tree, addr, place))
			return pg_set_of_place(place);
	}
	found = pg_set_descend4(set, tree, addr, &place);
	if (hint)
		*(volatile __u32 *)hint = place;
	return found;
}

static __always_inline enum pg_membership pg_set_find6(void *set, const struct pg_set_tree *tree,
						       const struct pg_set_key6 *addr)
{
	__u32 *hint, place = PG_SET_NOWHERE;
	enum pg_membership found;

	if (addr->high == ~0ULL && addr->low == ~0ULL)
		return tree->last ? PG_SET_MEMBER : PG_SET_OUTSIDE;
	hint = pg_set_hint(set, tree, ((addr->high ^ addr->low) * PG_SET_HASH64) >> 40);
	if (hint) {
		place = *(volatile __u32 *)hint;
		if (pg_set_is_place6(set, tree, addr, place))
			return pg_set_of_place(place);
	}
	found = pg_set_descend6(set, tree, addr, &place);
	if (hint)
		*(volatile __u32 *)hint = place;
	return found;
}

/*
 * A global function, which the verifier looks at once and not for each caller; it takes numbers
 * only, the halves of the address in host byte order (before Linux 5.12).
 */
__noinline int pg_set_find(__u32 slot, __u64 high, __u64 low)
{
	const struct pg_set_key6 key = {.high = high, .low = low};
	const bool v4 = !high && low >> 32 == 0xffff;
	const struct pg_set_tree *tree;
	const struct pg_set_node *root;
	void *set = bpf_map_lookup_elem(&pg_sets, &slot);

	root = set ? pg_set_node(set, 0) : NULL;
	if (!root)
		return PG_SET_MISSING;
	tree = v4 ? &root->root.trees[PG_TABLE_V4] : &root->root.trees[PG_TABLE_V6];
	if (!tree->levels)
		return PG_SET_OUTSIDE;
	return v4 ? pg_set_find4(set, tree, low) : pg_set_find6(set, tree, &key);
}

static __always_inline enum pg_membership pg_set_lookup(__u32 slot, __u8 tables,
							const struct pg_addr *addr)
{
	const enum pg_table table = pg_addr_is_v4(addr) ? PG_TABLE_V4 : PG_TABLE_V6;
	const __u64 high = (__u64)bpf_ntohl(addr->word[0]) << 32 | bpf_ntohl(addr->word[1]);
	const __u64 low = (__u64)bpf_ntohl(addr->word[2]) << 32 | bpf_ntohl(addr->word[3]);

	if (!(tables & (1U << table)))
		return PG_SET_OUTSIDE;
	return pg_set_find(slot, high, low);
}

/* Whether the set that the header names is there. */
static __always_inline bool pg_set_readable(__u32 slot, __u8 tables)
{
	return !tables || bpf_map_lookup_elem(&pg_sets, &slot);
}
