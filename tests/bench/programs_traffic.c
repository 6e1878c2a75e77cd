/* SPDX-License-Identifier: Apache-2.0 */
#include "programs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define DATAGRAM    32
#define REQUEST	    64
#define SPREAD_STEP 40503 /* a prime */
#define UDP_LITE    136
#define ANY_PORT    0

static const char datagram[DATAGRAM];
/* In the child the sockets of its traffic; in the parent the one that sends to it. */
static int own_fd = -1, outside_fd = -1;

static struct sockaddr_in ipv4(const char *address, uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, address, &to.sin_addr);
	return to;
}

static void must_send(size_t size, ssize_t sent)
{
	if (sent != (ssize_t)size)
		fail("traffic that is allowed was not sent: %s", strerror(errno));
}

static void must_deny(int result)
{
	if (result >= 0 || errno != EPERM)
		fail("traffic that is denied was sent: %s", strerror(errno));
}

static bool open_stream(void)
{
	own_fd = connected(SOCK_STREAM, BENCH_TARGET4, BENCH_PORT + 1);
	return true;
}

static void exchange(size_t count, size_t round)
{
	char buffer[REQUEST];

	(void)round;
	memset(buffer, 'r', sizeof(buffer));
	for (size_t i = 0; i < count; i++) {
		size_t got = 0;

		must_send(sizeof(buffer), send(own_fd, buffer, sizeof(buffer), 0));
		while (got < sizeof(buffer)) {
			const ssize_t size = recv(own_fd, buffer, sizeof(buffer) - got, 0);

			if (size <= 0)
				fail("answer: %s", strerror(errno));
			got += (size_t)size;
		}
	}
}

static bool open_nothing(void)
{
	return true;
}

static void connect_and_close(size_t count, size_t round)
{
	const struct linger reset = {.l_onoff = 1};

	(void)round;
	for (size_t i = 0; i < count; i++) {
		int fd = connected(SOCK_STREAM, BENCH_TARGET4, BENCH_PORT);

		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(fd);
	}
}

static bool open_flow(void)
{
	own_fd = connected(SOCK_DGRAM, BENCH_TARGET4, BENCH_PORT);
	return true;
}

static void send_flow(size_t count, size_t round)
{
	(void)round;
	for (size_t i = 0; i < count; i++)
		must_send(sizeof(datagram), send(own_fd, datagram, sizeof(datagram), 0));
}

static bool open_datagrams(void)
{
	own_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return own_fd >= 0;
}

static void send_each(size_t first, size_t count, size_t destinations)
{
	struct sockaddr_in to = ipv4(BENCH_TARGET4, BENCH_PORT);

	for (size_t i = 0; i < count; i++) {
		const size_t destination = (first + i) * SPREAD_STEP % destinations;

		to.sin_addr.s_addr = htonl(set_address4(destination));
		must_send(sizeof(datagram), sendto(own_fd, datagram, sizeof(datagram), 0,
						   (struct sockaddr *)&to, sizeof(to)));
	}
}

static size_t spread_max;

static void send_spread(size_t count, size_t round)
{
	send_each(round * count, count,
		  spread_max < TRAFFIC_DESTINATIONS ? spread_max : TRAFFIC_DESTINATIONS);
}

/* Never sent to before in this round, and the parent has all flows forgotten after it. */
static void send_new(size_t count, size_t round)
{
	send_each(round * count, count, spread_max);
}

static bool open_unconnected(void)
{
	own_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return own_fd >= 0;
}

static void connect_denied(size_t count, size_t round)
{
	const struct sockaddr_in to = ipv4(TRAFFIC_DENIED4, BENCH_PORT);

	(void)round;
	for (size_t i = 0; i < count; i++)
		must_deny(connect(own_fd, (const struct sockaddr *)&to, sizeof(to)));
}

static void send_denied(size_t count, size_t round)
{
	const struct sockaddr_in to = ipv4(TRAFFIC_DENIED4, BENCH_PORT);

	(void)round;
	for (size_t i = 0; i < count; i++)
		must_deny((int)sendto(own_fd, datagram, sizeof(datagram), 0,
				      (const struct sockaddr *)&to, sizeof(to)));
}

