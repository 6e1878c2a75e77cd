/* SPDX-License-Identifier: Apache-2.0 */
#include "verify.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <resolv.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The child is among processes that are not trusted: it gives up what it does not need, so that
 * nobody there has anything from it. Descriptors but the one for the report are closed.
 */
static int give_up(int write_fd)
{
	cap_t none = cap_init();
	int error = 0;

	alarm(PG_VERIFY_CHILD_S);
	if (!none || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || cap_set_proc(none) ||
	    dup2(write_fd, STDIN_FILENO) < 0 || syscall(SYS_close_range, 1U, ~0U, 0))
		error = -errno;
	cap_free(none);
	return error;
}

/* Any nameserver is the Environment's: port 53 leads to its resolver. */
static int ask(const char *name, int type, struct pg_addr *ret_addr)
{
	unsigned char answer[4096];
	struct __res_state state = {0};
	ns_msg message;
	ns_rr record;
	int size;

	if (res_ninit(&state))
		return -EIO;
	state.nscount = 1;
	state.nsaddr_list[0] = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(PG_PORT_DNS),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	state.retrans = 2;
	state.retry = 1;
	size = res_nquery(&state, name, ns_c_in, type, answer, sizeof(answer));
	res_nclose(&state);
	if (size < 0 || ns_initparse(answer, size, &message))
		return -ENOENT;
	for (int i = 0; i < ns_msg_count(message, ns_s_an); i++) {
		if (ns_parserr(&message, ns_s_an, i, &record) || (int)ns_rr_type(record) != type)
			continue;
		if (type == ns_t_a && ns_rr_rdlen(record) == sizeof(struct in_addr)) {
			struct in_addr in;

			memcpy(&in, ns_rr_rdata(record), sizeof(in));
			*ret_addr = pg_addr_from_v4(in.s_addr);
			return 0;
		}
		if (type == ns_t_aaaa && ns_rr_rdlen(record) == sizeof(struct in6_addr)) {
			*ret_addr = pg_addr_from_bytes(ns_rr_rdata(record));
			return 0;
		}
	}
	return -ENOENT;
}

/* 0, or the errno. */
static int try_connect(const struct pg_endpoint *endpoint)
{
	struct sockaddr_storage to;
	const socklen_t length = pg_endpoint_to_sockaddr(endpoint, &to);
	pg_autoclose int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct pollfd pollfd = {.fd = fd, .events = POLLOUT};
	socklen_t size = sizeof(int);
	int number = 0;

	if (fd < 0)
		return errno;
	if (connect(fd, (const struct sockaddr *)&to, length) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return errno;
	if (poll(&pollfd, 1, PG_VERIFY_CONNECT_MS) <= 0)
		return ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size))
		return errno;
	return number;
}

static void try_target(const struct pg_verify_target *target, struct pg_verify_outcome *outcome)
{
	if (!target->given)
		return;
	outcome->tried = true;
	outcome->endpoint = target->endpoint;
	if (*target->name && ask(target->name, ns_t_a, &outcome->endpoint.addr) < 0 &&
	    ask(target->name, ns_t_aaaa, &outcome->endpoint.addr) < 0) {
		outcome->unresolved = true;
		return;
	}
	outcome->number = try_connect(&outcome->endpoint);
}

int pg_verify_probe(void *userdata)
{
	const struct pg_verify_probe *probe = userdata;
	struct pg_verify_outcome outcomes[PG_VERIFY_COUNT] = {0};

	if (give_up(probe->write_fd) < 0)
		return 1;
	for (size_t i = 0; i < PG_VERIFY_COUNT; i++)
		try_target(&probe->targets[i], &outcomes[i]);
	return write(STDIN_FILENO, outcomes, sizeof(outcomes)) != (ssize_t)sizeof(outcomes);
}
