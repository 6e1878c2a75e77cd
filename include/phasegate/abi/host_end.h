/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Which veths of the agent's network namespace lead where a member executes something. Whoever is
 * in a namespace can leave it before anybody looks, and keep it by a socket; what was executed
 * there first is known even so. The kernel writes it (bpf/exec.bpf.c) before the program's first
 * instruction; what has no room is not known.
 */
#pragma once

#include "types.h"

/* Key of pg_host_ends. */
struct pg_host_end_key {
	__u64 env_id;  /* of the member */
	__u32 host;    /* the agent's namespace, by its inode */
	__u32 ifindex; /* of the end there, which no other interface has after it */
};
PG_ASSERT_SIZE(struct pg_host_end_key, 16);

/* The namespace of the other end, which may be elsewhere by now. */
struct pg_host_end {
	__u64 netns; /* cookie; 0: the kernel has none */
	__u32 inode;
	__u32 reserved; /* 0 */
};
PG_ASSERT_SIZE(struct pg_host_end, 16);
