// SPDX-License-Identifier: Apache-2.0
/*
 * The records of datagrams (struct pg_sent), with real sockets: when there is one, and what
 * ends it. The address that it is of is forgotten by user space meanwhile, so that a datagram that
 * passes is one that was not looked up again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/sent.h>
#include <phasegate/abi/set.h>

#include "base/clock.h"
#include "check.h"
#include "phasegate.skel.h"
#include "world.h"

#define PORT	  7000
#define FIRST_ANY 1024
#define PAYLOAD	  40
#define TRIES	  20000

struct bench {
	struct check check;
	struct world world;
	int learned, fd;
	uint64_t socket; /* its cookie */
	/* Another port of the same address, and a denied address, with the same place. */
	struct world_name to, beside, denied;
	uint16_t beside_port;
	const char *text;
};

/* The denied address of IPv6 differs in what is compared last. */
static const struct {
	int family;
	const char *to, *denied;
} rows[] = {
	{AF_INET, "10.9.0.2", "10.9.0.3"},
	{AF_INET6, "fd09::2", "fd09:1::2"},
	{AF_INET6, "::ffff:10.9.0.2", "::ffff:10.9.0.3"},
};

static void learn(struct bench *bench, uint64_t expires)
{
	CHECK(&bench->check, world_learn_address(bench->learned, bench->text, expires),
	      "learning %s: %s", bench->text, strerror(errno));
}

static void forget(struct bench *bench)
{
	CHECK(&bench->check, world_forget_address(bench->learned, bench->text), "forgetting %s: %s",
	      bench->text, strerror(errno));
}

static uint64_t cookie_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) ? 0 : cookie;
}

/* Of what the socket sends to the port of the address, which is bench->text's. */
static uint32_t place_of(const struct bench *bench, const char *text, uint16_t port)
{
	const struct pg_addr addr = world_address(text);

	return pg_sent_index(bench->world.header.env_id, bench->socket, &addr, htons(port));
}

static struct pg_sent record(const struct bench *bench)
{
	const uint32_t place = place_of(bench, bench->text, PORT);
	struct pg_sent_place at = {};

	bpf_map_lookup_elem(bpf_map__fd(bench->world.skeleton->maps.pg_sent_places), &place, &at);
	return at.sent;
}

static bool is_recorded_at(const struct bench *bench, uint16_t port)
{
	const struct pg_sent sent = record(bench);
	const struct pg_addr addr = world_address(bench->text);

	return sent.socket == bench->socket &&
	       sent.generation == (uint32_t)bench->world.generation &&
	       sent.epoch == bench->world.header.epoch && sent.remote_port == htons(port) &&
	       sent.remote == addr.word[3] &&
	       !memcmp(sent.remote_rest, addr.word, sizeof(sent.remote_rest)) &&
	       sent.reason == PG_REASON_LEARNED;
}

static bool is_recorded(const struct bench *bench)
{
	return is_recorded_at(bench, PORT);
}

/* A port of the address other than bench->to's with the same place as that. */
static uint16_t find_beside(struct bench *bench, const char *text)
{
	const uint32_t place = place_of(bench, bench->text, PORT);

	for (uint32_t port = FIRST_ANY; port <= UINT16_MAX; port++)
		if (port != PORT && place_of(bench, text, (uint16_t)port) == place)
			return (uint16_t)port;
	CHECK(&bench->check, false, "%s: no port has the place of %s", text, bench->text);
	return FIRST_ANY;
}

static void open_socket(struct bench *bench, int family)
{
	bench->fd = world_client(&bench->world, family, SOCK_DGRAM, 0);
	bench->socket = cookie_of(bench->fd);
}

/* Sends until there is a record: it may have ended between two datagrams. */
static void warm(struct bench *bench)
{
	learn(bench, UINT64_MAX);
	for (int i = 0; i < 4; i++)
		CHECK(&bench->check, !world_send(bench->fd, &bench->to, PAYLOAD), "%s: %s",
		      bench->text, strerror(errno));
	CHECK(&bench->check, is_recorded(bench), "%s: no record after four datagrams", bench->text);
}

