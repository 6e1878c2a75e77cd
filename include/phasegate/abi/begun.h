/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * What a network namespace of the host's user namespace was when the first program was executed
 * there, in a member, that may change it (CAP_NET_ADMIN in its bounding set, and not the host's:
 * abi/exec.h). What is in it has been set by the runtime; what is not, may be the program's doing.
 * The kernel writes it (bpf/exec.bpf.c) before the program's first instruction. Since Linux 5.14;
 * before that nobody can tell.
 */
#pragma once

#include "types.h"

#define PG_BEGUN_DEVICES   8
#define PG_BEGUN_ADDRESSES 16

/* An Ethernet device, and its hardware address as that of a frame (pg_station). */
struct pg_begun_device {
	__u32 ifindex;
	__u32 reserved;
	__u64 station;
};

/*
 * Value of pg_begun (key: the namespace's cookie). Nothing is there: no such program has been
 * executed, unless it is one of those that .spoiled of the element 0 counts.
 */
struct pg_begun {
	__u64 env_id; /* of the member */
	__u32 whole;  /* 0: it is being written */
	/* Of the element 0: how often there was no room for another namespace. Of others: how much
	 * else was executed while it was written, and may have changed what it says. */
	__u32 spoiled;
	__u32 device_count, address_count;
	struct pg_begun_device devices[PG_BEGUN_DEVICES];
	struct pg_addr addresses[PG_BEGUN_ADDRESSES]; /* on whatever device */
};
PG_ASSERT_SIZE(struct pg_begun, 24 + 8 * 16 + 16 * 16);
