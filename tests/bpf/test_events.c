// SPDX-License-Identifier: Apache-2.0
/*
 * Denials in the ring buffer: what they say, when there are none, and that a flood of them is cut
 * to so many a second and leaves room for others.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include <phasegate/abi/reason.h>

#include "check.h"
#include "world.h"

/* A documentation address (RFC 5737). */
#define DENIED4 "192.0.2.3"
#define PORT	4711
/* More than are reported in two seconds. */
#define FLOOD	(4 * PG_EVENT_DENIED_PER_S)
/* What the ring takes before it is half full, in which events have a head of eight octets. */
#define HALF	(PG_EVENT_RING_BYTES / 2 / (sizeof(struct pg_event) + 8) + 1)

struct bench {
	struct check check;
	struct world world;
};

static uint64_t boottime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* At the beginning of a second, by which the budget is counted. */
static void await_second(void)
{
	const uint64_t now = boottime_ns(), second = 1000000000U;
	const struct timespec rest = {.tv_nsec = (long)(second - 1 - now % second)};

	nanosleep(&rest, NULL);
}

static const struct pg_event *only_event(struct bench *bench, const char *what)
{
	world_take_events(&bench->world);
	CHECK(&bench->check, bench->world.event_count == 1, "%s: %zu events", what,
	      bench->world.event_count);
	return &bench->world.events[0].event;
}

static void check_event(struct bench *bench, const char *what, const struct pg_event *event,
			enum pg_reason reason, enum pg_count by)
{
	const struct pg_header *header = &bench->world.header;
	const uint64_t now = boottime_ns();

	CHECK(&bench->check,
	      event->kind == PG_EVENT_DENIED && event->reason == reason && event->what == by,
	      "%s: kind %u, %s, by %u", what, event->kind, "reason", event->what);
	CHECK(&bench->check,
	      event->env_id == header->env_id && event->cgroup_id == header->cgroup_id &&
		      event->generation == bench->world.generation,
	      "%s: of another", what);
	CHECK(&bench->check, event->time <= now && now - event->time < 5000000000U,
	      "%s: another time", what);
}

static void check_remote(struct bench *bench, const char *what, const struct pg_event *event,
			 uint8_t protocol, const char *addr, uint16_t port)
{
	const struct pg_addr mapped = {.word = {0, 0, htonl(0xffff), inet_addr(addr)}};

	CHECK(&bench->check,
	      event->protocol == protocol && event->remote_port == htons(port) &&
		      !memcmp(&event->remote, &mapped, sizeof(mapped)),
	      "%s: protocol %u, port %u", what, event->protocol, ntohs(event->remote_port));
}

static void try_kinds(struct bench *bench)
{
	const struct world_name to = world_name(DENIED4, PORT), self = world_name("127.0.0.1", 0);
	struct world *world = &bench->world;
	const struct pg_event *event;
	int fd = world_client(world, AF_INET, SOCK_STREAM, 0);

	CHECK(&bench->check,
	      connect(fd, (const struct sockaddr *)&to.storage, to.size) && errno == EPERM,
	      "connect: %s", strerror(errno));
	event = only_event(bench, "connect");
	check_event(bench, "connect", event, PG_REASON_NOT_ALLOWED, PG_COUNT_CONNECT);
	check_remote(bench, "connect", event, IPPROTO_TCP, DENIED4, PORT);
	CHECK(&bench->check, event->phase == WORLD_ALLOWLIST + 1 && event->netns,
	      "connect: phase %u", event->phase);
	close(fd);

	fd = world_client(world, AF_INET, SOCK_DGRAM, 0);
	CHECK(&bench->check, world_send(fd, &to, 10) == EPERM, "sendto: %s", strerror(errno));
	event = only_event(bench, "sendto");
	check_event(bench, "sendto", event, PG_REASON_NOT_ALLOWED, PG_COUNT_SENDMSG);
	check_remote(bench, "sendto", event, IPPROTO_UDP, DENIED4, PORT);
	close(fd);

	/* Of which only the packet is judged: nobody knows who receives it on lo. */
	fd = world_client(world, AF_INET, SOCK_RAW, IPPROTO_ICMP);
	CHECK(&bench->check, world_send(fd, &self, 10) == EPERM, "raw: %s", strerror(errno));
	event = only_event(bench, "raw");
	check_event(bench, "raw", event, PG_REASON_NOT_ALLOWED, PG_COUNT_PACKET);
	check_remote(bench, "raw", event, IPPROTO_ICMP, "127.0.0.1", 0);
	CHECK(&bench->check, !memcmp(&event->local, &event->remote, sizeof(event->local)),
	      "raw: the source");
	close(fd);
}

