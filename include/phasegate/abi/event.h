/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/* Records in the ring buffer pg_events. */
#pragma once

#include "types.h"

enum pg_event_kind {
	/*
	 * A TCP socket whose connect() was let through, but whose SYN is denied: the switch came
	 * in between. Left alone it would retry for two minutes; user space destroys it.
	 */
	PG_EVENT_STRANDED = 1,
};

struct pg_event {
	__u64 env_id;
	__u64 generation; /* of the header that denied */
	struct pg_addr remote;
	__be16 remote_port;
	__u8 kind;   /* enum pg_event_kind */
	__u8 reason; /* enum pg_reason */
	__u8 protocol;
	__u8 reserved[3];
};
PG_ASSERT_SIZE(struct pg_event, 40);

#define PG_EVENT_RING_BYTES (256 * 1024)
