/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Address sets in the kernel. A set is up to four tables in the same slot of four array-of-maps;
 * the header says which of them exist, so a missing one is a fault and denies.
 *
 * 203.0.113.10     exact4  key 0xcb00710a in network order
 * 203.0.113.0/24   prefix4 key { .length = 24, .addr = cb 00 71 00 }
 * 2001:db8::1      exact6  key as struct pg_addr
 * 2001:db8::/32    prefix6 key { .length = 32, .addr = 20 01 0d b8 00 ... }
 */
#pragma once

#include "types.h"

/* X(symbol, outer map, kernel map type, key type) */
#define PG_TABLES(X) \
	X(EXACT4, pg_exact4, BPF_MAP_TYPE_HASH, __be32) \
	X(PREFIX4, pg_prefix4, BPF_MAP_TYPE_LPM_TRIE, struct pg_prefix4_key) \
	X(EXACT6, pg_exact6, BPF_MAP_TYPE_HASH, struct pg_addr) \
	X(PREFIX6, pg_prefix6, BPF_MAP_TYPE_LPM_TRIE, struct pg_prefix6_key)

enum pg_table {
#define PG_X(symbol, map, type, key) PG_TABLE_##symbol,
	PG_TABLES(PG_X)
#undef PG_X
	PG_TABLE_COUNT
};

/* Layout of struct bpf_lpm_trie_key: length in bits, then the address in network order. */
struct pg_prefix4_key {
	__u32 length;
	__u8 addr[4];
};
PG_ASSERT_SIZE(struct pg_prefix4_key, 8);

struct pg_prefix6_key {
	__u32 length;
	__u8 addr[16];
};
PG_ASSERT_SIZE(struct pg_prefix6_key, 20);

/* Value of a static table: presence is all that matters. */
typedef __u8 pg_set_value;

/*
 * Element of pg_slots (index: the slot): what user space has in the slot. The programs do not read
 * it; it is for the next process, since on Linux 6.1 each look at a slot of an outer map waits
 * for an RCU period. Written before the slot is filled, and cleared after it was emptied.
 */
struct pg_slot_use {
	__u32 learned_id; /* of the inner map of learned addresses; 0: none */
	/* Random, so that a state that is out of date is not taken for that of the set which has
	 * the slot now; 0: none has. */
	__u32 set_id;
	__u8 set_tables; /* of it, a bit per enum pg_table */
	__u8 reserved[3];
};
PG_ASSERT_SIZE(struct pg_slot_use, 12);

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
