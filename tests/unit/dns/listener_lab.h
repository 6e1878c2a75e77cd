/* SPDX-License-Identifier: Apache-2.0 */
/* A listener whose queries are echoed or held, and clients of it, in one thread. */
#pragma once

#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/wait.h"
#include "dns/listener_internal.h"

#define LAB_HELD_MAX 256
#define LAB_HERE     "/proc/thread-self/ns/net"

struct lab_query {
	struct pg_peer peer;
	bool tcp;
	size_t size;
	uint8_t start[16];
};

struct lab {
	struct pg_listener *listener;
	struct pg_listener_options options;
	bool hold;	   /* queries are not answered; otherwise they are echoed */
	size_t reply_size; /* if not 0, replies have this size */
	unsigned int queries;
	struct lab_query last;
	struct lab_query held[LAB_HELD_MAX];
	unsigned int held_count;
	unsigned int prepared;
};

/* A network namespace of the test's own, for root. (A user namespace is no way: Criterion's process
 * has two threads.) */
static inline bool lab_isolate(void)
{
	return unshare(CLONE_NEWNET) == 0;
}

static inline void lab_need_isolation(void)
{
	if (!lab_isolate())
		cr_skip_test("needs root for a network namespace: %s", strerror(errno));
}

static inline ino_t lab_netns_inode(void)
{
	struct stat status;

	cr_assert_eq(stat(LAB_HERE, &status), 0);
	return status.st_ino;
}

static inline void lab_write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", path,
		  strerror(errno));
	close(fd);
}

/* Binds a socket of the test to the endpoint. */
static inline int lab_occupy(const struct pg_endpoint *endpoint, int type)
{
	struct sockaddr_storage addr;
	socklen_t size = pg_endpoint_to_sockaddr(endpoint, &addr);
	int fd = socket(addr.ss_family, type, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, size) < 0)
		cr_skip_test("cannot bind: %s", strerror(errno));
	if (type == SOCK_STREAM)
		cr_assert_eq(listen(fd, 1), 0);
	return fd;
}

static inline void lab_query(void *userdata, struct pg_listener *listener,
			     const struct pg_peer *peer, bool tcp, const uint8_t *message,
			     size_t size)
{
	static uint8_t reply[UINT16_MAX];
	struct lab *lab = userdata;

	lab->queries++;
	lab->last = (struct lab_query){.peer = *peer, .tcp = tcp, .size = size};
	memcpy(lab->last.start, message,
	       size < sizeof(lab->last.start) ? size : sizeof(lab->last.start));
	if (lab->hold) {
		cr_assert_lt(lab->held_count, LAB_HELD_MAX);
		lab->held[lab->held_count++] = lab->last;
	} else if (lab->reply_size > 0) {
		memcpy(reply, lab->last.start, sizeof(lab->last.start));
		pg_listener_send(listener, peer, reply, lab->reply_size);
	} else {
		pg_listener_send(listener, peer, message, size);
	}
}

static inline int lab_prepare(void *userdata, int fd, struct pg_error *err)
{
	struct lab *lab = userdata;

	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_expect(fcntl(fd, F_GETFL) & O_NONBLOCK);
	lab->prepared++;
	return 0;
}

/* A port that nobody has at the address. */
static inline __be16 lab_free_port(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t size = sizeof(addr);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&addr, &size), 0);
	close(fd);
	return addr.sin_port;
}

/* The processes of tests that run at the same time, where none has its own namespace, differ. */
static inline void lab_setup(struct lab *lab)
{
	uint32_t pid = (uint32_t)getpid();

	memset(lab, 0, sizeof(*lab));
	lab->options = (struct pg_listener_options){
		.netns_fd = -1,
		.prepare = lab_prepare,
		.query = lab_query,
		.userdata = lab,
	};
	lab->options.endpoints[0].addr = pg_addr_from_v4(htonl(0x7f4d0000 | (pid & 0xffff)));
	lab->options.endpoints[0].port = lab_free_port();
	lab->options.endpoints[1].addr = pg_addr_from_bytes(in6addr_loopback.s6_addr);
	lab->options.endpoints[1].port = lab->options.endpoints[0].port;
}

