/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters of an Environment, per CPU (BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE, key: cgroup id). They
 * only grow; readers sum over the CPUs and take differences.
 */
#pragma once

#include "reason.h"
#include "types.h"

/* X(symbol, name): what was judged. */
#define PG_COUNTS(X) \
	X(CONNECT, "connects") \
	X(SENDMSG, "sendmsgs") \
	X(PACKET, "packets") \
	X(INGRESS, "ingress") \
	X(LINK, "links")

enum pg_count {
#define PG_X(symbol, name) PG_COUNT_##symbol,
	PG_COUNTS(PG_X)
#undef PG_X
	PG_COUNT_COUNT
};

struct pg_counters {
	__u64 verdict[PG_COUNT_COUNT][2]; /* [what][enum pg_verdict] */
	__u64 reason[PG_REASON_COUNT];	  /* all of them together */
	__u64 events_lost;		  /* events that did not fit into the ring */
	__u64 flows_refused;		  /* UDP flows that did not fit into the table */
	/* Denials beyond PG_EVENT_DENIED_PER_S; user space adds executions beyond theirs. */
	__u64 events_suppressed;
};
PG_ASSERT_SIZE(struct pg_counters, 8 * (2 * 5 + PG_REASON_COUNT + 3));
