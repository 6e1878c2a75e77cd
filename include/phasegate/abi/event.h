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
};

struct pg_event {
	__u64 env_id;
	__u64 generation; /* of the header in force */
	__u64 netns;	  /* cookie; 0 if not known */
	struct pg_addr remote;
	__be16 remote_port;
	__u8 kind;   /* enum pg_event_kind */
	__u8 reason; /* enum pg_reason */
	__u8 protocol;
	__u8 reserved[3];
};
PG_ASSERT_SIZE(struct pg_event, 48);

/* .remote of the head is the listener; an answer goes to .local. */
struct pg_event_parked {
	struct pg_event event;
	struct pg_endpoint local;
	__u32 size; /* of the query in .data */
	__u32 reserved;
	__u8 data[PG_DNS_PARKED_MAX];
};
PG_ASSERT_SIZE(struct pg_event_parked, 48 + 24 + 8 + PG_DNS_PARKED_MAX);

#define PG_EVENT_RING_BYTES (256 * 1024)
