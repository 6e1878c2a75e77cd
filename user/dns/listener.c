/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the sockets, and telling who is to handle what they have. */
#include "dns/listener_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/netns.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* since Linux 5.14 */
#endif

/* Connections that wait to be accepted; they hold memory of the kernel. */
#define BACKLOG 256

/* What clients make the kernel hold for a connection; it doubles these. */
#define TCP_IN_OCTETS  (32 * 1024)
#define TCP_OUT_OCTETS (128 * 1024)
/* Queries that came while the thread did something else: a thousand of them. */
#define UDP_IN_OCTETS  (512 * 1024)

_Static_assert(PG_LISTENER_TIMER < PG_LISTENER_CONNECTIONS_MAX,
	       "sources and numbers of connections are told apart");

static bool is_tcp(enum pg_listener_source source)
{
	return source == PG_LISTENER_TCP4 || source == PG_LISTENER_TCP6;
}

static bool is_ipv6(enum pg_listener_source source)
{
	return source == PG_LISTENER_UDP6 || source == PG_LISTENER_TCP6;
}

/* Puts "DNS listener at ENDPOINT (PROTOCOL): " before the text that is there. */
static void name_socket(const struct pg_listener *listener, enum pg_listener_source source,
			struct pg_error *err)
{
	char text[PG_ADDR_TEXT];

	pg_error_prefix(err, "DNS listener at %s (%s)",
			pg_endpoint_format(&listener->options.endpoints[is_ipv6(source)], text),
			is_tcp(source) ? "TCP" : "UDP");
}

static const char *next_step(int number)
{
	switch (number) {
	case EADDRINUSE:
		return "; another process of the network namespace has this port: end it, or "
		       "choose another";
	case EMFILE:
	case ENFILE:
		return "; raise the limit of open descriptors (ulimit -n, fs.file-max)";
	case EPERM:
	case EACCES:
		return "; needs CAP_NET_ADMIN and CAP_NET_RAW in the network namespace";
	default:
		return "";
	}
}

static int fail(struct pg_error *err, int number, const char *operation)
{
	return pg_fail(err, -number, "%s: %s%s", operation, strerror(number), next_step(number));
}

