/* SPDX-License-Identifier: Apache-2.0 */
#include "verify.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <resolv.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The child is among processes that are not trusted: it gives up what it does not need, so that
 * nobody there has anything from it. Descriptors but the one for the report are closed.
 */
static int give_up(int write_fd)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	alarm(PG_VERIFY_CHILD_S);
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || syscall(SYS_capset, &header, none) ||
	    dup2(write_fd, STDIN_FILENO) < 0 || syscall(SYS_close_range, 1U, ~0U, 0))
		return -errno;
	return 0;
}

int pg_verify_make_query(const char *name, int type, uint16_t id, unsigned char *query, size_t room)
{
	const HEADER header = {.id = id, .rd = 1, .qdcount = htons(1)};
	unsigned char *end = query + sizeof(header);
	int size;

	memcpy(query, &header, sizeof(header));
	size = ns_name_compress(name, end, room - sizeof(header) - 2 * NS_INT16SZ, NULL, NULL);
	if (size < 0)
		return -EINVAL;
	end += size;
	NS_PUT16(type, end);
	NS_PUT16(ns_c_in, end);
	return (int)(end - query);
}

/* Any nameserver is the Environment's: port 53 leads to its resolver. */
static int exchange(const unsigned char *query, size_t size, unsigned char *answer, size_t room)
{
	const struct sockaddr_in server = {
		.sin_family = AF_INET,
		.sin_port = htons(PG_PORT_DNS),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	pg_autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};
	ssize_t got;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&server, sizeof(server)) ||
	    send(fd, query, size, 0) < 0)
		return -errno;
	if (poll(&pollfd, 1, PG_VERIFY_NAME_MS) <= 0)
		return -ETIMEDOUT;
	got = recv(fd, answer, room, 0);
	return got < 0 ? -errno : (int)got;
}

static int take_address(const ns_rr *record, int type, struct pg_addr *ret_addr)
{
	struct in_addr in;

	if ((int)ns_rr_type(*record) != type)
		return -ENOENT;
	if (type == ns_t_a && ns_rr_rdlen(*record) == sizeof(in)) {
		memcpy(&in, ns_rr_rdata(*record), sizeof(in));
		*ret_addr = pg_addr_from_v4(in.s_addr);
		return 0;
	}
	if (type != ns_t_aaaa || ns_rr_rdlen(*record) != sizeof(struct in6_addr))
		return -ENOENT;
	*ret_addr = pg_addr_from_bytes(ns_rr_rdata(*record));
	return 0;
}

static int ask(const char *name, int type, struct pg_addr *ret_addr)
{
	unsigned char query[NS_PACKETSZ], answer[4096];
	ns_msg message;
	ns_rr record;
	uint16_t id;
	int size;

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return -EIO;
	size = pg_verify_make_query(name, type, id, query, sizeof(query));
	if (size > 0)
		size = exchange(query, (size_t)size, answer, sizeof(answer));
	if (size < 0 || ns_initparse(answer, size, &message) || ns_msg_id(message) != ntohs(id))
		return -ENOENT;
	for (int i = 0; i < ns_msg_count(message, ns_s_an); i++)
		if (ns_parserr(&message, ns_s_an, i, &record) == 0 &&
		    take_address(&record, type, ret_addr) == 0)
			return 0;
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
	struct pg_verify_report report = {0};

	if (give_up(probe->write_fd) < 0)
		return 1;
	for (size_t i = 0; i < PG_VERIFY_COUNT; i++)
		try_target(&probe->targets[i], &report.outcomes[i]);
	pg_verify_try_all(probe->plans, report.tries);
	return write(STDIN_FILENO, &report, sizeof(report)) != (ssize_t)sizeof(report);
}
