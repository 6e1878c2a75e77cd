/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open TCP and connected UDP sockets of an Environment, and closing them so that the
 * application sees an error at once (inet_diag and SOCK_DESTROY over libmnl; kernel
 * Documentation/networking and include/uapi/linux/inet_diag.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <phasegate/abi/flow.h>

#include "base/error.h"
#include "net/addr.h"

struct pg_socket {
	uint8_t protocol;		  /* IPPROTO_TCP or IPPROTO_UDP */
	uint8_t state;			  /* TCP_ESTABLISHED ... of netinet/tcp.h */
	struct pg_endpoint local, remote; /* IPv4-mapped addresses are IPv4 here */
	uint64_t cgroup_id;
	uint64_t cookie;
	struct pg_mark mark; /* kind PG_MARK_NONE if the socket has none */
	/*
	 * The peer's end is a socket in the same network namespace; if that is not connected
	 * itself (a UDP server, the listener of a TCP socket in SYN_SENT), the one bound there.
	 */
	bool peer_found;
	uint64_t peer_cgroup_id;
};

/* Returns whether the socket is to be closed. */
typedef bool (*pg_socket_judge)(void *userdata, const struct pg_socket *socket);

/* Returns whether the cgroup id belongs to the Environment (its own or a descendant's). */
typedef bool (*pg_cgroup_member)(void *userdata, uint64_t cgroup_id);

struct pg_sockets_query {
	int netns_fd;	 /* network namespace; -1: the caller's */
	int mark_map_fd; /* the sk_storage map of struct pg_mark */
	pg_cgroup_member member;
	pg_socket_judge judge;
	void *userdata;
	uint64_t until; /* pg_monotonic_ns(): then it is given up with -ETIMEDOUT; 0: it is not */
};

/*
 * One pass over the namespace: every connected or connecting TCP socket (SYN_SENT to CLOSING,
 * TIME_WAIT and request sockets excepted) and every connected UDP socket of a member cgroup, v4
 * and v6, is shown to judge, and destroyed if it says so. The calling thread ends in the namespace
 * in which it began. *ret_closed counts those destroyed, also on failure; a socket that went away
 * by itself meanwhile is not an error.
 */
int pg_sockets_close(const struct pg_sockets_query *query, size_t *ret_closed,
		     struct pg_error *err) PG_MUST_CHECK;
