/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent may do once it has started. */
#pragma once

#include "base/error.h"

/*
 * X(capability, what for): those that the agent keeps; all others are dropped from every set, the
 * bounding set included, for good. CAP_SYS_ADMIN, without which no namespace can be entered, is all
 * that CAP_BPF and CAP_PERFMON would give.
 */
#define PG_CAPABILITIES(X) \
	X(CAP_SYS_ADMIN, "maps and programs, and entering the namespaces of containers") \
	X(CAP_NET_ADMIN, "closing sockets, attaching network programs, marks") \
	X(CAP_NET_BROADCAST, "hearing of addresses in the namespaces of containers") \
	X(CAP_NET_RAW, "probing that raw packets are denied") \
	X(CAP_SYS_PTRACE, "telling the namespaces of other users' processes") \
	X(CAP_DAC_OVERRIDE, "cgroups and runtimes' sockets of other users") \
	X(CAP_KILL, "ending processes of other users") \
	X(CAP_SYS_RESOURCE, "locked memory of maps before Linux 5.11")

int pg_privileges_drop(struct pg_error *err) PG_MUST_CHECK;