static inline void lab_open(struct lab *lab)
{
	struct pg_error err = {};

	lab_isolate();
	lab_setup(lab);
	cr_assert_eq(pg_listener_open(&lab->options, false, &lab->listener, &err), 0, "%s",
		     err.text);
}

/* One message of the held ones is answered with itself, as far as it is known. */
static inline void lab_answer(struct lab *lab, unsigned int index)
{
	const struct lab_query *query = &lab->held[index];

	pg_listener_send(lab->listener, &query->peer, query->start, query->size);
}

/* Handles what there is, and what comes within so many milliseconds of each other. */
static inline void lab_serve_for(struct lab *lab, int quiet_ms)
{
	struct pg_error err = {};

	while (pg_wait_readable(pg_listener_fd(lab->listener), -1, quiet_ms) > 0)
		cr_assert_eq(pg_listener_process(lab->listener, &err), 0, "%s", err.text);
}

/* The same, if something is to come; however busy the machine is. */
static inline void lab_serve(struct lab *lab)
{
	if (pg_wait_readable(pg_listener_fd(lab->listener), -1, 500) > 0)
		lab_serve_for(lab, 20);
}

/* Until there were so many queries. */
static inline void lab_serve_until(struct lab *lab, unsigned int queries)
{
	struct pg_error err = {};

	while (lab->queries < queries) {
		cr_assert_eq(pg_wait_readable(pg_listener_fd(lab->listener), -1, 5000), 1);
		cr_assert_eq(pg_listener_process(lab->listener, &err), 0, "%s", err.text);
	}
}

static inline int lab_client(const struct lab *lab, int type, bool ipv6)
{
	const struct timeval patience = {.tv_sec = 5};
	struct sockaddr_storage addr;
	socklen_t size = pg_endpoint_to_sockaddr(&lab->options.endpoints[ipv6], &addr);
	int fd = socket(ipv6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&addr, size), 0, "connect: %s",
		     strerror(errno));
	/* What is sent is there at once. */
	if (type == SOCK_STREAM)
		cr_assert_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
	return fd;
}

static inline int lab_connect(const struct lab *lab)
{
	return lab_client(lab, SOCK_STREAM, false);
}

/* Sends a datagram, which comes back. */
static inline void lab_expect_echo(struct lab *lab, int fd, const char *text)
{
	char reply[64];

	cr_assert_eq(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
	lab_serve(lab);
	cr_assert_eq(recv(fd, reply, sizeof(reply), 0), (ssize_t)strlen(text), "%s",
		     strerror(errno));
	cr_expect(memcmp(reply, text, strlen(text)) == 0);
}

/* Messages begin with their number. */
static inline void lab_ask(int fd, uint32_t number, uint16_t size)
{
	static uint8_t frame[2 + UINT16_MAX];

	frame[0] = (uint8_t)(size >> 8);
	frame[1] = (uint8_t)size;
	memcpy(frame + 2, &number, sizeof(number));
	cr_assert_eq(send(fd, frame, 2U + size, MSG_NOSIGNAL), 2 + size, "send: %s",
		     strerror(errno));
}

/* Reads one reply and returns its number; -1: the connection has ended. */
static inline int64_t lab_read(int fd, size_t *ret_size)
{
	static uint8_t message[UINT16_MAX];
	uint8_t length[2];
	uint32_t number;
	size_t size;
	ssize_t got = recv(fd, length, sizeof(length), MSG_WAITALL);

	if (got == 0 || (got < 0 && errno == ECONNRESET))
		return -1;
	cr_assert_eq(got, 2, "recv: %s", strerror(errno));
	size = (size_t)length[0] << 8 | length[1];
	got = recv(fd, message, size, MSG_WAITALL);
	if (got < (ssize_t)size)
		return -1;
	memcpy(&number, message, sizeof(number));
	if (ret_size)
		*ret_size = size;
	return number;
}

/* Whether the listener has closed the connection and nothing is to be read before. */
static inline bool lab_has_ended(int fd)
{
	uint8_t octet;
	ssize_t got = recv(fd, &octet, 1, MSG_DONTWAIT);

	return got == 0 || (got < 0 && errno == ECONNRESET);
}
