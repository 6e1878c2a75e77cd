/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command of `phasegate run` does not get, its children neither: system calls and
 * capabilities by which packets would leave past the hooks of its cgroup.
 */
#pragma once

#include <linux/capability.h>
#include <linux/filter.h>
#include <stdbool.h>

#include "base/error.h"

/* X(symbol, name, what the command is left with): what can be kept. */
#define PG_KEEPS(X) \
	X(NET_RAW, "net-raw", \
	  "CAP_NET_RAW: raw sockets, and by packet sockets what no hook judges") \
	X(NET_ADMIN, "net-admin", \
	  "CAP_NET_ADMIN: they can change the network that they are judged on") \
	X(SYSCALLS, "syscalls", "sockets of every family, io_uring and bpf")

enum pg_keep {
#define PG_X(symbol, name, text) PG_KEEP_##symbol,
	PG_KEEPS(PG_X)
#undef PG_X
	PG_KEEP_COUNT,
};

/* Made before the child that is confined by it. */
struct pg_workload {
	bool keep[PG_KEEP_COUNT];
	/* No instructions: no filter. */
	struct sock_fprog filter;
};

int pg_workload_init(struct pg_workload *workload, struct pg_error *err) PG_MUST_CHECK;
void pg_workload_clear(struct pg_workload *workload);

/*
 * Gives up in this process what is not kept, for good; makes nothing but system calls. Programs
 * keep the set-uid bit and file capabilities, as far as the bounding set has them still.
 * no_new_privs is set only where a filter cannot be had without.
 */
int pg_workload_confine(const struct pg_workload *workload) PG_MUST_CHECK;
