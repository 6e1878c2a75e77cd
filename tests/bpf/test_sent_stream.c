// SPDX-License-Identifier: Apache-2.0
/*
 * The record of a TCP connection (struct pg_sent), with real sockets and a server in a network
 * namespace of its own: when there is one, and what ends it. The address that it is of is forgotten
 * by user space meanwhile, so that what arrives is what was not looked up again.
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

#include <phasegate/abi/flow.h>
#include <phasegate/abi/set.h>

#include "base/clock.h"
#include "check.h"
#include "phasegate.skel.h"
#include "world.h"

#define PORT	    7000
#define SEGMENTS    20 /* that are enough for a record */
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
} rows[] = {
	{AF_INET, "10.9.0.2", "10.9.0.3"},
	{AF_INET6, "fd09::2", "fd09::3"},
	{AF_INET6, "::ffff:10.9.0.2", "::ffff:10.9.0.3"},
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
		   "ip addr add fd09::2/64 dev pgtest1 nodad && ip link set pgtest1 up"))
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

static struct pg_mark mark(const struct bench *bench)
{
	struct pg_mark mark = {};

	bpf_map_lookup_elem(bpf_map__fd(bench->world.skeleton->maps.pg_marks), &bench->fd, &mark);
	return mark;
}

static bool is_recorded(const struct bench *bench)
{
	const struct pg_mark kept = mark(bench);
	const struct pg_addr addr = world_address(bench->text);

	return kept.kind == PG_MARK_STREAM &&
	       kept.sent.generation == (uint32_t)bench->world.generation &&
	       kept.sent.epoch == bench->world.header.epoch &&
	       kept.sent.remote_port == htons(PORT) &&
	       !memcmp(&kept.sent.remote, &addr, sizeof(addr)) &&
	       kept.sent.reason == PG_REASON_LEARNED;
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

/* Until there is a record: it may have ended between two segments. */
static void warm(struct bench *bench)
{
	for (int i = 0; i < SEGMENTS; i++)
		CHECK(&bench->check, exchange(bench), "%s: %s", bench->text, strerror(errno));
	CHECK(&bench->check, is_recorded(bench), "%s: no record after %d segments", bench->text,
	      SEGMENTS);
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

static void try_first(struct bench *bench, int family)
{
	open_connection(bench, family);
	CHECK(&bench->check, exchange(bench) && mark(bench).kind == PG_MARK_NONE,
	      "%s: a mark at the first segments", bench->text);
	warm(bench);
	close(bench->fd);
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
	bench->world.generation++;
	world_set_state(&bench->world, 0, WORLD_ALLOWLIST);
	expect_denied(bench, PG_REASON_NOT_ALLOWED, "after a write of the same phase");

	open_connection(bench, family);
	warm(bench);
	forget(bench);
	bench->world.header.epoch++;
	world_write_header(&bench->world);
	expect_denied(bench, PG_REASON_NOT_ALLOWED, "after a write of the header");
}

/* The socket connects anew: nothing of the old connection counts. */
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
	CHECK(&bench->check, mark(bench).kind == PG_MARK_NONE, "%s: the mark is still there",
	      bench->text);
	close(bench->fd);
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
		bench.text = rows[i].to;
		bench.to = world_name(rows[i].to, PORT);
		try_first(&bench, rows[i].family);
		try_end(&bench, rows[i].family);
		try_writes(&bench, rows[i].family);
		try_again(&bench, rows[i].family, rows[i].others);
	}
	check_group(&bench.check, "the last segment of a socket");
	kill(bench.server, SIGKILL);
	waitpid(bench.server, NULL, 0);
	close(bench.learned);
	world_close(&bench.world);
	return check_end(&bench.check);
}
