/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * The guard (bpf/guard.bpf.c). Its map, cgroup id to anything, is shared by all versions of
 * Phasegate on a host, so that this file does not change with PG_ABI_VERSION, but never.
 */
#pragma once

#include "types.h"

/* Depth of the guarded cgroup's children; it is itself at the top of the hierarchy. */
#define PG_GUARD_CHILD_LEVEL 2

#define PG_GUARD_MAX 65536

/* X(symbol, program). The authority first. */
#define PG_GUARD_HOOKS(X) \
	X(EGRESS, pg_guard_egress) \
	X(CONNECT4, pg_guard_connect4) \
	X(CONNECT6, pg_guard_connect6) \
	X(SENDMSG4, pg_guard_sendmsg4) \
	X(SENDMSG6, pg_guard_sendmsg6)