/* No phase is in force, or nobody wants to hear. */
static void try_states(struct bench *bench)
{
	const struct world_name to = world_name(DENIED4, PORT), self = world_name("127.0.0.1", 0);
	struct world *world = &bench->world;
	const int fd = world_client(world, AF_INET, SOCK_DGRAM, 0);
	const int raw = world_client(world, AF_INET, SOCK_RAW, IPPROTO_ICMP);
	const struct pg_event *event;

	world->generation++;
	world_set_state(world, 1, -1);
	CHECK(&bench->check, world_send(fd, &to, 10) == EPERM, "none: %s", strerror(errno));
	event = only_event(bench, "none");
	check_event(bench, "none", event, PG_REASON_NO_POLICY, PG_COUNT_SENDMSG);
	check_remote(bench, "none", event, IPPROTO_UDP, DENIED4, PORT);
	CHECK(&bench->check, !event->phase, "none: phase %u", event->phase);
	CHECK(&bench->check, world_send(raw, &self, 10) == EPERM, "none: %s", strerror(errno));
	event = only_event(bench, "none, packet");
	check_event(bench, "none, packet", event, PG_REASON_NO_POLICY, PG_COUNT_PACKET);
	check_remote(bench, "none, packet", event, IPPROTO_ICMP, "127.0.0.1", 0);

	world->header.flags &= ~PG_HEADER_EVENTS;
	world_switch(world, WORLD_ALLOWLIST);
	CHECK(&bench->check, world_send(fd, &to, 10) == EPERM, "unheard: %s", strerror(errno));
	world_take_events(world);
	CHECK(&bench->check, !world->event_count && !world_events_suppressed(world),
	      "%zu events that nobody wants", world->event_count);
	world->header.flags |= PG_HEADER_EVENTS;
	world_switch(world, WORLD_ALLOWLIST);
	close(raw);
	close(fd);
}

static void flood(struct bench *bench, int fd, size_t count, bool take)
{
	const struct world_name to = world_name(DENIED4, PORT);

	for (size_t i = 0; i < count; i++) {
		CHECK(&bench->check, world_send(fd, &to, 10) == EPERM, "flood: %s",
		      strerror(errno));
		if (take && i % 100 == 0)
			world_take_events(&bench->world);
	}
}

static void try_flood(struct bench *bench)
{
	struct world *world = &bench->world;
	const int fd = world_client(world, AF_INET, SOCK_DGRAM, 0);
	const uint64_t suppressed = world_events_suppressed(world);
	uint64_t began, seconds;

	await_second();
	world->event_total = 0;
	began = boottime_ns() / 1000000000U;
	flood(bench, fd, FLOOD, true);
	world_take_events(world);
	seconds = boottime_ns() / 1000000000U - began + 1;
	CHECK(&bench->check,
	      world->event_total >= PG_EVENT_DENIED_PER_S &&
		      world->event_total <= seconds * PG_EVENT_DENIED_PER_S,
	      "%zu events in %llu seconds", world->event_total, (unsigned long long)seconds);
	CHECK(&bench->check,
	      world_events_suppressed(world) - suppressed + world->event_total == FLOOD,
	      "%llu were suppressed",
	      (unsigned long long)(world_events_suppressed(world) - suppressed));

	/* Nobody takes them: the ring is filled by half, in as many seconds as that needs. */
	world->event_total = 0;
	for (size_t sent = 0; sent < 2 * HALF; sent += PG_EVENT_DENIED_PER_S) {
		await_second();
		flood(bench, fd, PG_EVENT_DENIED_PER_S, false);
	}
	CHECK(&bench->check, !world_events_lost(world), "%llu events were lost",
	      (unsigned long long)world_events_lost(world));
	world_take_events(world);
	CHECK(&bench->check, world->event_total > HALF / 2 && world->event_total <= HALF,
	      "%zu events fit into the half", world->event_total);
	close(fd);
}

int main(void)
{
	struct bench bench = {};

	world_open(&bench.world);
	bench.world.header.flags |= PG_HEADER_EVENTS;
	world_switch(&bench.world, WORLD_ALLOWLIST);
	try_kinds(&bench);
	check_group(&bench.check, "a denial is reported by whoever denies");
	try_states(&bench);
	check_group(&bench.check, "without a phase, too, and only if somebody wants to hear");
	try_flood(&bench);
	check_group(&bench.check, "a flood is cut, and leaves room");
	world_close(&bench.world);
	return check_end(&bench.check);
}
