// SPDX-License-Identifier: Apache-2.0
/*
 * Records of what was decided of TCP (struct pg_sent), with real sockets and a server in a
 * network namespace of its own: when there is one, what ends it, and that a part of one is none.
 * The address that it is of is forgotten by user space meanwhile, so that what arrives is what was
 * not looked up again.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/sent.h>
#include <phasegate/abi/set.h>

#include "base/clock.h"
#include "check.h"
#include "phasegate.skel.h"
#include "world.h"

#define PORT	    7000
#define PATIENCE_NS 3000000000ULL
#define TRIES	    10 /* on a busy machine a record may end before the next segment */
/* For what is to come back, and for what is not: then it costs time, and too little proves less. */
#define LONG_MS	    10000
#define SHORT_MS    300

struct bench {
	struct check check;
	struct world world;
	int learned, fd;
	struct world_name to;
	const char *text;
	pid_t server;
};

static const struct {
	int family;
	const char *to, *others;
	bool whole; /* its words are not those of another row */
} rows[] = {
	{AF_INET, "10.9.0.2", "10.9.0.3", true},
	{AF_INET6, "fd09::2", "fd09::3", true},
	{AF_INET6, "::ffff:10.9.0.2", "::ffff:10.9.0.3", false},
};

/* Answers each octet with one. */
static void serve(int listener)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		char octet;

		if (fd < 0)
			_exit(1);
		if (fork()) {
			close(fd);
			continue;
		}
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
		while (read(fd, &octet, 1) == 1)
			if (write(fd, &octet, 1) != 1)
				break;
		_exit(0);
	}
}

/* In a namespace of its own, with the far end of the link: told through the pipes. */
static void server_main(int told, int tell)
{
	const struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	int fd;
	char octet;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWNET) || write(tell, "", 1) != 1 || read(told, &octet, 1) != 1 ||
	    system("ip link set lo up && ip addr add 10.9.0.2/24 dev pgtest1 && "
		   "ip addr add 10.9.0.3/24 dev pgtest1 && "
		   "ip addr add fd09::2/64 dev pgtest1 nodad && "
		   "ip addr add fd09::3/64 dev pgtest1 nodad && ip link set pgtest1 up"))
		_exit(1);
	signal(SIGCHLD, SIG_IGN);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof(any)) || listen(fd, 16) ||
	    write(tell, "", 1) != 1)
		_exit(1);
	serve(fd);
}

static void start_server(struct bench *bench)
{
	int told[2], tell[2];
	char octet, command[128];

	if (pipe(told) || pipe(tell))
		exit(EXIT_FAILURE);
	bench->server = fork();
	if (!bench->server)
		server_main(told[0], tell[1]);
	close(tell[1]);
	snprintf(command, sizeof(command),
		 "ip link set pgtest1 netns %d && ip neigh flush dev pgtest0 nud permanent",
		 (int)bench->server);
	if (bench->server < 0 || read(tell[0], &octet, 1) != 1 || system(command) ||
	    write(told[1], "", 1) != 1 || read(tell[0], &octet, 1) != 1) {
		fprintf(stderr, "the server did not start\n");
		world_close(&bench->world);
		exit(EXIT_FAILURE);
	}
}

static void go_to(struct bench *bench, const char *text)
{
	bench->text = text;
	bench->to = world_name(text, PORT);
}

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

static int places(const struct bench *bench)
{
	return bpf_map__fd(bench->world.skeleton->maps.pg_sent_places);
}

static uint32_t place_of(const struct bench *bench)
{
	const struct pg_addr addr = world_address(bench->text);

	return pg_sent_index(bench->world.header.env_id, 0, &addr, 0);
}

static struct pg_sent_place at_place(const struct bench *bench)
{
	const uint32_t index = place_of(bench);
	struct pg_sent_place place = {};

	bpf_map_lookup_elem(places(bench), &index, &place);
	return place;
}

