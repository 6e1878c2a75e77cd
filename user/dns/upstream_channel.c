/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream_channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/netns.h"
#include "device.h"

/* Answers fit into one unfragmented packet (DNS flag day 2020). */
#define EDNS_OCTETS 1232

/* Answers that may come at once: a kilobyte in the kernel each. */
#define RECEIVE_BUFFER (1024 * 1024)

static uint64_t event_data(const struct pg_channel *channel, int fd)
{
	return channel->owner->options.tag << 40 | (uint64_t)channel->index << 32 | (uint32_t)fd;
}

static int family_of(const struct pg_channels_options *options)
{
	return pg_addr_is_v4(&options->server.addr) ? AF_INET : AF_INET6;
}

static int make_bare_socket(const struct pg_channels_options *options, int family, int type,
			    int protocol)
{
	int back, fd, r = pg_netns_enter(options->netns_fd, &back, NULL);

	if (r < 0)
		return r;
	fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
	r = fd < 0 ? -errno : fd;
	pg_netns_leave(&back);
	return r;
}

static int prepare_socket(const struct pg_channels_options *options, int fd, struct pg_error *err)
{
	return options->prepare_socket ? options->prepare_socket(options->userdata, fd, err) : 0;
}

/* Makes the socket and registers it, so that one which cannot be watched is never used. */
static int make_socket(struct pg_channel *channel, int family, int type, int protocol)
{
	const struct pg_channels_options *options = &channel->owner->options;
	pg_autoclose int fd = make_bare_socket(options, family, type, protocol);
	struct epoll_event event = {.events = EPOLLIN};
	int r, size = RECEIVE_BUFFER;

	if (fd < 0)
		return fd;
	r = prepare_socket(options, fd, NULL);
	if (r < 0)
		return r;
	/* Without the right to have more, what is usual has to do. */
	if (type == SOCK_DGRAM &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	event.data.u64 = event_data(channel, fd);
	if (epoll_ctl(options->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	return PG_TAKE_FD(fd);
}

/* For the next query, which would wait for a fifth of what a lookup takes here. */
static void make_spare(struct pg_channel *channel)
{
	struct pg_channels *channels = channel->owner;
	const int fd = make_socket(channel, family_of(&channels->options), SOCK_DGRAM, 0);

	if (fd < 0)
		return;
	channels->spare_fd = fd;
	channels->spare_of = channel;
}

/* A socket as make_socket() makes it. */
static int get_socket(struct pg_channel *channel, int family, int type, int protocol)
{
	struct pg_channels *channels = channel->owner;
	const int fd = channels->spare_fd;
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = event_data(channel, fd)};

	if (type != SOCK_DGRAM || fd < 0)
		return make_socket(channel, family, type, protocol);
	channels->spare_fd = -1;
	/* The descriptor is registered, so that this takes no memory that could be missing. */
	if (channels->spare_of != channel)
		epoll_ctl(channels->options.epoll_fd, EPOLL_CTL_MOD, fd, &event);
	return fd;
}

/* When there are no descriptors left, a channel that has a socket is the one to use. */
static void go_back(struct pg_channels *channels)
{
	for (unsigned int i = 0; i < PG_CHANNELS_MAX; i++) {
		/* The channel that has just failed has a query under way, too. */
		if (i != channels->current && channels->list[i].under_way > 0) {
			channels->current = i;
			return;
		}
	}
}

static ares_socket_t on_socket(int family, int type, int protocol, void *userdata)
{
	struct pg_channel *channel = userdata;
	struct pg_channels *channels = channel->owner;
	int fd = get_socket(channel, family, type, protocol);

	channels->socket_error = fd < 0 ? fd : 0;
	if (type == SOCK_STREAM)
		channel->wants_write = false;
	if (fd >= 0)
		return fd;
	if (type == SOCK_DGRAM && channel == &channels->list[channels->current])
		go_back(channels);
	errno = -fd;
	return ARES_SOCKET_BAD;
}

static int close_socket(const struct pg_channels *channels, int fd)
{
	/* A child between fork and exec may still hold the socket, and so its registration. */
	epoll_ctl(channels->options.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	return close(fd);
}

static int on_close(ares_socket_t fd, void *userdata)
{
	const struct pg_channel *channel = userdata;

	return close_socket(channel->owner, fd);
}

static int on_connect(ares_socket_t fd, const struct sockaddr *addr, ares_socklen_t size,
		      void *userdata)
{
	struct pg_channel *channel = userdata;
	const struct pg_channels_options *options = &channel->owner->options;
	int r = 0;

	/* In another namespace the workload may send frames by packet sockets, in the server's name
	 * too; and what the socket is prepared with may not have been known yet when it was made.
	 */
	if (options->netns_fd >= 0) {
		r = prepare_socket(options, fd, NULL);
		if (r >= 0)
			r = pg_device_bind(fd, options->netns_fd, &options->server.addr);
	}
	if (r < 0)
		errno = -r;
	else
		r = connect(fd, addr, size);
	if (r < 0 && errno != EINPROGRESS)
		channel->owner->socket_error = -errno;
	return r < 0 ? -1 : 0;
}

static ares_ssize_t on_receive(ares_socket_t fd, void *data, size_t size, int flags,
			       struct sockaddr *from, ares_socklen_t *from_size, void *userdata)
{
	ares_ssize_t r = recvfrom(fd, data, size, flags, from, from_size);

	/* c-ares takes an empty datagram, which anybody can send in the server's name, for the end
	 * of the connection. It wants to know the source of datagrams only. */
	if (r == 0 && from) {
		errno = EAGAIN;
		return -1;
	}
	return r;
}

static ares_ssize_t on_send(ares_socket_t fd, const struct iovec *parts, int count, void *userdata)
{
	ares_ssize_t r = writev(fd, parts, count), size = 0;
	socklen_t length = sizeof(int);
	int type = SOCK_STREAM, saved = errno;

	if (r >= 0 || (errno != EAGAIN && errno != ENOBUFS))
		return r;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) < 0 || type != SOCK_DGRAM) {
		errno = saved;
		return -1;
	}
	/* A full queue is a lost packet; c-ares would say that the server is not there. */
	for (int i = 0; i < count; i++)
		size += (ares_ssize_t)parts[i].iov_len;
	return size;
}

/* Only TCP ever waits to write, and a channel has one such socket. */
static void on_state(void *userdata, ares_socket_t fd, int readable, int writable)
{
	struct pg_channel *channel = userdata;
	struct epoll_event event = {
		.events = EPOLLIN | (writable ? EPOLLOUT : 0U),
		.data.u64 = event_data(channel, fd),
	};

	if (!readable || channel->wants_write == (writable != 0))
		return;
	channel->wants_write = writable != 0;
	/* The descriptor is registered, so that this takes no memory that could be missing. */
	epoll_ctl(channel->owner->options.epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

static int set_address(ares_channel channel, const struct pg_endpoint *endpoint)
{
	struct ares_addr_port_node node = {
		.family = AF_INET6,
		.udp_port = ntohs(endpoint->port),
		.tcp_port = ntohs(endpoint->port),
	};

	if (pg_addr_is_v4(&endpoint->addr)) {
		node.family = AF_INET;
		node.addr.addr4.s_addr = pg_addr_to_v4(&endpoint->addr);
	} else {
		memcpy(&node.addr.addr6, endpoint->addr.word, sizeof(node.addr.addr6));
	}
	return ares_set_servers_ports(channel, &node);
}

static int open_channel(struct pg_channels *channels, unsigned int index)
{
	static const struct ares_socket_functions functions = {
		.asocket = on_socket,
		.aclose = on_close,
		.aconnect = on_connect,
		.arecvfrom = on_receive,
		.asendv = on_send,
	};
	struct pg_channel *channel = &channels->list[index];
	/* Everything that resolv.conf or RES_OPTIONS could say is said here. */
	struct ares_options options = {
		/* NOCHECKRESP: error codes are judged by upstream.c, which knows the other servers.
		 */
		.flags = ARES_FLAG_EDNS | ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES |
			 ARES_FLAG_NOCHECKRESP | (index == PG_CHANNEL_TCP ? ARES_FLAG_USEVC : 0),
		.timeout = (int)channels->options.timeout_ms,
		.tries = 1,
		.ndots = 1,
		.ednspsz = EDNS_OCTETS,
		.lookups = (char[]){"b"},
		.resolvconf_path = (char[]){"/dev/null"},
		.sock_state_cb = on_state,
		.sock_state_cb_data = channel,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
		   ARES_OPT_EDNSPSZ | ARES_OPT_LOOKUPS | ARES_OPT_RESOLVCONF | ARES_OPT_DOMAINS |
		   ARES_OPT_SOCK_STATE_CB | ARES_OPT_NOROTATE;
	ares_channel fresh;
	int status = ares_init_options(&fresh, &options, mask);

	if (status != ARES_SUCCESS)
		return status;
	status = set_address(fresh, &channels->options.server);
	if (status != ARES_SUCCESS) {
		ares_destroy(fresh);
		return status;
	}
	ares_set_socket_functions(fresh, &functions, channel);
	*channel = (struct pg_channel){.owner = channels, .ares = fresh, .index = (uint8_t)index};
	return ARES_SUCCESS;
}

/* What would let every question fail later is to be said now. */
static int try_preparing(const struct pg_channels_options *options, struct pg_error *err)
{
	pg_autoclose int fd = make_bare_socket(options, family_of(options), SOCK_DGRAM, 0);

	/* That there is no socket may pass, or be so for this server only. */
	return fd < 0 ? 0 : prepare_socket(options, fd, err);
}

int pg_channels_open(struct pg_channels *channels, const struct pg_channels_options *options,
		     struct pg_error *err)
{
	char text[PG_ADDR_TEXT];
	int status;

	*channels = (struct pg_channels){.options = *options, .spare_fd = -1};
	status = try_preparing(options, err);
	if (status < 0) {
		pg_error_prefix(err, "a socket to ask %s with",
				pg_endpoint_format(&options->server, text));
		return status;
	}
	status = open_channel(channels, 0);
	if (status == ARES_SUCCESS)
		return 0;
	return pg_fail(err, status == ARES_ENOMEM ? -ENOMEM : -EIO,
		       "cannot set up DNS queries to %s: %s",
		       pg_endpoint_format(&options->server, text), ares_strerror(status));
}

void pg_channels_close(struct pg_channels *channels)
{
	for (unsigned int i = 0; i < PG_ARRAY_SIZE(channels->list); i++) {
		if (channels->list[i].ares)
			ares_destroy(channels->list[i].ares);
		channels->list[i].ares = NULL;
	}
	if (channels->spare_fd >= 0)
		close_socket(channels, PG_TAKE_FD(channels->spare_fd));
}

struct pg_channel *pg_channels_take(struct pg_channels *channels)
{
	struct pg_channel *current = &channels->list[channels->current];

	/* c-ares closes the sockets of a channel without queries, so the next has a fresh port. */
	if (current->under_way == 0)
		current->asked = 0;
	if (current->asked < PG_CHANNEL_QUERIES || channels->socket_error < 0)
		return current;
	for (unsigned int i = 1; i < PG_CHANNELS_MAX; i++) {
		unsigned int index = (channels->current + i) % PG_CHANNELS_MAX;
		struct pg_channel *other = &channels->list[index];

		if (other->under_way > 0)
			continue;
		if (!other->ares && open_channel(channels, index) != ARES_SUCCESS)
			continue;
		other->asked = 0;
		channels->current = index;
		return other;
	}
	return current;
}

struct pg_channel *pg_channels_take_tcp(struct pg_channels *channels)
{
	struct pg_channel *channel = &channels->list[PG_CHANNEL_TCP];

	if (!channel->ares && open_channel(channels, PG_CHANNEL_TCP) != ARES_SUCCESS)
		return NULL;
	return channel;
}

void pg_channels_event(struct pg_channels *channels, uint64_t data, uint32_t events)
{
	struct pg_channel *channel =
		&channels->list[(data >> 32 & 0xff) % PG_ARRAY_SIZE(channels->list)];
	ares_socket_t fd = (ares_socket_t)(uint32_t)data;
	bool readable = events & (EPOLLIN | EPOLLHUP | EPOLLERR);

	ares_process_fd(channel->ares, readable ? fd : ARES_SOCKET_BAD,
			(events & EPOLLOUT) ? fd : ARES_SOCKET_BAD);
	/* The channel's sockets are closed, and whoever asked has the answer. */
	if (channel->under_way == 0 && channels->spare_fd < 0)
		make_spare(channel);
}

void pg_channels_time_out(struct pg_channels *channels)
{
	for (unsigned int i = 0; i < PG_ARRAY_SIZE(channels->list); i++) {
		if (channels->list[i].under_way > 0)
			ares_process_fd(channels->list[i].ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	}
}