/* Of UDP-Lite no hook of connect or sendmsg is run, so that the packet is what is denied. */
static bool open_lite(void)
{
	const struct sockaddr_in to = ipv4(TRAFFIC_DENIED4, BENCH_PORT);

	own_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, UDP_LITE);
	return own_fd >= 0 && !connect(own_fd, (const struct sockaddr *)&to, sizeof(to));
}

static void send_lite(size_t count, size_t round)
{
	(void)round;
	for (size_t i = 0; i < count; i++)
		must_deny((int)send(own_fd, datagram, sizeof(datagram), 0));
}

/* Nobody reads it: the socket is full at once, behind the hook. */
static bool open_receiver(void)
{
	const struct sockaddr_in local = ipv4(TRAFFIC_CLIENT4, TRAFFIC_IN_PORT);

	own_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return own_fd >= 0 && !bind(own_fd, (const struct sockaddr *)&local, sizeof(local));
}

static void send_in(size_t count, size_t round)
{
	const struct sockaddr_in to = ipv4(TRAFFIC_CLIENT4, TRAFFIC_IN_PORT);

	(void)round;
	for (size_t i = 0; i < count; i++)
		must_send(sizeof(datagram), sendto(outside_fd, datagram, sizeof(datagram), 0,
						   (const struct sockaddr *)&to, sizeof(to)));
}

const struct traffic traffics[] = {
	{"TCP request/response", open_stream, exchange, .count = 50},
	{"TCP connect + close", open_nothing, connect_and_close, .count = 50},
	{"UDP, one flow", open_flow, send_flow, .count = 256},
	{"UDP, 4,096 flows", open_datagrams, send_spread, .count = TRAFFIC_DESTINATIONS},
	{"UDP, new flows", open_datagrams, send_new, .forget = true, .count = 256},
	{"UDP from outside", open_receiver, send_in, .outside = true, .count = 256},
	{"denied: TCP connect", open_unconnected, connect_denied, .denied = true, .count = 256},
	{"denied: UDP sendto", open_datagrams, send_denied, .denied = true, .count = 256},
	{"denied: packet (UDP-Lite)", open_lite, send_lite, .denied = true, .count = 256},
};
const size_t traffic_count = PG_ARRAY_SIZE(traffics);

void traffic_open(const char *namespace, size_t spread)
{
	outside_fd = socket_in(namespace, SOCK_DGRAM, TRAFFIC_SERVER4, ANY_PORT);
	spread_max = spread < TRAFFIC_SPREAD ? spread : TRAFFIC_SPREAD;
}

void traffic_begin(struct traffic_child *child, const struct traffic *traffic)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		fail("socketpair: %s", strerror(errno));
	*child = (struct traffic_child){.traffic = traffic, .fd = ends[0], .child_fd = ends[1]};
}

static void work(const struct traffic *traffic, size_t round)
{
	traffic->batch(traffic->count, round);
}

/* What the parent does at its end is not for the child to do. */
static void leave(void)
{
	_exit(EXIT_FAILURE);
}

int traffic_child_main(void *userdata)
{
	struct traffic_child *child = userdata;
	char octet;

	atexit(leave);
	pg_close_fd(&child->fd);
	pin_last();
	if (read(child->child_fd, &octet, 1) != 1)
		return 0;
	octet = child->traffic->prepare() ? 'y' : 'n';
	while (write(child->child_fd, &octet, 1) == 1 && read(child->child_fd, &octet, 1) == 1)
		if (!child->traffic->outside)
			work(child->traffic, child->round++);
	return 0;
}

static char ask(const struct traffic_child *child)
{
	char octet = 'y';

	if (write(child->fd, &octet, 1) != 1 || read(child->fd, &octet, 1) != 1)
		fail("the process that does \"%s\" has ended", child->traffic->name);
	return octet;
}

bool traffic_ready(struct traffic_child *child)
{
	pg_close_fd(&child->child_fd);
	return ask(child) == 'y';
}

void traffic_batch(struct traffic_child *child)
{
	if (child->traffic->outside)
		work(child->traffic, child->round++);
	ask(child);
}

void traffic_end(struct traffic_child *child)
{
	pg_close_fd(&child->fd);
	pg_close_fd(&child->child_fd);
}
