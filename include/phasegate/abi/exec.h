/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Rights that no policy can hold, as a set of bits: those that a program has, or may get, when it
 * is executed in a member (bpf/exec.bpf.c), and those that are refused there (struct pg_member).
 * Over the host only: in a user namespace of its own it has none of them. bits 0-40: the capability
 * of that number.
 */
#pragma once

#include "types.h"

#define PG_EXEC_CAPABILITY(number) (1ULL << (number))

#define PG_EXEC_CAPABILITIES ((1ULL << 48) - 1)
/* All capabilities; then there is no bit for each. */
#define PG_EXEC_PRIVILEGED   (1ULL << 61)
/* The agent's network namespace, and CAP_NET_RAW or CAP_NET_ADMIN, of which there is no bit then.
 */
#define PG_EXEC_HOST_NETWORK (1ULL << 62)
/* The host's processes in sight, and CAP_SYS_PTRACE. */
#define PG_EXEC_HOST_PIDS    (1ULL << 63)

/* As in linux/capability.h, which programs of the kernel cannot include. */
#define PG_CAP_NET_ADMIN  12
#define PG_CAP_NET_RAW	  13
#define PG_CAP_SYS_MODULE 16
#define PG_CAP_SYS_RAWIO  17
#define PG_CAP_SYS_PTRACE 19
#define PG_CAP_SYS_ADMIN  21
#define PG_CAP_SYS_BOOT	  22
#define PG_CAP_MAC_ADMIN  33
#define PG_CAP_SYSLOG	  34

/* Who has these has all that the kernel has. */
#define PG_EXEC_EVERYTHING \
	(PG_EXEC_CAPABILITY(PG_CAP_SYS_ADMIN) | PG_EXEC_CAPABILITY(PG_CAP_SYS_MODULE) | \
	 PG_EXEC_CAPABILITY(PG_CAP_SYS_RAWIO) | PG_EXEC_CAPABILITY(PG_CAP_SYS_BOOT) | \
	 PG_EXEC_CAPABILITY(PG_CAP_MAC_ADMIN) | PG_EXEC_CAPABILITY(PG_CAP_SYSLOG))

/*
 * The bits of a process of the host's user namespace with these capabilities. One function for both
 * sides: who is refused when an Environment is made is refused when it comes later.
 */
static inline __u64 pg_exec_rights(__u64 capabilities, _Bool host_network, _Bool host_pids)
{
	const __u64 admin = PG_EXEC_CAPABILITY(PG_CAP_NET_ADMIN);
	const __u64 network = admin | PG_EXEC_CAPABILITY(PG_CAP_NET_RAW);
	__u64 rights = 0;

	if (host_network && capabilities & network)
		rights |= PG_EXEC_HOST_NETWORK;
	if (host_pids && capabilities & PG_EXEC_CAPABILITY(PG_CAP_SYS_PTRACE))
		rights |= PG_EXEC_HOST_PIDS;
	if ((capabilities & PG_EXEC_EVERYTHING) == PG_EXEC_EVERYTHING)
		return rights | PG_EXEC_PRIVILEGED;
	if (host_network)
		capabilities &= ~admin;
	return rights | (capabilities & PG_EXEC_CAPABILITIES);
}
