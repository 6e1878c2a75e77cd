/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/* The cgroup hooks that an Environment has, each with the BPF program of the same name. */
#pragma once

#include "types.h"

/*
 * X(symbol, program, flags). Those with PG_HOOK_FOR_DNS are needed only where DNS is redirected.
 * The order is the attach order: the authority (egress) first, so that no moment exists in which a
 * fast denial works and packets are not judged.
 */
#define PG_HOOKS(X) \
	X(EGRESS, pg_egress, 0) \
	X(INGRESS, pg_ingress, 0) \
	X(SOCK_OPS, pg_sockops, 0) \
	X(SOCK_CREATE, pg_sock_create, 0) \
	X(BIND4, pg_bind4, 0) \
	X(BIND6, pg_bind6, 0) \
	X(CONNECT4, pg_connect4, 0) \
	X(CONNECT6, pg_connect6, 0) \
	X(SENDMSG4, pg_sendmsg4, 0) \
	X(SENDMSG6, pg_sendmsg6, 0) \
	X(RECVMSG4, pg_recvmsg4, PG_HOOK_FOR_DNS) \
	X(RECVMSG6, pg_recvmsg6, PG_HOOK_FOR_DNS) \
	X(GETPEERNAME4, pg_getpeername4, PG_HOOK_FOR_DNS) \
	X(GETPEERNAME6, pg_getpeername6, PG_HOOK_FOR_DNS) \
	X(SETSOCKOPT, pg_setsockopt, PG_HOOK_FOR_DNS)

#define PG_HOOK_FOR_DNS (1U << 0)

enum pg_hook {
#define PG_X(symbol, program, flags) PG_HOOK_##symbol,
	PG_HOOKS(PG_X)
#undef PG_X
	PG_HOOK_COUNT
};
