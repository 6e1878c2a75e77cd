/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/* The cgroup hooks that an Environment has, each with the BPF program of the same name. */
#pragma once

#include "types.h"

/*
 * X(symbol, program). The order is the attach order: the authority (egress) first, so that no
 * moment exists in which a fast denial works and packets are not judged.
 */
#define PG_HOOKS(X) \
	X(EGRESS, pg_egress) \
	X(INGRESS, pg_ingress) \
	X(SOCK_OPS, pg_sockops) \
	X(SOCK_CREATE, pg_sock_create) \
	X(BIND4, pg_bind4) \
	X(BIND6, pg_bind6) \
	X(CONNECT4, pg_connect4) \
	X(CONNECT6, pg_connect6) \
	X(SENDMSG4, pg_sendmsg4) \
	X(SENDMSG6, pg_sendmsg6)

enum pg_hook {
#define PG_X(symbol, program) PG_HOOK_##symbol,
	PG_HOOKS(PG_X)
#undef PG_X
	PG_HOOK_COUNT
};
