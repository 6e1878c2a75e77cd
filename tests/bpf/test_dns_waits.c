// SPDX-License-Identifier: Apache-2.0
/*
 * DNS in a network namespace in which user space does not listen yet: it is told, gets the
 * datagrams that were sent meanwhile, and connections are made when it listens. Where it has died,
 * asking fails at once.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "check.h"
#include "phasegate.skel.h"
#include "world.h"

#define QUERY 40

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

struct bench {
	struct check check;
	struct world world;
};

static struct pg_event_parked *find(struct world *world, enum pg_event_kind kind)
{
	for (size_t i = 0; i < world->event_count; i++)
		if (world->events[i].event.kind == kind)
			return &world->events[i];
	return NULL;
}

/* 0: the kernel does not tell (before Linux 5.14). */
static uint64_t netns_of(int fd)
{
	socklen_t size = sizeof(uint64_t);
	uint64_t cookie = 0;

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) ? 0 : cookie;
}

static bool is_served(const struct bench *bench, uint64_t netns)
{
	const struct pg_dns_served_key key = {.env_id = bench->world.place.id, .netns = netns};
	__u8 present;

	return !bpf_map_lookup_elem(bpf_map__fd(bench->world.skeleton->maps.pg_dns_served), &key,
				    &present);
}

static void check_event(struct bench *bench, const struct pg_event *event, const char *what,
			enum pg_event_kind kind, uint64_t netns)
{
	const bool parked = kind == PG_EVENT_PARKED;

	if (!CHECK(&bench->check, event, "%s: no event of kind %u", what, kind))
		return;
	CHECK(&bench->check, event->env_id == bench->world.place.id, "%s: whose event?", what);
	CHECK(&bench->check, event->generation == bench->world.generation, "%s: generation %llu",
	      what, (unsigned long long)event->generation);
	CHECK(&bench->check, event->netns && (!netns || event->netns == netns), "%s: netns %llu",
	      what, (unsigned long long)event->netns);
	CHECK(&bench->check, event->reason == PG_REASON_LISTENER, "%s: reason %u", what,
	      event->reason);
	CHECK(&bench->check, event->remote_port == htons(parked ? WORLD_PORT : 53), "%s: port %u",
	      what, ntohs(event->remote_port));
}

