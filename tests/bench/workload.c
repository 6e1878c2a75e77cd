/* SPDX-License-Identifier: Apache-2.0 */
/* What the client does with sockets; workload_http.c has the rest. */
#include "bench.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define DATAGRAM    32
#define REQUEST	    64
#define KIB	    1024
#define BULK	    (128 * KIB) /* what one system call sends */
#define SPREAD_STEP 40503	/* a prime */
#define TIME_EVERY  64 /* operations between two looks at the clock, where they are short */

int connected(int type, const char *address, uint16_t port)
{
	struct sockaddr_storage to;
	const socklen_t size = endpoint(address, port, &to);
	int one = 1, fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, size) < 0)
		fail("connecting to %s: %s", address, strerror(errno));
	if (type == SOCK_STREAM)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

void close_reset(int fd)
{
	const struct linger reset = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
}

static void run_connects(const struct assignment *assignment, uint64_t until_ns,
			 uint64_t *operations)
{
	(void)assignment;
	for (; pg_monotonic_ns() < until_ns; ++*operations)
		close_reset(connected(SOCK_STREAM, BENCH_TARGET4, BENCH_PORT));
}

/* Every time another address: what a look-up in a cold set costs. */
static void next_address(const struct assignment *assignment, size_t *next, struct sockaddr_in *to)
{
	*next = (*next + SPREAD_STEP) % assignment->spread;
	to->sin_addr.s_addr = htonl(set_address4(*next));
}

static void run_connects_spread(const struct assignment *assignment, uint64_t until_ns,
				uint64_t *operations)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(BENCH_PORT)};
	size_t next = 0;

	for (; pg_monotonic_ns() < until_ns; ++*operations) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		next_address(assignment, &next, &to);
		if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
			fail("connecting to address %zu: %s", next, strerror(errno));
		close_reset(fd);
	}
}

static void run_requests(const struct assignment *assignment, uint64_t until_ns,
			 uint64_t *operations)
{
	pg_autoclose int fd = connected(SOCK_STREAM, BENCH_TARGET4, BENCH_PORT + 1);
	char buffer[REQUEST];

	(void)assignment;
	memset(buffer, 'r', sizeof(buffer));
	/* The first octet says that answers are wanted, and is answered alone or with the rest. */
	while (pg_monotonic_ns() < until_ns) {
		size_t got = 0;

		if (send(fd, buffer, sizeof(buffer), 0) != sizeof(buffer))
			fail("request: %s", strerror(errno));
		while (got < sizeof(buffer)) {
			const ssize_t size = recv(fd, buffer, sizeof(buffer) - got, 0);

			if (size <= 0)
				fail("answer: %s", strerror(errno));
			got += (size_t)size;
		}
		++*operations;
	}
}

static void run_bulk(const struct assignment *assignment, uint64_t until_ns, uint64_t *operations)
{
	pg_autoclose int fd = connected(SOCK_STREAM, BENCH_TARGET4, BENCH_PORT + 1);
	static char buffer[BULK];

	(void)assignment;
	memset(buffer, 'b', sizeof(buffer));
	while (pg_monotonic_ns() < until_ns) {
		const ssize_t size = send(fd, buffer, sizeof(buffer), 0);

		if (size <= 0)
			fail("bulk: %s", strerror(errno));
		*operations += (uint64_t)size / KIB;
	}
}

/* A descriptor of the process that started this one; what is inherited is closed. */
static int fetch(int number)
{
	pg_autoclose int parent = (int)syscall(SYS_pidfd_open, getppid(), 0);
	const int fd = (int)syscall(SYS_pidfd_getfd, parent, number, 0);

	if (fd < 0)
		fail("fetching a socket: %s", strerror(errno));
	return fd;
}

/* Sends and receives by turns: nobody waits, and nothing hangs on who is woken when. */
static void run_bulk_alone(const struct assignment *assignment, uint64_t until_ns,
			   uint64_t *operations)
{
	pg_autoclose int listener = fetch(assignment->listener);
	pg_autoclose int fd = connected(SOCK_STREAM, BENCH_TARGET4, BENCH_PORT_ALONE);
	pg_autoclose int other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	static char buffer[BULK];

	if (other < 0)
		fail("accepting: %s", strerror(errno));
	while (pg_monotonic_ns() < until_ns) {
		ssize_t size = send(fd, buffer, sizeof(buffer), MSG_DONTWAIT);

		if (size < 0 && errno != EAGAIN)
			fail("bulk: %s", strerror(errno));
		while ((size = recv(other, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0)
			*operations += (uint64_t)size / KIB;
	}
}

static void run_datagrams(const struct assignment *assignment, uint64_t until_ns,
			  uint64_t *operations)
{
	pg_autoclose int fd = connected(SOCK_DGRAM, BENCH_TARGET4, BENCH_PORT);
	static const char datagram[DATAGRAM];

	(void)assignment;
	while (pg_monotonic_ns() < until_ns)
		for (size_t i = 0; i < TIME_EVERY; i++, ++*operations)
			if (send(fd, datagram, sizeof(datagram), 0) < 0)
				fail("datagram: %s", strerror(errno));
}

/* One socket, so that what is done to warm up has been at every address with it: twice, since a
 * datagram is remembered from the second one on. */
static void run_spread(const struct assignment *assignment, uint64_t until_ns, uint64_t *operations)
{
	static int fd = -1;
	static const char datagram[DATAGRAM];
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(BENCH_PORT)};
	static size_t next;

	if (fd < 0)
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	while (pg_monotonic_ns() < until_ns)
		for (size_t i = 0; i < TIME_EVERY; i++, ++*operations) {
			next_address(assignment, &next, &to);
			if (sendto(fd, datagram, sizeof(datagram), 0, (struct sockaddr *)&to,
				   sizeof(to)) < 0)
				fail("datagram to address %zu: %s", next, strerror(errno));
		}
}

const struct workload workloads[] = {
	{"TCP connect", "1,000/s", 1e3, run_connects, .sockets = true},
	{"TCP connect, 4,096 destinations", "1,000/s", 1e3, run_connects_spread, .sockets = true},
	{"TCP request/response", "1,000/s", 1e3, run_requests, .sockets = true},
	{"TCP bulk", "Gbit/s", 1e9 / 8 / KIB, run_bulk, .sockets = true},
	{"TCP bulk, one CPU", "Gbit/s", 1e9 / 8 / KIB, run_bulk_alone, .sockets = true,
	 .alone = true},
	{"UDP connected", "1,000/s", 1e3, run_datagrams, .sockets = true},
	{"UDP, 4,096 destinations", "1,000/s", 1e3, run_spread, .sockets = true,
	 .warm_up = 2 * BENCH_SPREAD},
	{"HTTP 1 KB, kept", "1,000/s", 1e3, run_http_kept, .sockets = false},
	{"HTTP 1 KB, new", "1,000/s", 1e3, run_http_single, .sockets = false},
	{"HTTP 10 MB", "1/s", 1, run_http_large, .sockets = false},
};
const size_t workload_count = PG_ARRAY_SIZE(workloads);

size_t workload_udp(void)
{
	for (size_t i = 0; i < workload_count; i++)
		if (workloads[i].run == run_datagrams)
			return i;
	return 0;
}
