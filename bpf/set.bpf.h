/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The address set of a phase: the one place that knows how membership is looked up. */
#pragma once

#include "addr.bpf.h"
#include "maps.bpf.h"

enum pg_membership {
	PG_SET_MISSING = -1, /* a table that the header names is not there */
	PG_SET_OUTSIDE = 0,
	PG_SET_MEMBER = 1,
};

static __always_inline enum pg_membership pg_table_lookup(void *outer, __u32 slot, const void *key)
{
	void *table = bpf_map_lookup_elem(outer, &slot);

	if (!table)
		return PG_SET_MISSING;
	return bpf_map_lookup_elem(table, key) ? PG_SET_MEMBER : PG_SET_OUTSIDE;
}

static __always_inline enum pg_membership pg_set_lookup4(__u32 slot, __u8 tables, __be32 addr)
{
	enum pg_membership found = PG_SET_OUTSIDE;

	if (tables & (1U << PG_TABLE_EXACT4))
		found = pg_table_lookup(&pg_exact4, slot, &addr);
	if (found == PG_SET_OUTSIDE && tables & (1U << PG_TABLE_PREFIX4)) {
		struct pg_prefix4_key key = {.length = 32};

		__builtin_memcpy(key.addr, &addr, sizeof(key.addr));
		found = pg_table_lookup(&pg_prefix4, slot, &key);
	}
	return found;
}

static __always_inline enum pg_membership pg_set_lookup6(__u32 slot, __u8 tables,
							 const struct pg_addr *addr)
{
	enum pg_membership found = PG_SET_OUTSIDE;

	if (tables & (1U << PG_TABLE_EXACT6))
		found = pg_table_lookup(&pg_exact6, slot, addr);
	if (found == PG_SET_OUTSIDE && tables & (1U << PG_TABLE_PREFIX6)) {
		struct pg_prefix6_key key = {.length = 128};

		__builtin_memcpy(key.addr, addr, sizeof(key.addr));
		found = pg_table_lookup(&pg_prefix6, slot, &key);
	}
	return found;
}

static __always_inline enum pg_membership pg_set_lookup(__u32 slot, __u8 tables,
							const struct pg_addr *addr)
{
	if (pg_addr_is_v4(addr))
		return pg_set_lookup4(slot, tables, addr->word[3]);
	return pg_set_lookup6(slot, tables, addr);
}

/* Whether every table that the header names is there. */
static __always_inline bool pg_set_readable(__u32 slot, __u8 tables)
{
#define PG_X(symbol, map, type, key) \
	if (tables & (1U << PG_TABLE_##symbol) && !bpf_map_lookup_elem(&map, &slot)) \
		return false;
	PG_TABLES(PG_X)
#undef PG_X
	return true;
}
