/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet that was let out: until .until those like it are not judged again. A write of a state
 * ends it, by the generation; and what else has changed since is heeded within a second. Only BPF
 * programs write and read it.
 *
 * It is of one of these:
 * - a socket and a tuple, of UDP or of a connection that it has accepted (bpf/sent.bpf.h);
 * - two addresses between which TCP was let out for what they are (bpf/recent.bpf.h): .socket and
 *   the ports are 0.
 */
#pragma once

#include "types.h"

struct pg_sent {
	__u64 socket; /* cookie */
	__u64 env_id; /* with PG_SENT_OF_LINK: of two addresses, at the guards of its veths */
	__u64 epoch;  /* of the header */
	__u64 until;  /* jiffies */
	__be32 local, remote; /* the last words of the addresses */
	__be16 local_port, remote_port;
	__u32 generation; /* of the state, low bits */
	__u32 link;	  /* ifindex of the host end whose guard has let it out too; 0: none */
	__u32 version;	  /* odd while a write is under way */
	__u8 reason;	  /* enum pg_reason */
	__u8 flags;	  /* PG_SENT_* */
	__u8 reserved0[2];
	/* What of IPv4 is looked at is above, in 60 octets. The other words, of IPv6 only: */
	__be32 local_rest[3], remote_rest[3];
	__u32 reserved1;
};
PG_ASSERT_SIZE(struct pg_sent, 88);

#define PG_SENT_IPV6 0x01U /* the header is of IPv6 */

#define PG_SENT_OF_LINK (1ULL << 63)

/* Where one is, in a table of all: who comes first has the place until it is over. */
struct pg_sent_place {
	struct pg_sent sent;
	struct bpf_spin_lock lock; /* of writers */
	__u32 reserved[9];	   /* a place begins at a cache line */
};
PG_ASSERT_SIZE(struct pg_sent_place, 128);

/* The place that a record of these can have. */
static inline __u32 pg_sent_index(__u64 env_id, __u64 socket, const struct pg_addr *remote,
				  __be16 port)
{
	const __u32 odd = 0x9e3779b1, seed = (__u32)env_id ^ (__u32)socket ^ (__u32)(env_id >> 63);
	__u32 hash = remote->word[1] ^ remote->word[2] ^ remote->word[3] ^ (__u32)port << 16;

	hash *= odd;
	hash ^= hash >> 15 ^ seed;
	return hash * odd >> (32 - PG_SENT_MAX_BITS);
}
