/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* Emulated machines are slow; a denial has its own limit, in the judge. */
#define PATIENCE_S 5

const char *const kind_names[KIND_COUNT] = {
	[KIND_TCP] = "tcp",
	[KIND_UDP] = "udp",
	[KIND_UDP_CONNECTED] = "udp-connected",
};

static int set_patience(int fd)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
		return -errno;
	return 0;
}

static int parse(const char *address, uint16_t port, struct sockaddr_storage *storage,
		 socklen_t *length)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)storage;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)storage;

	memset(storage, 0, sizeof(*storage));
	if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		*length = sizeof(*v4);
		return 0;
	}
	if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		*length = sizeof(*v6);
		return 0;
	}
	return -EINVAL;
}

static int exchange_on(int fd, enum kind kind, const struct sockaddr_storage *storage,
		       socklen_t length, uint32_t token)
{
	const struct sockaddr *address = (const struct sockaddr *)storage;
	uint32_t echo = ~token;
	ssize_t n;

	if (kind == KIND_UDP) {
		n = sendto(fd, &token, sizeof(token), 0, address, length);
	} else {
		if (connect(fd, address, length) < 0)
			return -errno;
		n = send(fd, &token, sizeof(token), MSG_NOSIGNAL);
	}
	if (n < 0)
		return -errno;
	n = recv(fd, &echo, sizeof(echo), 0);
	if (n < 0)
		return errno == EAGAIN ? -ENODATA : -errno;
	return n == sizeof(echo) && echo == token ? 0 : -EBADMSG;
}

int exchange(enum kind kind, const char *address, uint16_t port, uint32_t token)
{
	struct sockaddr_storage storage;
	socklen_t length;
	int fd, r;

	r = parse(address, port, &storage, &length);
	if (r < 0)
		return r;
	fd = socket(storage.ss_family, kind == KIND_TCP ? SOCK_STREAM : SOCK_DGRAM, 0);
	if (fd < 0)
		return -errno;
	r = set_patience(fd);
	if (r == 0)
		r = exchange_on(fd, kind, &storage, length, token);
	close(fd);
	return r;
}

static int bind_any(int type, uint16_t port)
{
	const struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd, r, on = 1, off = 0;

	fd = socket(AF_INET6, type, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)&any, sizeof(any)) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

int server_open(uint16_t port, int *ret_listener, int *ret_datagrams)
{
	int listener, datagrams, r;

	listener = bind_any(SOCK_STREAM, port);
	if (listener < 0)
		return listener;
	datagrams = bind_any(SOCK_DGRAM, port);
	if (datagrams < 0 || listen(listener, 16) < 0) {
		r = datagrams < 0 ? datagrams : -errno;
		close(listener);
		return r;
	}
	*ret_listener = listener;
	*ret_datagrams = datagrams;
	return 0;
}

/* Counts a token; returns whether there was one. */
static bool count(struct record *record, ssize_t n, uint32_t token)
{
	if (n != sizeof(token) || token >= TOKENS_MAX)
		return false;
	__atomic_fetch_add(&record->arrived[token], 1, __ATOMIC_RELAXED);
	return true;
}

static bool serve_connection(int listener, struct record *record)
{
	uint32_t token = 0;
	bool counted;
	ssize_t n;
	int fd;

	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		return false;
	(void)set_patience(fd);
	n = recv(fd, &token, sizeof(token), 0);
	counted = count(record, n, token);
	if (counted)
		(void)send(fd, &token, sizeof(token), MSG_NOSIGNAL);
	else
		__atomic_fetch_add(&record->empty, 1, __ATOMIC_RELAXED);
	close(fd);
	return counted;
}

/* The answer leaves from the address that was asked: a connected socket takes no other. */
static bool serve_datagram(int datagrams, struct record *record)
{
	uint32_t token = 0;
	struct iovec payload = {.iov_base = &token, .iov_len = sizeof(token)};
	struct sockaddr_in6 peer;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	struct msghdr message = {
		.msg_name = &peer,
		.msg_namelen = sizeof(peer),
		.msg_iov = &payload,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	n = recvmsg(datagrams, &message, MSG_DONTWAIT);
	if (!count(record, n, token))
		return false;
	return sendmsg(datagrams, &message, 0) == sizeof(token);
}

int server_run(int listener, int datagrams, struct record *record, unsigned int count)
{
	struct pollfd fds[] = {
		{.fd = listener, .events = POLLIN},
		{.fd = datagrams, .events = POLLIN},
	};
	unsigned int served = 0;
	int r;

	while (count == 0 || served < count) {
		r = poll(fds, 2, count ? 4 * PATIENCE_S * 1000 : -1);
		if (r < 0)
			return -errno;
		if (r == 0)
			return -ETIMEDOUT;
		if (fds[0].revents)
			served += serve_connection(listener, record);
		if (fds[1].revents)
			served += serve_datagram(datagrams, record);
	}
	return 0;
}
