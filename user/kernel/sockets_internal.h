/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of sockets.h share: inet_diag messages (sockets_diag.c), peers (sockets_peer.c).
 */
#pragma once

#include <linux/inet_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <libmnl/libmnl.h>

#include "base/clock.h"
#include "kernel/sockets.h"

static inline bool pg_sockets_is_over(const struct pg_sockets_query *query)
{
	return query->until && pg_monotonic_ns() > query->until;
}

/* A socket as a possible peer of another: the little of it that is kept for every socket. */
struct pg_diag_peer {
	struct pg_addr local, remote; /* remote is zero if the socket is not connected */
	__be16 local_port, remote_port;
	uint8_t protocol;
	bool connected;
	bool v6only;
	uint64_t cgroup_id;
};

/* A connected or connecting socket of a member cgroup. */
struct pg_diag_own {
	struct pg_socket socket;
	struct inet_diag_sockid id; /* as the kernel gave it, with the cookie */
	uint8_t family;
	bool orphan;  /* closed by the application, but still sending */
	bool pending; /* to be destroyed */
};

struct pg_diag_list {
	struct pg_diag_peer *peers;
	size_t peer_count, peer_room;
	struct pg_diag_own *own;
	size_t own_count, own_room;
};

void pg_diag_list_clear(struct pg_diag_list *list);

/* A socket-diag connection to one network namespace. */
struct pg_diag {
	struct mnl_socket *netlink;
	unsigned int portid, sequence;
	int mptcp_fd; /* net.mptcp.close_timeout of that namespace; -1: this kernel has none */
	char *buffer;
};

#define PG_DIAG_CLOSED \
	{ \
		.mptcp_fd = -1 \
	}

/* netns_fd as in pg_sockets_query. The thread is back in its own namespace afterwards. */
int pg_diag_open(struct pg_diag *diag, int netns_fd, struct pg_error *err) PG_MUST_CHECK;
void pg_diag_close(struct pg_diag *diag);

/* Appends to list what the namespace has of the protocol and family. */
int pg_diag_dump(struct pg_diag *diag, int family, int protocol,
		 const struct pg_sockets_query *query, struct pg_diag_list *list,
		 struct pg_error *err) PG_MUST_CHECK;

/*
 * Destroys one socket. -ENOENT, without a text in err: it is gone, or the lookup by addresses found
 * another socket with the same ones (SO_REUSEADDR).
 */
int pg_diag_destroy(struct pg_diag *diag, int family, int protocol,
		    const struct inet_diag_sockid *id, struct pg_error *err) PG_MUST_CHECK;

/* Whether the kernel offers the protocol's dump and destroy, found without touching a socket. */
int pg_diag_supported(struct pg_diag *diag, int protocol, struct pg_error *err) PG_MUST_CHECK;

/* MPTCP sockets of member cgroups, and net.mptcp.close_timeout as it was (empty: left alone). */
struct pg_diag_mptcp {
	size_t live;
	char timeout[16];
};

/* To be called around the destruction of TCP sockets, so that their MPTCP sockets end at once. */
void pg_diag_mptcp_begin(struct pg_diag *diag, const struct pg_sockets_query *query,
			 struct pg_diag_mptcp *ret_state);
int pg_diag_mptcp_end(struct pg_diag *diag, const struct pg_sockets_query *query,
		      const struct pg_diag_mptcp *state, size_t destroyed,
		      struct pg_error *err) PG_MUST_CHECK;

/* For the above: begins a request, sends it and hands each socket answered to handler. */
struct nlmsghdr *pg_diag_start(struct pg_diag *diag, uint16_t type, uint16_t flags,
			       const struct inet_diag_req_v2 *request);
/* handler returns 0 or a negative errno. */
int pg_diag_transact(struct pg_diag *diag, const struct nlmsghdr *message, mnl_cb_t handler,
		     void *userdata, bool *ret_interrupted) PG_MUST_CHECK;
/* Says what a negative errno of the kernel means here, and returns it. */
int pg_diag_explain(int number, int protocol, const char *operation, struct pg_error *err);

/* Fills peer_found and peer_cgroup_id of every own socket. */
int pg_diag_find_peers(struct pg_diag_list *list, struct pg_error *err) PG_MUST_CHECK;
