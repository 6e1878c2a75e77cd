/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Members of Environments, by cgroup id: an Environment has one or more cgroups, at whatever
 * depths, each with a header of its own. Asked on loopback, for whether a receiver that is not the
 * member's own is another member's of the same Environment (PG_HEADER_MEMBERS); on veths without a
 * guard, for whether a frame is a member's; and when something is executed, for what it may not
 * have (abi/exec.h). One that is alone may be missing, if its cgroup is deeper than
 * PG_MEMBER_LEVEL_MAX.
 */
#pragma once

#include "types.h"

struct pg_member {
	__u64 env_id;
	__u32 level; /* depth of the cgroup; the root has 0 */
	/* The Environment has no other one, and its id is the key. 0 of one whose cgroup was made
	 * anew: then that of the first is the Environment's. */
	__u32 alone;
	__u64 refused; /* PG_EXEC_*: what is executed with one of these is ended */
	/* Of these, what was reported in a second of CLOCK_BOOTTIME, and how many were not. */
	__u32 exec_second, exec_reported;
	__u64 exec_suppressed;
};
PG_ASSERT_SIZE(struct pg_member, 40);

/*
 * Key of pg_member_addresses: an address that another member has in a network namespace of its own,
 * as the runtime that gave it says (never as the namespace says: the workload may own that), for as
 * long as that member has a process.
 */
struct pg_member_address {
	__u64 env_id;
	struct pg_addr addr;
};
PG_ASSERT_SIZE(struct pg_member_address, 24);
