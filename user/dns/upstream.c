/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream.h"

#include <ares.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"

/* Answers fit into one unfragmented packet (DNS flag day 2020). */
#define EDNS_OCTETS 1232

/* With one server, so that two lost packets in a row do not fail a name. */
#define ATTEMPTS_MIN 3

struct server {
	struct pg_upstream *upstream;
	ares_channel channel;
	uint64_t answered;   /* when it last sent a response */
	uint64_t down_until; /* 0: not known to be down */
};

struct pg_upstream {
	int epoll_fd;
	int fault;
	bool closing;
	pg_upstream_answer answer;
	void *userdata;
	unsigned int count;
	struct server servers[];
};

/* Server and descriptor in one number that is never 0. */
static uint64_t event_data(const struct server *server, int fd)
{
	uint64_t index = (uint64_t)(server - server->upstream->servers);

	return (index + 1) << 32 | (uint32_t)fd;
}

static void on_socket(void *data, ares_socket_t fd, int readable, int writable)
{
	struct server *server = data;
	struct epoll_event event = {
		.events = (readable ? EPOLLIN : 0U) | (writable ? EPOLLOUT : 0U),
		.data.u64 = event_data(server, fd),
	};
	int epoll_fd = server->upstream->epoll_fd;

	if (!readable && !writable) {
		epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		return;
	}
	if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0)
		return;
	if (errno != ENOENT || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		server->upstream->fault = -errno;
}

static int set_address(struct server *server, const struct pg_endpoint *endpoint)
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
	return ares_set_servers_ports(server->channel, &node);
}

