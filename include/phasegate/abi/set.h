/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Address sets in the kernel: an array of nodes in a slot of pg_sets, made whole by user space
 * before a header names it, and never changed after that (but for the hints).
 *
 * Node 0 is the root. The addresses of a family are its *bounds*: the address at which a range
 * begins, the one behind its end, and so on, ascending; so an address is in the set if the last
 * bound that is not above it has an even place. The bounds are the leaves of a tree; a node of a
 * level above has the first key of each node below it.
 *
 *   203.0.113.0/24   0xcb007100 at place 0, where it begins; 0xcb007200 at place 1, behind its end
 *
 * A tree of N bounds takes log(N) steps, whatever lengths the ranges have. No bound is equal to the
 * highest address of all, which the root answers for: nodes are filled up with it.
 */
#pragma once

#include "types.h"

/* X(symbol). The families that a set may have; a header names those that it has, so that what can
 * be in none of it is not looked up. */
#define PG_TABLES(X) \
	X(V4) \
	X(V6)

enum pg_table {
#define PG_X(symbol) PG_TABLE_##symbol,
	PG_TABLES(PG_X)
#undef PG_X
	PG_TABLE_COUNT
};

#define PG_SET_NODE_BYTES 256
#define PG_SET_KEYS4	  64
#define PG_SET_KEYS6	  16
#define PG_SET_HINTS	  64
/* 2^36 bounds of IPv4, more than there are; 2^24 of IPv6, of eight million ranges. */
#define PG_SET_LEVELS	  6

/* A number in the order of addresses: host byte order. */
struct pg_set_key6 {
	__u64 high, low;
};

struct pg_set_tree {
	__u32 levels; /* 0: the set has no address of the family */
	__u32 last;   /* whether the highest address of all is in the set */
	/*
	 * Where the bound for an address was found the last time, by a hash of the address: a place
	 * in the leaves, which is looked at before it is believed. Any of them will do, but nothing
	 * else: what is behind the leaves may look like bounds. Only the programs write it.
	 */
	__u32 hints;		   /* the first node of hints; 0: none */
	__u32 hint_mask;	   /* their number, a power of two, less one */
	__u32 base[PG_SET_LEVELS]; /* the first node of each level, that of the leaves first */
};
PG_ASSERT_SIZE(struct pg_set_tree, 40);

struct pg_set_root {
	struct pg_set_tree trees[PG_TABLE_COUNT];
};
PG_ASSERT_SIZE(struct pg_set_root, 80);

struct pg_set_node {
	union {
		__u8 octets[PG_SET_NODE_BYTES];
		struct pg_set_root root;
		__u32 keys4[PG_SET_KEYS4]; /* host byte order */
		struct pg_set_key6 keys6[PG_SET_KEYS6];
		__u32 hints[PG_SET_HINTS];
	};
};
PG_ASSERT_SIZE(struct pg_set_node, PG_SET_NODE_BYTES);

/*
 * Element of pg_slots (index: the slot): what user space has in the slot. The programs do not read
 * it; it is for the next process, since on Linux 6.1 each look at a slot of an outer map waits
 * for an RCU period. Written before the slot is filled, and cleared after it was emptied.
 */
struct pg_slot_use {
	__u64 set_digest; /* of what the set has, so that the same is found again */
	__u32 set_id;	  /* of the inner map; 0: none */
	__u32 set_tables; /* of it, a bit per enum pg_table */
	__u32 learned_id; /* of the inner map of learned addresses; 0: none */
	__u32 reserved;
};
PG_ASSERT_SIZE(struct pg_slot_use, 24);

/*
 * Value of a learned address (key: struct pg_addr, either family). Until .expires (CLOCK_BOOTTIME,
 * ns) the address is allowed; after it, it is draining: nothing new, but segments of an
 * established connection pass while the element exists.
 */
struct pg_learned {
	__u64 expires;
};
PG_ASSERT_SIZE(struct pg_learned, 8);

/*
 * The host's own addresses (pg_host_addresses, key: struct pg_addr) and the ports that an entry
 * opens on them (pg_host_ports, key: __be16), with PG_HEADER_HOST_PORTS. Presence is all that
 * matters.
 */

/*
 * An address of the network namespaces that the host gave to the Environment; fed by user space
 * from rtnetlink. The value is the cookie of the namespace that has it; 0: several have, or it is
 * not known. Of an address of the host's own namespace alone, which no packet on a link has,
 * PG_OWN_HOST is set besides.
 */
typedef __u64 pg_own_value;
#define PG_OWN_HOST (1ULL << 63)
struct pg_own_key {
	__u64 env_id;
	struct pg_addr addr;
};
PG_ASSERT_SIZE(struct pg_own_key, 24);
