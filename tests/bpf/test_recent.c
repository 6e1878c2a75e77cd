// SPDX-License-Identifier: Apache-2.0
/*
 * Records of what was decided of TCP (struct pg_recent), with real sockets and a server in a
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

#include <phasegate/abi/flow.h>
#include <phasegate/abi/recent.h>
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
	bool torn; /* its words are not those of another row */
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

static int recents(const struct bench *bench)
{
	return bpf_map__fd(bench->world.skeleton->maps.pg_recents);
}

/* Whether it is the address's in this state; of IPv6 the last word will do. */
static bool is_of_address(const struct bench *bench, const struct pg_recent *recent)
{
	const struct pg_addr addr = world_address(bench->text);
	const __u64 *words = recent->word;

	return (uint32_t)words[PG_RECENT_REMOTE] == addr.word[3] &&
	       (uint32_t)words[PG_RECENT_GENERATION] == (uint32_t)bench->world.generation &&
	       (uint32_t)words[PG_RECENT_EPOCH] == (uint32_t)bench->world.header.epoch &&
	       (words[PG_RECENT_REASON] & PG_RECENT_REASON_MASK) == PG_REASON_LEARNED;
}

/* Whether some CPU has a record of the address. */
static bool is_recorded(const struct bench *bench)
{
	struct pg_recent recent;

	for (uint32_t i = 0; !bpf_map_lookup_elem(recents(bench), &i, &recent); i++)
		if (is_of_address(bench, &recent))
			return true;
	return false;
}

/* As if the word were of another record, which another run has written halfway. */
static void tear(const struct bench *bench, size_t word)
{
	struct pg_recent recent;

	for (uint32_t i = 0; !bpf_map_lookup_elem(recents(bench), &i, &recent); i++) {
		if (!is_of_address(bench, &recent))
			continue;
		recent.word[word] ^= 1ULL << 32;
		if (bpf_map_update_elem(recents(bench), &i, &recent, BPF_EXIST))
			exit(EXIT_FAILURE);
	}
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
	bench->world.generation++;
	world_set_state(&bench->world, 0, WORLD_ALLOWLIST);
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

/* connect() goes by the record as well, and only by a whole one. */
static void try_torn(struct bench *bench, int family)
{
	const size_t words = family == AF_INET ? PG_RECENT_REMOTE_REST : PG_RECENT_LOCAL_REST + 3;

	for (size_t i = 0; i < words; i++) {
		char why[64];

		snprintf(why, sizeof(why), "word %zu is of another record", i);
		open_connection(bench, family);
		warm(bench);
		forget(bench);
		tear(bench, i);
		expect_denied(bench, PG_REASON_NOT_ALLOWED, why);
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
		if (rows[i].torn)
			try_torn(&bench, rows[i].family);
	}
	check_group(&bench.check, "what was decided recently");
	kill(bench.server, SIGKILL);
	waitpid(bench.server, NULL, 0);
	close(bench.learned);
	world_close(&bench.world);
	return check_end(&bench.check);
}