static int open_server(struct server *server, const struct pg_endpoint *endpoint,
		       unsigned int attempt_ms, struct pg_error *err)
{
	char text[PG_ADDR_TEXT];
	/* Everything that resolv.conf or RES_OPTIONS could say is said here. */
	struct ares_options options = {
		/* NOCHECKRESP: error codes are judged by conclude(), which knows the other servers.
		 */
		.flags = ARES_FLAG_EDNS | ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES |
			 ARES_FLAG_NOCHECKRESP,
		.timeout = (int)attempt_ms,
		.tries = 1,
		.ndots = 1,
		.ednspsz = EDNS_OCTETS,
		.lookups = (char[]){"b"},
		.resolvconf_path = (char[]){"/dev/null"},
		.sock_state_cb = on_socket,
		.sock_state_cb_data = server,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
		   ARES_OPT_EDNSPSZ | ARES_OPT_LOOKUPS | ARES_OPT_RESOLVCONF | ARES_OPT_DOMAINS |
		   ARES_OPT_SOCK_STATE_CB | ARES_OPT_NOROTATE;
	int status = ares_init_options(&server->channel, &options, mask);

	if (status != ARES_SUCCESS) {
		server->channel = NULL;
	} else {
		status = set_address(server, endpoint);
		if (status == ARES_SUCCESS)
			return 0;
	}
	return pg_fail(err, status == ARES_ENOMEM ? -ENOMEM : -EIO,
		       "cannot set up DNS queries to %s: %s", pg_endpoint_format(endpoint, text),
		       ares_strerror(status));
}

int pg_upstream_new(const struct pg_endpoint *servers, size_t count, int epoll_fd,
		    unsigned int attempt_ms, pg_upstream_answer answer, void *userdata,
		    struct pg_upstream **ret_upstream, struct pg_error *err)
{
	PG_CLEANUP(pg_upstream_freep) struct pg_upstream *upstream = NULL;

	if (count == 0)
		return pg_fail(err, -EINVAL, "no DNS server to ask");
	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
		return pg_fail(err, -ENOMEM, "cannot initialise c-ares");
	upstream = calloc(1, sizeof(*upstream) + count * sizeof(upstream->servers[0]));
	if (!upstream) {
		ares_library_cleanup();
		return pg_fail(err, -ENOMEM, "no memory for %zu DNS servers", count);
	}
	upstream->epoll_fd = epoll_fd;
	upstream->answer = answer;
	upstream->userdata = userdata;
	for (size_t i = 0; i < count; i++) {
		struct server *server = &upstream->servers[upstream->count++];
		int r;

		server->upstream = upstream;
		r = open_server(server, &servers[i], attempt_ms, err);
		if (r < 0)
			return r;
	}
	*ret_upstream = PG_TAKE_PTR(upstream);
	return 0;
}

void pg_upstream_free(struct pg_upstream *upstream)
{
	if (!upstream)
		return;
	upstream->closing = true;
	for (unsigned int i = 0; i < upstream->count; i++) {
		if (upstream->servers[i].channel)
			ares_destroy(upstream->servers[i].channel);
	}
	free(upstream);
	ares_library_cleanup();
}

/* The first server from start on that is not known to be down; start itself if all are. */
static unsigned int choose_server(const struct pg_upstream *upstream, unsigned int start)
{
	uint64_t now = pg_boottime_ns();

	for (unsigned int i = 0; i < upstream->count; i++) {
		unsigned int candidate = (start + i) % upstream->count;

		if (upstream->servers[candidate].down_until <= now)
			return candidate;
	}
	return start % upstream->count;
}

static void fail_attempt(struct pg_query *query, const char *failure)
{
	unsigned int most = 2 * query->upstream->count;

	query->failure = failure;
	query->state = query->attempts < (most < ATTEMPTS_MIN ? ATTEMPTS_MIN : most)
			       ? PG_QUERY_AGAIN
			       : PG_QUERY_DONE;
}

/* The server is down unless it has answered another query since this one was sent. */
static void note_silence(const struct pg_query *query)
{
	struct server *server = &query->upstream->servers[query->server];

	if (server->answered < query->sent)
		server->down_until = pg_boottime_ns() + PG_UPSTREAM_DOWN_S * PG_NSEC_PER_SEC;
}

static void note_answer(const struct pg_query *query)
{
	struct server *server = &query->upstream->servers[query->server];

	server->answered = pg_boottime_ns();
	server->down_until = 0;
}

static void conclude(struct pg_query *query, const char *failure, bool lasting)
{
	query->failure = failure;
	query->lasting = lasting;
	query->state = PG_QUERY_DONE;
}

static void take_answer(struct pg_query *query, const uint8_t *message, int size)
{
	struct pg_upstream *upstream = query->upstream;

	if (upstream->answer(upstream->userdata, query, message, (size_t)size) < 0)
		fail_attempt(query, "the server's answer is malformed");
	else
		conclude(query, NULL, false);
}

static void on_response(void *arg, int status, int timeouts, unsigned char *message, int size)
{
	struct pg_query *query = arg;

	if (query->upstream->closing)
		return;
	if (message)
		note_answer(query);
	switch (status) {
	case ARES_SUCCESS:
		take_answer(query, message, size);
		return;
	case ARES_ENODATA:
		conclude(query, NULL, true);
		return;
	case ARES_ENOTFOUND:
		conclude(query, "there is no such name", true);
		return;
	case ARES_ETIMEOUT:
		note_silence(query);
		fail_attempt(query, "no server answers");
		return;
	case ARES_ECONNREFUSED:
		note_silence(query);
		fail_attempt(query, "no server can be reached");
		return;
	case ARES_ESERVFAIL:
		fail_attempt(query, "the server failed (SERVFAIL)");
		return;
	case ARES_EREFUSED:
		fail_attempt(query, "the server refused to answer");
		return;
	case ARES_EBADNAME:
		conclude(query, "not a name that DNS can have", true);
		return;
	default:
		fail_attempt(query, ares_strerror(status));
		return;
	}
}

void pg_upstream_ask(struct pg_upstream *upstream, struct pg_query *query)
{
	if (query->state == PG_QUERY_IDLE) {
		query->attempts = 0;
		query->server = choose_server(upstream, 0);
	} else {
		query->server = choose_server(upstream, query->server + 1);
	}
	query->upstream = upstream;
	query->attempts++;
	query->failure = NULL;
	query->lasting = false;
	query->state = PG_QUERY_ASKING;
	query->sent = pg_boottime_ns();
	ares_query(upstream->servers[query->server].channel, query->name, ns_c_in, query->type,
		   on_response, query);
}

void pg_upstream_event(struct pg_upstream *upstream, uint64_t data, uint32_t events)
{
	uint64_t index = (data >> 32) - 1;
	ares_socket_t fd = (ares_socket_t)(uint32_t)data;
	bool readable = events & (EPOLLIN | EPOLLHUP | EPOLLERR);

	ares_process_fd(upstream->servers[index].channel, readable ? fd : ARES_SOCKET_BAD,
			(events & EPOLLOUT) ? fd : ARES_SOCKET_BAD);
}

void pg_upstream_time_out(struct pg_upstream *upstream)
{
	for (unsigned int i = 0; i < upstream->count; i++)
		ares_process_fd(upstream->servers[i].channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

uint64_t pg_upstream_next(struct pg_upstream *upstream)
{
	uint64_t next = UINT64_MAX;

	for (unsigned int i = 0; i < upstream->count; i++) {
		struct timeval wait;
		uint64_t ns;

		if (!ares_timeout(upstream->servers[i].channel, NULL, &wait))
			continue;
		/* c-ares rounds down to milliseconds; a timer that is early would fire in a loop.
		 */
		ns = (uint64_t)wait.tv_sec * PG_NSEC_PER_SEC +
		     ((uint64_t)wait.tv_usec / 1000 + 1) * PG_NSEC_PER_MSEC;
		if (ns < next)
			next = ns;
	}
	return next;
}

int pg_upstream_take_fault(struct pg_upstream *upstream)
{
	return PG_TAKE(upstream->fault, 0);
}
