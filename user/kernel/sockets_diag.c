/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inet_diag over netlink. A netlink socket stays in the network namespace in which it was made,
 * so only its creation happens there.
 */
#include "kernel/sockets_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <string.h>

#include "base/netns.h"

/* The kernel fills at most 32 KiB of a dump at a time unless one message needs more. */
#define BUFFER_BYTES (64 * 1024)

static const char *protocol_name(int protocol)
{
	return protocol == IPPROTO_TCP ? "TCP" : "UDP";
}

/* Opens what belongs to the calling thread's network namespace. */
static int open_here(struct pg_diag *diag, struct pg_error *err)
{
	diag->netlink = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	if (!diag->netlink)
		return pg_fail_errno(err, -errno, "open of a NETLINK_SOCK_DIAG socket");
	if (mnl_socket_bind(diag->netlink, 0, MNL_SOCKET_AUTOPID) < 0)
		return pg_fail_errno(err, -errno, "bind of a NETLINK_SOCK_DIAG socket");
	diag->portid = mnl_socket_get_portid(diag->netlink);
	/* Which namespace's value it is, is fixed by the open. */
	diag->mptcp_fd = open("/proc/sys/net/mptcp/close_timeout", O_RDWR | O_CLOEXEC);
	return 0;
}

int pg_diag_open(struct pg_diag *diag, int netns_fd, struct pg_error *err)
{
	PG_CLEANUP(pg_netns_leave) int back = -1;
	int r;

	diag->buffer = malloc(BUFFER_BYTES);
	if (!diag->buffer)
		return pg_fail_errno(err, -ENOMEM, "buffer for socket diag");
	r = pg_netns_enter(netns_fd, &back, err);
	return r < 0 ? r : open_here(diag, err);
}

void pg_diag_close(struct pg_diag *diag)
{
	if (diag->netlink)
		mnl_socket_close(diag->netlink);
	pg_close_fd(&diag->mptcp_fd);
	free(diag->buffer);
	*diag = (struct pg_diag)PG_DIAG_CLOSED;
}

struct nlmsghdr *pg_diag_start(struct pg_diag *diag, uint16_t type, uint16_t flags,
			       const struct inet_diag_req_v2 *request)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(diag->buffer);

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | flags;
	message->nlmsg_seq = ++diag->sequence;
	*(struct inet_diag_req_v2 *)mnl_nlmsg_put_extra_header(message, sizeof(*request)) =
		*request;
	return message;
}

/* Receives into the buffer. Returns the number of bytes or a negative errno. */
static ssize_t receive(struct pg_diag *diag)
{
	ssize_t got;

	do
		got = mnl_socket_recvfrom(diag->netlink, diag->buffer, BUFFER_BYTES);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/*
 * Handles the answers in the buffer. Returns 1 when the answer is complete, 0 if more follows.
 * Written by hand since mnl_cb_run() ignores the error that a failed dump puts into NLMSG_DONE,
 * and stops in the middle of an interrupted one.
 */
static int read_answers(struct pg_diag *diag, ssize_t got, mnl_cb_t handler, void *userdata,
			bool *interrupted)
{
	int rest = (int)got;

	for (const struct nlmsghdr *message = (const void *)diag->buffer;
	     mnl_nlmsg_ok(message, rest); message = mnl_nlmsg_next(message, &rest)) {
		if (message->nlmsg_seq != diag->sequence || message->nlmsg_pid != diag->portid)
			continue;
		*interrupted |= message->nlmsg_flags & NLM_F_DUMP_INTR;
		if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR) {
			/* Both begin with 0 or a negative errno. */
			int number = 0;

			if (mnl_nlmsg_get_payload_len(message) >= sizeof(number))
				memcpy(&number, mnl_nlmsg_get_payload(message), sizeof(number));
			return number < 0 ? number : 1;
		}
		if (message->nlmsg_type == SOCK_DIAG_BY_FAMILY && handler) {
			int r = handler(message, userdata);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

int pg_diag_transact(struct pg_diag *diag, const struct nlmsghdr *message, mnl_cb_t handler,
		     void *userdata, bool *ret_interrupted)
{
	int r = 0;

	*ret_interrupted = false;
	if (mnl_socket_sendto(diag->netlink, message, message->nlmsg_len) < 0)
		return -errno;
	while (r == 0) {
		ssize_t got = receive(diag);

		if (got < 0)
			return (int)got;
		r = read_answers(diag, got, handler, userdata, ret_interrupted);
	}
	return r < 0 ? r : 0;
}

int pg_diag_explain(int number, int protocol, const char *operation, struct pg_error *err)
{
	const char *name = protocol_name(protocol);
	const char *module = protocol == IPPROTO_TCP ? "tcp_diag" : "udp_diag";

	switch (number) {
	case -ENOENT:
		return pg_fail(err, number,
			       "%s %s sockets: the kernel has no socket diag for them; load it "
			       "with `modprobe %s` (CONFIG_INET_%s_DIAG)",
			       operation, name, module, name);
	case -EOPNOTSUPP:
		return pg_fail(err, number,
			       "%s %s sockets: this kernel cannot destroy sockets "
			       "(CONFIG_INET_DIAG_DESTROY is not set); use one that can, such as "
			       "a distribution's",
			       operation, name);
	case -EPERM:
		return pg_fail(err, number,
			       "%s %s sockets: not permitted; run with CAP_NET_ADMIN (and CAP_BPF "
			       "or CAP_SYS_ADMIN, to read the sockets' marks)",
			       operation, name);
	default:
		return pg_fail_errno(err, number, "%s %s sockets", operation, name);
	}
}

int pg_diag_destroy(struct pg_diag *diag, int family, int protocol,
		    const struct inet_diag_sockid *id, struct pg_error *err)
{
	const struct inet_diag_req_v2 request = {
		.sdiag_family = (uint8_t)family,
		.sdiag_protocol = (uint8_t)protocol,
		.id = *id,
	};
	bool interrupted;
	int r = pg_diag_transact(diag, pg_diag_start(diag, SOCK_DESTROY, NLM_F_ACK, &request), NULL,
				 NULL, &interrupted);

	/* TCP says ESTALE and UDP ENOENT when the cookie is another socket's. */
	if (r == -ENOENT || r == -ESTALE)
		return -ENOENT;
	return r < 0 ? pg_diag_explain(r, protocol, "closing of", err) : 0;
}

int pg_diag_supported(struct pg_diag *diag, int protocol, struct pg_error *err)
{
	/* No socket has port 0 at both ends, nor this cookie. */
	const struct inet_diag_sockid nobody = {.idiag_cookie = {1, 1}};
	/* A dump of no state at all fails like any other if the protocol's module is missing. */
	const struct inet_diag_req_v2 request = {
		.sdiag_family = AF_INET,
		.sdiag_protocol = (uint8_t)protocol,
	};
	bool interrupted;
	int r = pg_diag_transact(diag,
				 pg_diag_start(diag, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &request),
				 NULL, NULL, &interrupted);

	if (r < 0)
		return pg_diag_explain(r, protocol, "dump of", err);
	r = pg_diag_destroy(diag, AF_INET, protocol, &nobody, err);
	return r == -ENOENT ? 0 : r;
}