/* Whether there is a record of the address in this state; of IPv6 the last word will do. */
static bool is_recorded(const struct bench *bench)
{
	const struct pg_addr addr = world_address(bench->text);
	const struct pg_sent sent = at_place(bench).sent;

	return sent.remote == addr.word[3] && !sent.socket && !sent.remote_port &&
	       sent.generation == (uint32_t)bench->world.generation &&
	       sent.epoch == bench->world.header.epoch && sent.reason == PG_REASON_LEARNED;
}

static void set_place(const struct bench *bench, const struct pg_sent_place *place)
{
	const uint32_t index = place_of(bench);

	if (bpf_map_update_elem(places(bench), &index, place, BPF_EXIST))
		exit(EXIT_FAILURE);
}

/* The record as if it were of something else, or were being written. */
static void change(const struct bench *bench, size_t offset)
{
	struct pg_sent_place place = at_place(bench);

	((uint8_t *)&place.sent)[offset] ^= 1;
	set_place(bench, &place);
}

/* An octet there and back; false: nothing has come back in the socket's time. */
static bool exchange(const struct bench *bench)
{
	char octet = 'x';

	return send(bench->fd, &octet, 1, MSG_NOSIGNAL) == 1 && recv(bench->fd, &octet, 1, 0) == 1;
}