static void expect_denied(struct bench *bench, const struct world_name *to, const char *why)
{
	const int error = world_send(bench->fd, to, PAYLOAD);

	CHECK(&bench->check, error == EPERM, "%s, %s: %s", bench->text, why, strerror(error));
}

static void try_first(struct bench *bench)
{
	learn(bench, UINT64_MAX);
	CHECK(&bench->check, !world_send(bench->fd, &bench->to, PAYLOAD) && !is_recorded(bench),
	      "%s: a record of the first datagram", bench->text);
	learn(bench, pg_boottime_ns() + 900 * 1000000ULL);
	for (int i = 0; i < 4; i++)
		world_send(bench->fd, &bench->to, PAYLOAD);
	CHECK(&bench->check, !is_recorded(bench), "%s: a record of what ends within a second",
	      bench->text);
}

/* Whether datagrams pass without a look for a while, and only for a while. */
static void try_end(struct bench *bench)
{
	const uint64_t started = pg_monotonic_ns();
	uint64_t passed_ns = 0;

	warm(bench);
	forget(bench);
	while (!world_send(bench->fd, &bench->to, PAYLOAD)) {
		passed_ns = pg_monotonic_ns() - started;
		if (passed_ns > 3000000000)
			break;
	}
	CHECK(&bench->check, passed_ns < 3000000000, "%s: the record does not end", bench->text);
}

/* The same phase again. */
static void write_state(struct bench *bench)
{
	bench->world.generation++;
	world_set_state(&bench->world, 0, WORLD_ALLOWLIST);
}

static void try_writes(struct bench *bench)
{
	warm(bench);
	world_switch(&bench->world, WORLD_NO_NETWORK);
	expect_denied(bench, &bench->to, "after a switch");
	world_switch(&bench->world, WORLD_ALLOWLIST);
	forget(bench);
	expect_denied(bench, &bench->to, "back in the phase, without the address");

	warm(bench);
	forget(bench);
	write_state(bench);
	expect_denied(bench, &bench->to, "after a write of the same phase");

	warm(bench);
	forget(bench);
	bench->world.header.epoch++;
	world_write_header(&bench->world);
	expect_denied(bench, &bench->to, "after a write of the header");
}

struct sender {
	const struct bench *bench;
	const struct world_name *to;
	int expected;
	unsigned int others;
};

static void *send_many(void *userdata)
{
	struct sender *sender = userdata;

	for (int i = 0; i < TRIES; i++)
		sender->others +=
			world_send(sender->bench->fd, sender->to, PAYLOAD) != sender->expected;
	return NULL;
}

/* Who comes first keeps the place until it is over, or of an earlier generation. */
static void try_beside(struct bench *bench)
{
	warm(bench);
	for (int i = 0; i < 4; i++)
		CHECK(&bench->check, !world_send(bench->fd, &bench->beside, PAYLOAD), "%s: %s",
		      bench->text, strerror(errno));
	CHECK(&bench->check, is_recorded(bench), "%s: port %u took the place", bench->text,
	      bench->beside_port);
	for (const uint64_t started = pg_monotonic_ns();
	     !is_recorded_at(bench, bench->beside_port) &&
	     pg_monotonic_ns() - started < 3000000000;)
		world_send(bench->fd, &bench->beside, PAYLOAD);
	CHECK(&bench->check, is_recorded_at(bench, bench->beside_port),
	      "%s: port %u has not got the place", bench->text, bench->beside_port);
	write_state(bench);
	warm(bench);
}

