// SPDX-License-Identifier: Apache-2.0
/*
 * With real sockets: what is left to one that is connected to a learned address when that expires,
 * and a reply to port 53, which is no question.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/flow.h>
#include <phasegate/abi/set.h>

#include "check.h"
#include "phasegate.skel.h"
#include "world.h"

#define PORT	   7000
#define LOCAL_PORT 4000
#define PAYLOAD	   40

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

struct bench {
	struct check check;
	struct world world;
	int learned;
};

/* Addresses that are on a link on which nobody answers. */
static const struct {
	int family;
	const char *connected, *other;
} rows[] = {
	{AF_INET, "10.9.0.2", "10.9.0.3"},
	{AF_INET6, "fd09::2", "fd09::3"},
	{AF_INET6, "::ffff:10.9.0.2", "::ffff:10.9.0.3"},
};

/* One is the past of every machine, the other the future. */
static void learn(struct bench *bench, const char *text, bool expired)
{
	CHECK(&bench->check, world_learn_address(bench->learned, text, expired ? 1 : UINT64_MAX),
	      "learning %s: %s", text, strerror(errno));
}

static uint64_t counted(const struct bench *bench, enum pg_reason reason)
{
	return world_counted(&bench->world, reason);
}

static void try_row(struct bench *bench, size_t row)
{
	const struct world_name to = world_name(rows[row].connected, PORT);
	const struct world_name other = world_name(rows[row].other, PORT);
	const char *text = rows[row].connected;
	const unsigned int mapped = strncmp(text, "::ffff:", 7) == 0;
	struct check *check = &bench->check;
	char octets[PAYLOAD] = {};
	uint64_t before;
	int fd, error;

	learn(bench, text, false);
	learn(bench, rows[row].other, false);
	fd = world_client(&bench->world, rows[row].family, SOCK_DGRAM, 0);
	CHECK(check, !connect(fd, (const struct sockaddr *)&to.storage, to.size), "%s: connect: %s",
	      text, strerror(errno));
	learn(bench, text, true);
	before = counted(bench, PG_REASON_DRAINING);
	error = world_send(fd, NULL, PAYLOAD);
	/* With a mapped peer the kernel runs sendmsg4 at each send, as if a name had been given. */
	CHECK(check, !error && counted(bench, PG_REASON_DRAINING) == before + 1 + mapped,
	      "%s: draining: %s", text, strerror(error));
	error = connect(fd, (const struct sockaddr *)&to.storage, to.size) ? errno : 0;
	CHECK(check, error == EPERM, "%s: connect: %s", text, strerror(error));

	/* Held back, for a destination that may be sent to when it is given. */
	CHECK(check,
	      sendto(fd, octets, PAYLOAD, MSG_MORE, (const struct sockaddr *)&other.storage,
		     other.size) == PAYLOAD,
	      "%s: held back: %s", text, strerror(errno));
	learn(bench, rows[row].other, true);
	before = counted(bench, PG_REASON_EXPIRED);
	error = world_send(fd, NULL, PAYLOAD);
	CHECK(check, error == EPERM && counted(bench, PG_REASON_EXPIRED) == before + 1,
	      "%s: to another address by a connected socket: %s", text, strerror(error));
	error = world_send(fd, &other, PAYLOAD);
	CHECK(check, error == EPERM, "%s: anew: %s", text, strerror(error));
	close(fd);
}

/* A server in the Environment answers a client that asks from port 53. */
static void try_reply(struct bench *bench, enum pg_phase phase)
{
	const struct world_name to = world_name("10.9.0.2", 53),
				from = world_name("0.0.0.0", LOCAL_PORT);
	const int flows = bpf_map__fd(bench->world.skeleton->maps.pg_flows);
	struct pg_flow flow = {.seen = UINT64_MAX / 2, .direction = PG_FLOW_INBOUND};
	struct pg_flow_key key = {
		.env_id = bench->world.place.id,
		.remote = world_address("10.9.0.2"),
		.remote_port = htons(53),
		.local_port = htons(LOCAL_PORT),
		.protocol = IPPROTO_UDP,
		.kind = PG_FLOW_HINT,
	};
	const struct pg_flow_count count = {.live = 2, .hints = 1};
	socklen_t size = sizeof(key.netns);
	uint64_t before;
	int fd, error;

	world_switch(&bench->world, phase);
	flow.generation = (__u32)bench->world.generation;
	fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &key.netns, &size)) {
		printf("# the kernel does not tell the namespace's cookie\n");
		close(fd);
		return;
	}
	CHECK(&bench->check, !bind(fd, (const struct sockaddr *)&from.storage, from.size),
	      "bind: %s", strerror(errno));
	bpf_map_update_elem(flows, &key, &flow, BPF_ANY);
	bpf_map_update_elem(bpf_map__fd(bench->world.skeleton->maps.pg_flow_counts),
			    &bench->world.header.state, &count, BPF_ANY);
	key.kind = PG_FLOW_TUPLE;
	key.local = world_address("10.9.0.1");
	bpf_map_update_elem(flows, &key, &flow, BPF_ANY);
	before = counted(bench, PG_REASON_INBOUND) + counted(bench, PG_REASON_PUBLIC);
	error = world_send(fd, &to, PAYLOAD);
	CHECK(&bench->check,
	      !error && counted(bench, PG_REASON_INBOUND) + counted(bench, PG_REASON_PUBLIC) ==
				before + 2,
	      "a reply to port 53 in phase %u: %s", phase, strerror(error));
	close(fd);
}

int main(void)
{
	struct bench bench = {};

	world_open(&bench.world);
	world_add_link(&bench.world);
	bench.learned = world_learn(&bench.world, WORLD_ALLOWLIST);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		try_row(&bench, i);
	check_group(&bench.check, "an expired address is drained by the sockets connected to it");
	try_reply(&bench, WORLD_ALLOWLIST);
	try_reply(&bench, WORLD_PUBLIC);
	check_group(&bench.check, "a reply to port 53");
	close(bench.learned);
	world_close(&bench.world);
	return check_end(&bench.check);
}