static void set_patience(const struct bench *bench, unsigned int ms)
{
	const struct timeval patience = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	setsockopt(bench->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

static void open_connection(struct bench *bench, int family)
{
	learn(bench, UINT64_MAX);
	bench->fd = world_client(&bench->world, family, SOCK_STREAM, 0);
	CHECK(&bench->check,
	      bench->fd >= 0 && !connect(bench->fd, (const struct sockaddr *)&bench->to.storage,
					 bench->to.size),
	      "%s: connect: %s", bench->text, strerror(errno));
	setsockopt(bench->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	set_patience(bench, LONG_MS);
}

/* Until there is a record: the last one may have ended since. */
static void warm(struct bench *bench)
{
	CHECK(&bench->check, exchange(bench), "%s: %s", bench->text, strerror(errno));
	CHECK(&bench->check, is_recorded(bench), "%s: no record", bench->text);
}

/* A connection that a segment of is denied is not used any more: the kernel sends it again. */
static void expect_denied(struct bench *bench, enum pg_reason reason, const char *why)
{
	const uint64_t before = world_counted(&bench->world, reason);

	set_patience(bench, SHORT_MS);
	CHECK(&bench->check, !exchange(bench), "%s, %s: it was let out", bench->text, why);
	CHECK(&bench->check, world_counted(&bench->world, reason) > before,
	      "%s, %s: denied for another reason", bench->text, why);
	close(bench->fd);
}

/* The same phase again. */
static void write_state(struct bench *bench)
{
	bench->world.generation++;
	world_set_state(&bench->world, 0, WORLD_ALLOWLIST);
}

/* A neighbour of the address leaves its record alone, on the same CPU. */
static void try_neighbour(struct bench *bench, size_t row)
{
	cpu_set_t before, one;
	int first;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	CHECK(&bench->check,
	      !sched_getaffinity(0, sizeof(before), &before) &&
		      !sched_setaffinity(0, sizeof(one), &one),
	      "one CPU: %s", strerror(errno));
	write_state(bench);
	open_connection(bench, rows[row].family);
	warm(bench);
	first = bench->fd; /* which says nothing meanwhile */
	go_to(bench, rows[row].others);
	open_connection(bench, rows[row].family);
	warm(bench);
	go_to(bench, rows[row].to);
	CHECK(&bench->check, is_recorded(bench), "%s: %s has taken its place", bench->text,
	      rows[row].others);
	close(bench->fd);
	close(first);
	go_to(bench, rows[row].others);
	forget(bench);
	go_to(bench, rows[row].to);
	sched_setaffinity(0, sizeof(before), &before);
}

static bool passes_by_record(struct bench *bench, int family)
{
	for (int i = 0; i < TRIES; i++) {
		open_connection(bench, family);
		warm(bench);
		set_patience(bench, SHORT_MS);
		forget(bench);
		if (exchange(bench))
			return true;
		close(bench->fd);
	}
	return false;
}

/* Whether segments pass without a look for a while, and only for a while. */
static void try_end(struct bench *bench, int family)
{
	uint64_t started, passed_ns = 0;

	if (!CHECK(&bench->check, passes_by_record(bench, family),
		   "%s: nothing passes by the record", bench->text))
		return;
	started = pg_monotonic_ns();
	while (exchange(bench)) {
		passed_ns = pg_monotonic_ns() - started;
		if (passed_ns > PATIENCE_NS)
			break;
	}
	CHECK(&bench->check, passed_ns < PATIENCE_NS, "%s: the record does not end", bench->text);
	close(bench->fd);
}

static void try_writes(struct bench *bench, int family)
{
	open_connection(bench, family);
	warm(bench);
	world_switch(&bench->world, WORLD_NO_NETWORK);
	expect_denied(bench, PG_REASON_NOT_ALLOWED, "after a switch");
	world_switch(&bench->world, WORLD_ALLOWLIST);

	open_connection(bench, family);
	warm(bench);
	forget(bench);
	write_state(bench);
	expect_denied(bench, PG_REASON_NOT_ALLOWED, "after a write of the same phase");

	open_connection(bench, family);
	warm(bench);
	forget(bench);
	bench->world.header.epoch++;
	world_write_header(&bench->world);
	expect_denied(bench, PG_REASON_NOT_ALLOWED, "after a write of the header");
}

/* To another address, by the same socket. */
static void try_again(struct bench *bench, int family, const char *others)
{
	const struct world_name other = world_name(others, PORT);
	const struct sockaddr none = {.sa_family = AF_UNSPEC};

	open_connection(bench, family);
	warm(bench);
	CHECK(&bench->check,
	      !connect(bench->fd, &none, sizeof(none)) &&
		      connect(bench->fd, (const struct sockaddr *)&other.storage, other.size) &&
		      errno == EPERM,
	      "%s: then %s: %s", bench->text, others, strerror(errno));
	close(bench->fd);
}

/* connect() goes by the record as well, and only by one in which all is right. */
static void try_whole(struct bench *bench, int family)
{
	static const struct {
		const char *name;
		size_t offset;
		bool ipv6;
	} fields[] = {
#define FIELD(name) {#name, offsetof(struct pg_sent, name), false}
#define REST(name) \
	{ \
#name, offsetof(struct pg_sent, name), true \
	}
		FIELD(socket),	     FIELD(env_id),	FIELD(epoch),	      FIELD(local),
		FIELD(remote),	     FIELD(local_port), FIELD(remote_port),   FIELD(generation),
		FIELD(version),	     FIELD(flags),	REST(local_rest),     REST(local_rest[1]),
		REST(local_rest[2]), REST(remote_rest), REST(remote_rest[1]), REST(remote_rest[2]),
#undef FIELD
#undef REST
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (fields[i].ipv6 && family == AF_INET)
			continue;
		set_place(bench, &(struct pg_sent_place){});
		open_connection(bench, family);
		warm(bench);
		forget(bench);
		change(bench, fields[i].offset);
		expect_denied(bench, PG_REASON_NOT_ALLOWED, fields[i].name);
	}
}

int main(void)
{
	struct bench bench = {};

	world_open(&bench.world);
	world_add_link(&bench.world);
	start_server(&bench);
	bench.world.header.epoch = 1;
	bench.learned = world_learn(&bench.world, WORLD_ALLOWLIST);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		go_to(&bench, rows[i].to);
		try_neighbour(&bench, i);
		try_end(&bench, rows[i].family);
		try_writes(&bench, rows[i].family);
		try_again(&bench, rows[i].family, rows[i].others);
		if (rows[i].whole)
			try_whole(&bench, rows[i].family);
	}
	check_group(&bench.check, "what was decided recently");
	kill(bench.server, SIGKILL);
	waitpid(bench.server, NULL, 0);
	close(bench.learned);
	world_close(&bench.world);
	return check_end(&bench.check);
}
