/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/* Records in the ring buffer pg_events. */
#pragma once

#include "dns.h"
#include "types.h"

enum pg_event_kind {
	/*
	 * A TCP socket whose connect() was let through, but whose SYN is denied: the switch came
	 * in between. Left alone it would retry for two minutes; user space destroys it.
	 */
	PG_EVENT_STRANDED = 1,
	/* A nameserver is asked, or is about to be, in the namespace .netns, where no listener is:
	 * open one. .remote is zero if it is not known yet. */
	PG_EVENT_UNSERVED = 2,
	/* The same, with the UDP query (struct pg_event_parked), which has not been delivered. */
	PG_EVENT_PARKED = 3,
	/* A connect, send or packet was denied; only with PG_HEADER_EVENTS, and no more than
	 * PG_EVENT_DENIED_PER_S. */
	PG_EVENT_DENIED = 4,
	/* A packet to another device than lo was denied for its source, .local: an address that
	 * user space may not know of yet. At most PG_EVENT_SOURCE_PER_S. */
	PG_EVENT_UNKNOWN_SOURCE = 5,
	/* A program was executed with rights that are refused (struct pg_event_exec); no more than
	 * PG_EVENT_EXEC_PER_S. */
	PG_EVENT_EXEC = 6,
	/* The namespace .netns is in pg_begun (begun.h) or in pg_host_ends (host_end.h) now. */
	PG_EVENT_BEGUN = 7,
};

/* A container's id, and what runtimes put around it. */
#define PG_EVENT_CGROUP_MAX 96

struct pg_event {
	__u64 env_id;
	__u64 cgroup_id;	      /* of the member */
	__u64 generation;	      /* of the state in force */
	__u64 netns;		      /* cookie; 0 if not known */
	__u64 time;		      /* CLOCK_BOOTTIME in ns */
	struct pg_addr local, remote; /* zero if not known */
	__be16 local_port, remote_port;
	__u8 kind;   /* enum pg_event_kind */
	__u8 reason; /* enum pg_reason */
	__u8 what;   /* enum pg_count: by whom it was judged */
	__u8 phase;  /* enum pg_phase in force, plus 1; 0: none */
	__u8 protocol;
	__u8 reserved[7];
};
PG_ASSERT_SIZE(struct pg_event, 88);

/* .remote of the head is the listener; an answer goes to .local. */
struct pg_event_parked {
	struct pg_event event;
	struct pg_endpoint local;
	__u32 size; /* of the query in .data */
	__u32 reserved;
	__u8 data[PG_DNS_PARKED_MAX];
};
PG_ASSERT_SIZE(struct pg_event_parked, 88 + 24 + 8 + PG_DNS_PARKED_MAX);

/* Of the head only .env_id, .cgroup_id and .time are set. */
struct pg_event_exec {
	struct pg_event event;
	__u64 rights; /* PG_EXEC_* (exec.h) that it had and that are refused */
	__u32 pid;    /* as the kernel counts */
	__s32 error;  /* 0, or the negative errno why it was not ended */
	char program[16], cgroup[PG_EVENT_CGROUP_MAX]; /* their names, "" if not known, maybe cut */
};
PG_ASSERT_SIZE(struct pg_event_exec, 88 + 16 + 16 + PG_EVENT_CGROUP_MAX);

/* Element of pg_event_budgets (index: that of the state): what was reported in a second. */
struct pg_event_budget {
	__u64 second; /* of CLOCK_BOOTTIME */
	__u64 sent;
	__u64 source_second, sources; /* the same of UNKNOWN_SOURCE */
};
PG_ASSERT_SIZE(struct pg_event_budget, 32);