/* Of one socket another, of the same port, knows nothing. */
static void try_other_socket(struct bench *bench, int family)
{
	struct sockaddr_storage local;
	socklen_t size = sizeof(local);
	const int first = bench->fd;
	int fd;

	warm(bench);
	CHECK(&bench->check, !getsockname(first, (struct sockaddr *)&local, &size), "%s: %s",
	      bench->text, strerror(errno));
	forget(bench);
	close(first);
	fd = world_client(&bench->world, family, SOCK_DGRAM, 0);
	CHECK(&bench->check, !bind(fd, (const struct sockaddr *)&local, size), "%s: bind: %s",
	      bench->text, strerror(errno));
	bench->fd = fd;
	expect_denied(bench, &bench->to, "another socket of the same port");
	bench->socket = cookie_of(fd);
	warm(bench);
}

/* Another destination with the same place, also while a thread sends to the first. */
static void try_other(struct bench *bench)
{
	struct sender allowed = {bench, &bench->to, 0, 0},
		      denied = {bench, &bench->denied, EPERM, 0};
	pthread_t thread;

	warm(bench);
	expect_denied(bench, &bench->denied, "another address of the same place");
	CHECK(&bench->check, is_recorded(bench), "%s: a denied one took the record", bench->text);
	if (pthread_create(&thread, NULL, send_many, &allowed))
		exit(EXIT_FAILURE);
	send_many(&denied);
	pthread_join(thread, NULL);
	CHECK(&bench->check, !denied.others, "%s: %u denied ones had another end", bench->text,
	      denied.others);
	CHECK(&bench->check, !allowed.others, "%s: %u allowed ones had another end", bench->text,
	      allowed.others);
}

/*
 * An IPv6 header with the record's IPv4 addresses, mapped: netfilter makes one behind the socket,
 * as root of a network namespace may. It is judged by its form, whatever the record says.
 */
static void try_mapped_header(struct bench *bench)
{
	const struct world_name other = world_name("fd09::2", PORT);
	uint64_t before;

	if (system("nft add table ip6 pgtest && "
		   "nft 'add chain ip6 pgtest out { type filter hook output priority 0; }' && "
		   "nft add rule ip6 pgtest out ip6 daddr fd09::2 udp dport 7000"
		   " ip6 daddr set ::ffff:10.9.0.2 ip6 saddr set ::ffff:10.9.0.1")) {
		printf("# no nft, or no nf_tables\n");
		return;
	}
	bench->text = "fd09::2";
	learn(bench, UINT64_MAX);
	bench->text = "::ffff:10.9.0.2";
	open_socket(bench, AF_INET6);
	warm(bench);
	before = world_counted(&bench->world, PG_REASON_ADDRESS_FORM);
	expect_denied(bench, &other, "as mapped addresses in an IPv6 header");
	CHECK(&bench->check, is_recorded(bench), "the record has ended");
	CHECK(&bench->check, world_counted(&bench->world, PG_REASON_ADDRESS_FORM) == before + 1,
	      "not for its form");
	close(bench->fd);
	check_group(&bench->check, "a mapped address in an IPv6 header has no record");
}

int main(void)
{
	struct bench bench = {};

	world_open(&bench.world);
	world_add_link(&bench.world);
	bench.world.header.epoch = 1;
	bench.learned = world_learn(&bench.world, WORLD_ALLOWLIST);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bench.text = rows[i].to;
		bench.to = world_name(rows[i].to, PORT);
		open_socket(&bench, rows[i].family);
		bench.beside_port = find_beside(&bench, rows[i].to);
		bench.beside = world_name(rows[i].to, bench.beside_port);
		bench.denied = world_name(rows[i].denied, find_beside(&bench, rows[i].denied));
		try_first(&bench);
		try_end(&bench);
		try_writes(&bench);
		try_other(&bench);
		try_beside(&bench);
		try_other_socket(&bench, rows[i].family);
		close(bench.fd);
	}
	check_group(&bench.check, "datagrams of a socket");
	try_mapped_header(&bench);
	close(bench.learned);
	world_close(&bench.world);
	return check_end(&bench.check);
}
