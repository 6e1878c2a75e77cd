/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * What was decided a while ago of packets between two addresses, for the next ones of TCP. Each CPU
 * has a table with one place for an address and who sends to it; a newer record takes the place of
 * an older one. Only BPF programs write and read it.
 *
 * A record consists of words of 64 bits, each written by one store: the lower half is what is
 * recorded, the upper half the record's tag, a random number. A run that is interrupted, or
 * preempted by another on its CPU, may leave a mixture of two records, which is none, since their
 * tags differ.
 */
#pragma once

#include "types.h"

/* What of IPv4 is looked at is in one cache line. */
enum pg_recent_word {
	PG_RECENT_REMOTE,     /* the address's last word */
	PG_RECENT_LOCAL,      /* the same */
	PG_RECENT_PLACE,      /* low half, see below */
	PG_RECENT_PLACE_HIGH, /* high half */
	PG_RECENT_EPOCH,      /* of the header, low half; two within a second differ in it */
	PG_RECENT_GENERATION, /* of the state, low bits */
	PG_RECENT_UNTIL,      /* jiffies, low half */
	PG_RECENT_REASON,     /* PG_RECENT_REASON_MASK and flags; above them more of the jiffies */
	/* The other words of the addresses, of IPv6 only. */
	PG_RECENT_REMOTE_REST,
	PG_RECENT_LOCAL_REST = PG_RECENT_REMOTE_REST + 3,
	PG_RECENT_WORDS = 16, /* two of them not used */
};

#define PG_RECENT_REASON_MASK 0x3fU /* enum pg_reason */
#define PG_RECENT_ASKED	      0x40U /* at the guard: the address has its place in .asked (link.h) */
#define PG_RECENT_IPV6	      0x80U
#define PG_RECENT_UNTIL_SHIFT 8

/* Whose packets: env_id; at the guards of its veths with this bit. */
#define PG_RECENT_LINK (1ULL << 63)

struct pg_recent {
	__u64 word[PG_RECENT_WORDS];
};
PG_ASSERT_SIZE(struct pg_recent, 128);