/* The name that the socket is bound to, as an endpoint. */
static bool is_local(int fd, const struct pg_endpoint *endpoint)
{
	struct sockaddr_storage name = {};
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&name;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&name;
	socklen_t size = sizeof(name);

	if (getsockname(fd, (struct sockaddr *)&name, &size))
		return false;
	return endpoint->port == (name.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
}

static void check_parked(struct bench *bench, int fd, const char *what, uint64_t netns)
{
	const struct pg_event_parked *parked = find(&bench->world, PG_EVENT_PARKED);
	bool same = true;

	check_event(bench, parked ? &parked->event : NULL, what, PG_EVENT_PARKED, netns);
	if (!parked)
		return;
	CHECK(&bench->check, parked->size == QUERY, "%s: %u octets", what, parked->size);
	for (size_t i = 0; i < QUERY; i++)
		same &= parked->data[i] == 'q';
	CHECK(&bench->check, same, "%s: another content", what);
	CHECK(&bench->check, is_local(fd, &parked->local), "%s: from port %u", what,
	      ntohs(parked->local.port));
	CHECK(&bench->check, parked->event.protocol == IPPROTO_UDP, "%s: protocol", what);
}

/* User space answers what was parked. */
static bool answer(const struct world_listener *listener, const struct pg_event_parked *parked)
{
	const __be32 *word = parked->local.addr.word;
	const bool v4 = !word[0] && !word[1] && word[2] == htonl(0xffff);
	struct world_name to = world_name(v4 ? "127.0.0.1" : "::1", ntohs(parked->local.port));

	if (v4)
		((struct sockaddr_in *)&to.storage)->sin_addr.s_addr = word[3];
	else
		memcpy(&((struct sockaddr_in6 *)&to.storage)->sin6_addr, word, 16);
	return !world_send(listener->udp[!v4], &to, QUERY);
}

static bool is_answered(int fd, const char *server)
{
	struct world_name from = {.size = sizeof(from.storage)};
	char octets[QUERY];

	return recvfrom(fd, octets, QUERY, 0, (struct sockaddr *)&from.storage, &from.size) ==
		       QUERY &&
	       world_name_is(&from, server, 53);
}

/* The errno that receiving gives. */
static int receive_error(int fd)
{
	char octet;

	return recv(fd, &octet, 1, 0) < 0 ? errno : 0;
}

static void try_datagram(struct bench *bench, int family, const char *server, bool connected)
{
	const struct world_name to = world_name(server, 53);
	const struct world_name *where = connected ? NULL : &to;
	struct check *check = &bench->check;
	struct world_listener listener;
	uint64_t netns, lost;
	int fd, error;

	world_unshare();
	fd = world_client(&bench->world, family, SOCK_DGRAM, 0);
	netns = netns_of(fd);
	if (connected)
		CHECK(check, !connect(fd, (const struct sockaddr *)&to.storage, to.size),
		      "%s: connect: %s", server, strerror(errno));
	error = world_send(fd, where, QUERY);
	CHECK(check, !error, "%s: send: %s", server, strerror(error));
	world_take_events(&bench->world);
	CHECK(check, find(&bench->world, PG_EVENT_UNSERVED), "%s: user space is not told", server);
	check_event(bench, &bench->world.events[0].event, server, PG_EVENT_UNSERVED, netns);
	check_parked(bench, fd, server, netns);

	/* What is no message is dropped, what is too long is lost. */
	lost = world_events_lost(&bench->world);
	CHECK(check, !world_send(fd, where, 11) && world_events_lost(&bench->world) == lost,
	      "%s: eleven octets", server);
	CHECK(check,
	      !world_send(fd, where, PG_DNS_PARKED_MAX + 1) &&
		      world_events_lost(&bench->world) == lost + 1,
	      "%s: too long", server);

	listener = world_listen(&bench->world, WORLD_LISTENER4, WORLD_PORT, bench->world.place.id);
	CHECK(check, answer(&listener, find(&bench->world, PG_EVENT_PARKED)), "%s: answer", server);
	CHECK(check, is_answered(fd, server), "%s: not answered", server);
	world_take_events(&bench->world);
	CHECK(check, !world_send(fd, where, QUERY), "%s: served: %s", server, strerror(errno));
	CHECK(check,
	      !receive_error(listener.udp[to.storage.ss_family == AF_INET6 &&
					  strncmp(server, "::ffff:", 7) != 0]),
	      "%s: does not arrive", server);
	world_take_events(&bench->world);
	CHECK(check, !bench->world.event_count, "%s: an event although served", server);

	/* User space has died: a socket that hears of errors does so at once. */
	world_unlisten(&listener);
	CHECK(check, !world_send(fd, where, QUERY), "%s: died: %s", server, strerror(errno));
	if (connected)
		CHECK(check, receive_error(fd) == ECONNREFUSED, "%s: died: no error", server);
	world_take_events(&bench->world);
	CHECK(check, !bench->world.event_count, "%s: an event although it has died", server);
	close(fd);
}

static void try_datagrams(struct bench *bench)
{
	for (unsigned int connected = 0; connected < 2; connected++) {
		try_datagram(bench, AF_INET, "192.0.2.53", connected);
		try_datagram(bench, AF_INET6, "2001:db8::53", connected);
		try_datagram(bench, AF_INET6, "::ffff:192.0.2.53", connected);
	}
	check_group(&bench->check, "a datagram waits in the ring");
}

/* The connection is made as soon as somebody listens. */
static void try_connection(struct bench *bench, int family, const char *server)
{
	const struct world_name to = world_name(server, 53);
	struct check *check = &bench->check;
	struct world_listener listener;
	struct pollfd made = {.events = POLLOUT};
	int error = 0;
	socklen_t size = sizeof(error);
	uint64_t netns;

	world_unshare();
	made.fd = world_client(&bench->world, family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	netns = netns_of(made.fd);
	CHECK(check,
	      connect(made.fd, (const struct sockaddr *)&to.storage, to.size) &&
		      errno == EINPROGRESS,
	      "%s: connect: %s", server, strerror(errno));
	world_take_events(&bench->world);
	check_event(bench, &bench->world.events[0].event, server, PG_EVENT_UNSERVED, netns);
	CHECK(check, !find(&bench->world, PG_EVENT_STRANDED), "%s: stranded", server);
	listener = world_listen(&bench->world, WORLD_LISTENER4, WORLD_PORT, bench->world.place.id);
	CHECK(check, poll(&made, 1, 5000) == 1, "%s: not connected", server);
	getsockopt(made.fd, SOL_SOCKET, SO_ERROR, &error, &size);
	CHECK(check, !error, "%s: %s", server, strerror(error));
	close(made.fd);

	/* User space has died. */
	made.fd = world_client(&bench->world, family, SOCK_STREAM, 0);
	CHECK(check, !connect(made.fd, (const struct sockaddr *)&to.storage, to.size),
	      "%s: served: %s", server, strerror(errno));
	CHECK(check, !netns || is_served(bench, netns), "%s: not remembered", server);
	close(made.fd);
	world_unlisten(&listener);
	made.fd = world_client(&bench->world, family, SOCK_STREAM, 0);
	CHECK(check,
	      connect(made.fd, (const struct sockaddr *)&to.storage, to.size) &&
		      errno == ECONNREFUSED,
	      "%s: died: %s", server, strerror(errno));
	close(made.fd);
}

/* Somebody else's socket at the endpoint is no listener; nothing waits in no-network. */
static void try_others(struct bench *bench)
{
	const struct world_name to = world_name("192.0.2.53", 53);
	struct check *check = &bench->check;
	struct world_listener other;
	int fd, error;

	world_unshare();
	fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	other = world_listen(&bench->world, WORLD_LISTENER4, WORLD_PORT, 0);
	world_take_events(&bench->world);
	error = world_send(fd, &to, QUERY);
	CHECK(check, error == EPERM, "an unmarked socket: %s", strerror(error));
	world_take_events(&bench->world);
	CHECK(check, bench->world.event_count == 1 && find(&bench->world, PG_EVENT_UNSERVED),
	      "an unmarked socket: %zu events", bench->world.event_count);
	world_unlisten(&other);

	CHECK(check, !connect(fd, (const struct sockaddr *)&to.storage, to.size), "connect: %s",
	      strerror(errno));
	world_take_events(&bench->world);
	world_switch(&bench->world, WORLD_NO_NETWORK);
	error = world_send(fd, NULL, QUERY);
	CHECK(check, error == EPERM, "no-network: %s", strerror(error));
	world_take_events(&bench->world);
	CHECK(check, !bench->world.event_count, "no-network: an event");
	world_switch(&bench->world, WORLD_ALLOWLIST);
	close(fd);
	check_group(check, "no one else is waited for");
}

/* A ring that is full loses what waits, and says so. */
static void try_full_ring(struct bench *bench)
{
	const struct world_name to = world_name("192.0.2.53", 53);
	const uint64_t lost = world_events_lost(&bench->world);
	unsigned int sent = 0;
	int fd;

	world_unshare();
	fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	while (sent < 1000 && !world_send(fd, &to, QUERY))
		sent++;
	CHECK(&bench->check, sent == 1000, "the send %u fails: %s", sent, strerror(errno));
	CHECK(&bench->check, world_events_lost(&bench->world) > lost, "nothing is lost");
	close(fd);
	do {
		world_take_events(&bench->world);
	} while (bench->world.event_count);
	check_group(&bench->check, "a full ring");
}

int main(void)
{
	struct bench bench = {};

	world_open(&bench.world);
	try_datagrams(&bench);
	try_connection(&bench, AF_INET, "192.0.2.53");
	try_connection(&bench, AF_INET6, "2001:db8::53");
	try_connection(&bench, AF_INET6, "::ffff:192.0.2.53");
	check_group(&bench.check, "a connection is made later");
	try_others(&bench);
	world_switch(&bench.world, WORLD_PUBLIC);
	try_datagram(&bench, AF_INET, "192.0.2.53", true);
	check_group(&bench.check, "public");
	try_full_ring(&bench);
	world_close(&bench.world);
	return check_end(&bench.check);
}