/* lo has no addresses while it is down, as it is in a new namespace. */
static int set_lo_up(char ret_name[IFNAMSIZ], struct pg_error *err)
{
	struct ifreq request = {.ifr_ifindex = PG_LISTENER_LO};
	pg_autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return fail(err, errno, "DNS listener: socket to set lo up with");
	if (ioctl(fd, SIOCGIFNAME, &request) < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		return fail(err, errno, "DNS listener: reading the state of lo");
	memcpy(ret_name, request.ifr_name, IFNAMSIZ);
	if (request.ifr_flags & IFF_UP)
		return 0;
	request.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return fail(err, errno, "DNS listener: setting lo up");
	return 0;
}

struct option {
	bool tcp, udp;
	bool ipv4, ipv6;
	int level, name, value;
	const char *text;
};

static const struct option socket_options[] = {
	{true, true, false, true, IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY"},
	{false, true, true, false, IPPROTO_IP, IP_PKTINFO, 1, "IP_PKTINFO"},
	{false, true, false, true, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1, "IPV6_RECVPKTINFO"},
	/* Connections of an earlier listener may still be in TIME_WAIT. */
	{true, false, true, true, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"},
	/* Connections inherit these. Without the first, a reply waits for the one before to be
	 * acknowledged. */
	{true, false, true, true, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"},
	{true, false, true, true, SOL_SOCKET, SO_RCVBUF, TCP_IN_OCTETS, "SO_RCVBUF"},
	{true, false, true, true, SOL_SOCKET, SO_SNDBUF, TCP_OUT_OCTETS, "SO_SNDBUF"},
};

static int set_options(int fd, enum pg_listener_source source, const char *lo, struct pg_error *err)
{
	const int udp_in = UDP_IN_OCTETS;

	for (unsigned int i = 0; i < PG_ARRAY_SIZE(socket_options); i++) {
		const struct option *option = &socket_options[i];

		if ((is_tcp(source) ? option->tcp : option->udp) &&
		    (is_ipv6(source) ? option->ipv6 : option->ipv4) &&
		    setsockopt(fd, option->level, option->name, &option->value,
			       sizeof(option->value)) < 0)
			return fail(err, errno, option->text);
	}
	/* From outside, a packet can come to 127/8 where route_localnet is set. And what goes out
	 * goes to lo. */
	if (is_tcp(source) &&
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, lo, (socklen_t)strlen(lo)) < 0)
		return fail(err, errno, "SO_BINDTODEVICE to lo");
	/* Needs CAP_NET_ADMIN; with less room, more is lost in a burst. */
	if (!is_tcp(source))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &udp_in, sizeof(udp_in));
	return 0;
}

/* One that was bound before, or -1. Queries may have come meanwhile. */
static int inherit(const struct pg_listener_options *options, enum pg_listener_source source)
{
	const int fd = options->inherited ? options->inherited[source] : -1;
	struct sockaddr_storage wanted = {0}, addr = {0};
	socklen_t size = sizeof(addr), type_size = sizeof(int);
	const socklen_t wanted_size =
		pg_endpoint_to_sockaddr(&options->endpoints[is_ipv6(source)], &wanted);
	int type;

	if (fd < 0 || getsockname(fd, (struct sockaddr *)&addr, &size) || size != wanted_size ||
	    memcmp(&addr, &wanted, size) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) ||
	    type != (is_tcp(source) ? SOCK_STREAM : SOCK_DGRAM) ||
	    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		return -1;
	options->inherited[source] = -1;
	return fd;
}

static int bind_socket(const struct pg_listener_options *options, enum pg_listener_source source,
		       int fd, struct pg_error *err)
{
	struct sockaddr_storage addr;
	const socklen_t size = pg_endpoint_to_sockaddr(&options->endpoints[is_ipv6(source)], &addr);

	if (bind(fd, (const struct sockaddr *)&addr, size) < 0)
		return fail(err, errno, "bind");
	if (is_tcp(source) && listen(fd, BACKLOG) < 0)
		return fail(err, errno, "listen");
	return 0;
}

static int make_socket(struct pg_listener *listener, enum pg_listener_source source, const char *lo,
		       int *ret_fd, struct pg_error *err)
{
	const struct pg_listener_options *options = &listener->options;
	pg_autoclose int fd = inherit(options, source);
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = source};
	const bool bound = fd >= 0;
	int r;

	if (!bound)
		fd = socket(is_ipv6(source) ? AF_INET6 : AF_INET,
			    (is_tcp(source) ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC |
				    SOCK_NONBLOCK,
			    0);
	if (fd < 0)
		return fail(err, errno, "socket");
	r = bound ? 0 : set_options(fd, source, lo, err);
	if (r == 0 && options->prepare)
		r = options->prepare(options->userdata, fd, err);
	if (r == 0 && !bound)
		r = bind_socket(options, source, fd, err);
	if (r < 0)
		return r;
	if (epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return fail(err, errno, "epoll_ctl");
	*ret_fd = PG_TAKE_FD(fd);
	return 0;
}

static int open_socket(struct pg_listener *listener, enum pg_listener_source source, const char *lo,
		       struct pg_error *err)
{
	int r = make_socket(listener, source, lo, &listener->sockets[source], err);

	if (r < 0)
		name_socket(listener, source, err);
	return r;
}

/* The namespace may have no IPv6 (ipv6.disable=1), or no ::1 (disable_ipv6). */
static int open_ipv6(struct pg_listener *listener, const char *lo, bool required,
		     struct pg_error *err)
{
	struct pg_error failure = {};
	int r = open_socket(listener, PG_LISTENER_UDP6, lo, &failure);

	if (r == 0)
		r = open_socket(listener, PG_LISTENER_TCP6, lo, &failure);
	if (r == 0)
		return 0;
	if (r != -EAFNOSUPPORT && r != -EADDRNOTAVAIL && (r != -EADDRINUSE || required))
		return pg_fail(err, r, "%s", failure.text);
	pg_close_fd(&listener->sockets[PG_LISTENER_UDP6]);
	return 0;
}

static int open_there(struct pg_listener *listener, bool ipv6_required, struct pg_error *err)
{
	PG_CLEANUP(pg_netns_leave) int back = -1;
	socklen_t cookie_size = sizeof(listener->netns_cookie);
	char lo[IFNAMSIZ];
	int r = pg_netns_enter(listener->options.netns_fd, &back, err);

	if (r < 0) {
		pg_error_prefix(err, "DNS listener");
		return r;
	}
	/* Where the socket for UDP over IPv4 is, the namespace counts as served (abi/dns.h). */
	r = set_lo_up(lo, err);
	if (r == 0)
		r = open_socket(listener, PG_LISTENER_TCP4, lo, err);
	if (r == 0)
		r = open_ipv6(listener, lo, ipv6_required, err);
	if (r == 0)
		r = open_socket(listener, PG_LISTENER_UDP4, lo, err);
	if (r < 0)
		return r;
	if (getsockopt(listener->sockets[PG_LISTENER_UDP4], SOL_SOCKET, SO_NETNS_COOKIE,
		       &listener->netns_cookie, &cookie_size) < 0)
		listener->netns_cookie = 0;
	return 0;
}

int pg_listener_new(const struct pg_listener_options *options, struct pg_listener **ret_listener,
		    struct pg_error *err)
{
	PG_CLEANUP(pg_listener_closep)
	struct pg_listener *listener = calloc(1, sizeof(*listener));
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = PG_LISTENER_TIMER};

	if (!listener)
		return fail(err, ENOMEM, "DNS listener");
	listener->options = *options;
	listener->lost = -1;
	listener->timer_at = UINT64_MAX;
	listener->idle_ns = PG_LISTENER_IDLE_S * PG_NSEC_PER_SEC;
	for (unsigned int i = 0; i < PG_LISTENER_SOCKETS; i++)
		listener->sockets[i] = -1;
	listener->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	listener->epoll_fd = listener->timer_fd < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (listener->epoll_fd < 0 ||
	    epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, listener->timer_fd, &event) < 0)
		return fail(err, errno, "DNS listener: timerfd and epoll descriptors");
	*ret_listener = PG_TAKE_PTR(listener);
	return 0;
}

int pg_listener_open(const struct pg_listener_options *options, bool ipv6_required,
		     struct pg_listener **ret_listener, struct pg_error *err)
{
	PG_CLEANUP(pg_listener_closep) struct pg_listener *listener = NULL;
	int r = pg_listener_new(options, &listener, err);

	if (r == 0)
		r = open_there(listener, ipv6_required, err);
	if (r < 0)
		return r;
	listener->options.netns_fd = -1;
	listener->options.inherited = NULL;
	*ret_listener = PG_TAKE_PTR(listener);
	return 0;
}

void pg_listener_close(struct pg_listener *listener)
{
	if (!listener)
		return;
	pg_listener_drop_all(listener);
	for (unsigned int i = 0; i < PG_LISTENER_SOCKETS; i++)
		pg_close_fd(&listener->sockets[i]);
	pg_close_fd(&listener->timer_fd);
	pg_close_fd(&listener->epoll_fd);
	free(listener);
}

int pg_listener_socket(const struct pg_listener *listener, unsigned int number)
{
	return listener->sockets[number];
}

bool pg_listener_has_ipv6(const struct pg_listener *listener)
{
	return listener->sockets[PG_LISTENER_TCP6] >= 0;
}

uint64_t pg_listener_netns_cookie(const struct pg_listener *listener)
{
	return listener->netns_cookie;
}

int pg_listener_fd(const struct pg_listener *listener)
{
	return listener->epoll_fd;
}

void pg_listener_schedule(struct pg_listener *listener, uint64_t when)
{
	const struct itimerspec setting = {
		.it_value = {(time_t)(when / PG_NSEC_PER_SEC), (long)(when % PG_NSEC_PER_SEC)},
	};

	if (when >= listener->timer_at)
		return;
	listener->timer_at = when;
	timerfd_settime(listener->timer_fd, TFD_TIMER_ABSTIME, &setting, NULL);
}

void pg_listener_lose(struct pg_listener *listener, enum pg_listener_source source)
{
	listener->lost = (int)source;
	/* It may have been found by a send, and nothing else to come. */
	pg_listener_schedule(listener, pg_monotonic_ns());
}

static void handle_timer(struct pg_listener *listener)
{
	uint64_t times;

	if (read(listener->timer_fd, &times, sizeof(times)) != sizeof(times))
		return;
	listener->timer_at = UINT64_MAX;
	pg_listener_time_out(listener, pg_monotonic_ns());
}

static unsigned int handle_event(struct pg_listener *listener, const struct epoll_event *event)
{
	if (event->data.u64 >= PG_LISTENER_CONNECTIONS_MAX)
		return pg_listener_connection_event(listener, event->data.u64, event->events);
	switch ((enum pg_listener_source)event->data.u64) {
	case PG_LISTENER_UDP4:
	case PG_LISTENER_UDP6:
		return pg_listener_udp_event(listener, (enum pg_listener_source)event->data.u64);
	case PG_LISTENER_TCP4:
	case PG_LISTENER_TCP6:
		pg_listener_accept(listener, (enum pg_listener_source)event->data.u64,
				   event->events);
		return 0;
	case PG_LISTENER_TIMER:
		handle_timer(listener);
		return 0;
	}
	return 0;
}

int pg_listener_process(struct pg_listener *listener, struct pg_error *err)
{
	struct epoll_event events[PG_LISTENER_BATCH / PG_LISTENER_SHARE];
	unsigned int handled = 0;

	/*
	 * Each event is at most one share, so all that are fetched can be handled, and epoll hands
	 * out ready descriptors in turn: nobody is passed over.
	 */
	for (unsigned int round = 0; round < PG_ARRAY_SIZE(events); round++) {
		int room = (int)((PG_LISTENER_BATCH - handled) / PG_LISTENER_SHARE);
		int count = room > 0 ? epoll_wait(listener->epoll_fd, events, room, 0) : 0;

		if (count < 0 && errno != EINTR)
			return fail(err, errno, "DNS listener: epoll_wait");
		if (count <= 0)
			break;
		for (int i = 0; i < count; i++)
			handled += handle_event(listener, &events[i]);
	}
	if (listener->lost < 0)
		return 0;
	pg_fail(err, -ENOTCONN, "somebody has destroyed the socket (ss -K); open it again");
	name_socket(listener, (enum pg_listener_source)listener->lost, err);
	return -ENOTCONN;
}

void pg_listener_send(struct pg_listener *listener, const struct pg_peer *peer,
		      const uint8_t *message, size_t size)
{
	if (peer->connection > 0)
		pg_listener_connection_send(listener, peer->connection, message, size);
	else
		pg_listener_udp_send(listener, peer, message, size);
}
