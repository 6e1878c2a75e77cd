/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/* What the test programs of judge.bpf.c and the tests hand each other. */
#pragma once

#include <phasegate/abi/counter.h>
#include <phasegate/abi/header.h>
#include <phasegate/abi/reason.h>

#include "facts.h"

/* Cases of one test run: the program is repeated and takes the next one each time. */
#define JUDGE_BATCH 512

struct judge_case {
	struct pg_header header;
	__u64 word;	       /* of the state */
	struct pg_facts facts; /* input of judge_decide; output of the others */
	__u32 reason;	       /* enum pg_reason */
	__u8 tcp_flags;
	__u8 icmp_type;
	__u8 tcp_payload;
	__u8 sender; /* for judge_link_from: enum pg_link_sender, which is the model's */
};
PG_ASSERT_SIZE(struct judge_case, 264);

/* Addresses that one run of judge_set looks up. */
#define JUDGE_LOOKUPS 64

struct judge_lookup {
	struct pg_addr addr;
	__s32 found; /* enum pg_membership */
	__u32 reserved;
};
PG_ASSERT_SIZE(struct judge_lookup, 24);

/* judge_watch: of generation g, phase g % 3 of policy g / 4 is in force, whose slots say so. */
#define JUDGE_WATCH_DELAY    4000
#define JUDGE_WATCH_SWITCHES 16
#define JUDGE_WATCH_SET(g) \
	((__u32)((g) / JUDGE_WATCH_SWITCHES * PG_PHASE_COUNT + (g) % PG_PHASE_COUNT))
