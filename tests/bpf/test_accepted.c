// SPDX-License-Identifier: Apache-2.0
/*
 * Accepted connections (struct pg_accepted), with real sockets and a client in a network namespace
 * of its own, in a phase that allows nothing: when they have a place and when a mark, that both do,
 * and what ends it.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/flow.h>
#include <phasegate/abi/link.h>
#include <phasegate/abi/sent.h>

#include "base/clock.h"
#include "check.h"
#include "phasegate.skel.h"
#include "world.h"

#define PORT	    7000
#define SEGMENTS    20
#define PATIENCE_S  10
#define PATIENCE_NS (PATIENCE_S * PG_NSEC_PER_SEC)
#define SHORT_MS    300 /* for what is not to come back */

struct bench {
	struct check check;
	struct world world;
	const char *text; /* the address of the server inside */
	int listener, fd; /* fd: an accepted connection */
	pid_t client;
	int tell, told;
};

static const struct {
	int family; /* of the listener */
	const char *own;
} rows[] = {
	{AF_INET, "10.9.0.1"},
	{AF_INET6, "fd09::1"},
	{AF_INET6, "::ffff:10.9.0.1"},
};

/* What the client is told to do, an octet each. */
enum order {
	CONNECT, /* to the row's address, whose index is in the upper half */
	ECHO,	 /* an octet */
	EXPECT_NOTHING,
	FINISH,
	RESET,
};

static bool obey(int order, int *fd)
{
	struct timeval patience = {.tv_sec = PATIENCE_S};
	struct world_name to;
	char octet = 'x';

	switch ((enum order)(order & 15)) {
	case CONNECT:
		to = world_name(rows[order >> 4].own, PORT);
		*fd = socket(to.storage.ss_family, SOCK_STREAM, 0);
		return !connect(*fd, (const struct sockaddr *)&to.storage, to.size);
	case ECHO:
		setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		return read(*fd, &octet, 1) == 1 && write(*fd, &octet, 1) == 1;
	case EXPECT_NOTHING:
		patience = (struct timeval){.tv_usec = SHORT_MS * 1000L};
		setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		return read(*fd, &octet, 1) < 0;
	case RESET:
		setsockopt(*fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
			   sizeof(struct linger));
		return !close(*fd);
	case FINISH:
		return !close(*fd);
	}
	return false;
}

/* In a namespace of its own, with the far end of the link. */
static void client_main(int told, int tell)
{
	unsigned char octet;
	int fd = -1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWNET) || write(tell, "", 1) != 1 || read(told, &octet, 1) != 1 ||
	    system("ip link set lo up && ip addr add 10.9.0.2/24 dev pgtest1 && "
		   "ip addr add fd09::2/64 dev pgtest1 nodad && ip link set pgtest1 up") ||
	    write(tell, "", 1) != 1)
		_exit(1);
	while (read(told, &octet, 1) == 1) {
		octet = obey(octet, &fd);
		if (write(tell, &octet, 1) != 1)
			break;
	}
	_exit(0);
}

static void start_client(struct bench *bench)
{
	int told[2], tell[2];
	char octet, command[128];

	if (pipe(told) || pipe(tell))
		exit(EXIT_FAILURE);
	bench->client = fork();
	if (!bench->client)
		client_main(told[0], tell[1]);
	close(tell[1]);
	bench->tell = told[1];
	bench->told = tell[0];
	snprintf(command, sizeof(command),
		 "ip link set pgtest1 netns %d && ip neigh flush dev pgtest0 nud permanent",
		 (int)bench->client);
	if (bench->client < 0 || read(bench->told, &octet, 1) != 1 || system(command) ||
	    write(bench->tell, "", 1) != 1 || read(bench->told, &octet, 1) != 1) {
		fprintf(stderr, "the client did not start\n");
		world_close(&bench->world);
		exit(EXIT_FAILURE);
	}
}

static void say(struct bench *bench, enum order order, size_t row)
{
	const unsigned char octet = (unsigned char)(row << 4 | order);

	CHECK(&bench->check, write(bench->tell, &octet, 1) == 1, "telling the client");
}

static bool is_done(struct bench *bench)
{
	unsigned char octet = 0;

	return read(bench->told, &octet, 1) == 1 && octet;
}

static bool have_done(struct bench *bench, enum order order)
{
	say(bench, order, 0);
	return is_done(bench);
}

static enum pg_mark_kind mark_kind(const struct bench *bench)
{
	struct pg_mark mark = {};

	bpf_map_lookup_elem(bpf_map__fd(bench->world.skeleton->maps.pg_marks), &bench->fd, &mark);
	return (enum pg_mark_kind)mark.kind;
}

/* Places that are somebody's or were. */
static size_t places_known(const struct bench *bench)
{
	const int map = bpf_map__fd(bench->world.skeleton->maps.pg_accepted);
	struct pg_accepted place;
	size_t known = 0;

	for (__u32 i = 0; i < PG_ACCEPTED_MAX; i++)
		known += !bpf_map_lookup_elem(map, &i, &place) && place.cookie;
	return known;
}

/* Whether so many places are taken. */
static bool places_are(const struct bench *bench, size_t count)
{
	const int map = bpf_map__fd(bench->world.skeleton->maps.pg_accepted);
	struct pg_accepted place;
	size_t taken = 0;

	for (__u32 i = 0; i < PG_ACCEPTED_MAX; i++)
		taken += !bpf_map_lookup_elem(map, &i, &place) && place.cookie &&
			 !(place.owner & PG_ACCEPTED_CLOSED);
	return taken == count;
}

/* The last segments of a connection may still be under way. */
static bool wait_for_places(const struct bench *bench, size_t count)
{
	const uint64_t until = pg_monotonic_ns() + PATIENCE_NS;
	const struct timespec pause = {.tv_nsec = 1000000};

	while (!places_are(bench, count)) {
		if (pg_monotonic_ns() > until)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* An octet there and back. */
static bool exchange(struct bench *bench)
{
	char octet = 'x';

	say(bench, ECHO, 0);
	return send(bench->fd, &octet, 1, MSG_NOSIGNAL) == 1 && is_done(bench) &&
	       recv(bench->fd, &octet, 1, 0) == 1;
}

static void listen_inside(struct bench *bench, size_t row)
{
	const struct world_name at = world_name(rows[row].own, PORT);

	bench->text = rows[row].own;
	bench->listener = world_client(&bench->world, rows[row].family, SOCK_STREAM, 0);
	setsockopt(bench->listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	CHECK(&bench->check,
	      bench->listener >= 0 &&
		      !bind(bench->listener, (const struct sockaddr *)&at.storage, at.size) &&
		      !listen(bench->listener, 8),
	      "%s: listening: %s", bench->text, strerror(errno));
}

static void open_connection(struct bench *bench, size_t row)
{
	say(bench, CONNECT, row);
	CHECK(&bench->check, is_done(bench), "%s: the client cannot connect", bench->text);
	bench->fd = accept(bench->listener, NULL, NULL);
	setsockopt(bench->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	CHECK(&bench->check, bench->fd >= 0 && exchange(bench), "%s: nothing comes back: %s",
	      bench->text, strerror(errno));
}

static void expect_place(struct bench *bench)
{
	CHECK(&bench->check, places_are(bench, 1) && mark_kind(bench) == PG_MARK_NONE,
	      "%s: it has no place, or a mark", bench->text);
}

static void expect_mark(struct bench *bench, const char *why)
{
	CHECK(&bench->check, mark_kind(bench) == PG_MARK_ACCEPTED, "%s, %s: it has no mark",
	      bench->text, why);
	CHECK(&bench->check, exchange(bench), "%s, %s: nothing comes back", bench->text, why);
}

static void expect_end(struct bench *bench, const char *why)
{
	CHECK(&bench->check, wait_for_places(bench, 0), "%s, %s: the place is still taken",
	      bench->text, why);
}

static void end_connection(struct bench *bench, const char *why)
{
	close(bench->fd);
	CHECK(&bench->check, have_done(bench, FINISH), "%s: ending it", bench->text);
	expect_end(bench, why);
}

static void try_ends(struct bench *bench, size_t row)
{
	open_connection(bench, row);
	expect_place(bench);
	end_connection(bench, "closed inside");

	open_connection(bench, row);
	CHECK(&bench->check, have_done(bench, FINISH), "%s: ending it", bench->text);
	close(bench->fd);
	expect_end(bench, "closed outside");

	open_connection(bench, row);
	CHECK(&bench->check, have_done(bench, RESET), "%s: resetting it", bench->text);
	expect_end(bench, "reset outside");
	close(bench->fd);

	open_connection(bench, row);
	setsockopt(bench->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
		   sizeof(struct linger));
	end_connection(bench, "reset inside");
}

/* The socket connects anew: nothing of the old connection counts. */
static void try_again(struct bench *bench, size_t row)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};
	const struct world_name other = world_name(row ? "fd09::2" : "10.9.0.2", PORT);
	size_t known;

	open_connection(bench, row);
	CHECK(&bench->check, !connect(bench->fd, &none, sizeof(none)), "%s: %s", bench->text,
	      strerror(errno));
	expect_end(bench, "disconnected");
	known = places_known(bench);
	CHECK(&bench->check,
	      connect(bench->fd, (const struct sockaddr *)&other.storage, other.size) &&
		      errno == EPERM,
	      "%s: it connects", bench->text);
	CHECK(&bench->check, places_known(bench) == known - 1, "%s: it is still known",
	      bench->text);
	close(bench->fd);
	CHECK(&bench->check, have_done(bench, FINISH), "%s: ending it", bench->text);
}

/* Why the last packet of the connection was let out, as its record says. */
static enum pg_reason remembered(const struct bench *bench)
{
	const int map = bpf_map__fd(bench->world.skeleton->maps.pg_sent_places);
	const struct pg_addr client =
		world_address(strchr(bench->text, '.') ? "::ffff:10.9.0.2" : "fd09::2");
	struct pg_sent_place place = {};
	struct sockaddr_in6 peer = {};
	socklen_t size = sizeof(peer);
	uint64_t cookie = 0;
	socklen_t cookie_size = sizeof(cookie);
	uint32_t index;

	/* The port is at the same offset in both forms. */
	if (getpeername(bench->fd, (struct sockaddr *)&peer, &size) ||
	    getsockopt(bench->fd, SOL_SOCKET, SO_COOKIE, &cookie, &cookie_size))
		return PG_REASON_NO_POLICY;
	index = pg_sent_index(bench->world.header.env_id, cookie, &client, peer.sin6_port);
	bpf_map_lookup_elem(map, &index, &place);
	return place.sent.socket == cookie && place.sent.remote_port == peer.sin6_port &&
			       place.sent.generation == (uint32_t)bench->world.generation
		       ? (enum pg_reason)place.sent.reason
		       : PG_REASON_NO_POLICY;
}

static void try_lasting(struct bench *bench, size_t row, enum pg_phase phase, enum pg_reason reason)
{
	world_switch(&bench->world, phase);
	open_connection(bench, row);
	expect_place(bench);
	for (int i = 0; i < SEGMENTS; i++)
		CHECK(&bench->check, exchange(bench), "%s: segment %d", bench->text, i);
	CHECK(&bench->check, remembered(bench) == reason, "%s, phase %u: not remembered",
	      bench->text, phase);
	world_switch(&bench->world, WORLD_ALLOWLIST);
	CHECK(&bench->check, exchange(bench) && remembered(bench) == PG_REASON_ACCEPTED,
	      "%s: after a switch", bench->text);
	world_switch(&bench->world, WORLD_NO_NETWORK);
	end_connection(bench, "at last");
}

static void set_places(const struct bench *bench, const struct pg_accepted *all)
{
	const int map = bpf_map__fd(bench->world.skeleton->maps.pg_accepted);

	for (__u32 i = 0; i < PG_ACCEPTED_MAX; i++)
		bpf_map_update_elem(map, &i, all, BPF_F_LOCK);
}

/* Without a place, a connection has as much right. */
static void try_taken(struct bench *bench, size_t row)
{
	const struct pg_accepted anothers = {.cookie = UINT64_MAX, .owner = 1}, none = {};

	set_places(bench, &anothers);
	open_connection(bench, row);
	expect_mark(bench, "others have all places");
	set_places(bench, &none);
	end_connection(bench, "others had all places");
}

/* What there is of the connection, changed. */
static void change_place(const struct bench *bench, __u16 owner, __be16 more_port)
{
	const int map = bpf_map__fd(bench->world.skeleton->maps.pg_accepted);
	struct pg_accepted place;

	for (__u32 i = 0; i < PG_ACCEPTED_MAX; i++) {
		if (bpf_map_lookup_elem(map, &i, &place) || !place.cookie ||
		    place.owner & PG_ACCEPTED_CLOSED)
			continue;
		place.owner ^= owner;
		place.remote_port ^= more_port;
		bpf_map_update_elem(map, &i, &place, BPF_F_LOCK);
	}
}

/* Control: the same connection goes on as soon as the place is as it was. */
static void try_anothers(struct bench *bench, size_t row, __u16 owner, __be16 port,
			 const char *whose)
{
	char octet = 'x';

	open_connection(bench, row);
	change_place(bench, owner, port);
	world_switch(&bench->world, WORLD_NO_NETWORK); /* what is remembered has ended */
	CHECK(&bench->check,
	      send(bench->fd, &octet, 1, MSG_NOSIGNAL) == 1 && have_done(bench, EXPECT_NOTHING),
	      "%s, %s: it passes", bench->text, whose);
	change_place(bench, owner, port);
	say(bench, ECHO, 0);
	CHECK(&bench->check, is_done(bench) && recv(bench->fd, &octet, 1, 0) == 1,
	      "%s, %s: it does not pass afterwards", bench->text, whose);
	end_connection(bench, whose);
}

/* Of a connection that it has not seen being opened, the guard of a veth lets no reset out, and the
 * socket may send that when it is closed already. */
static void try_later_guard(struct bench *bench, size_t row)
{
	const int tables = bpf_map__fd(bench->world.skeleton->maps.pg_link_tables);
	struct pg_link_table *table = calloc(1, sizeof(*table));
	const __u64 env_id = bench->world.header.env_id;

	open_connection(bench, row);
	expect_place(bench);
	CHECK(&bench->check, !bpf_map_update_elem(tables, &env_id, table, BPF_ANY), "a table: %s",
	      strerror(errno));
	CHECK(&bench->check, have_done(bench, RESET), "%s: resetting it", bench->text);
	expect_end(bench, "a guard comes");
	CHECK(&bench->check, mark_kind(bench) == PG_MARK_ACCEPTED, "%s: closed, it has no mark",
	      bench->text);
	close(bench->fd);

	open_connection(bench, row);
	CHECK(&bench->check, wait_for_places(bench, 0), "%s: a guard does not know of it",
	      bench->text);
	expect_mark(bench, "a guard does not know of it");
	bpf_map_delete_elem(tables, &env_id);
	end_connection(bench, "the guard is gone");
	free(table);
}

int main(void)
{
	struct bench bench = {};

	world_open(&bench.world);
	world_add_link(&bench.world);
	start_client(&bench);
	world_switch(&bench.world, WORLD_NO_NETWORK);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		listen_inside(&bench, i);
		try_ends(&bench, i);
		try_again(&bench, i);
		try_lasting(&bench, i, WORLD_NO_NETWORK, PG_REASON_ACCEPTED);
		try_lasting(&bench, i, WORLD_PUBLIC, PG_REASON_PUBLIC);
		try_taken(&bench, i);
		try_anothers(&bench, i, 1, 0, "another Environment's");
		try_anothers(&bench, i, 0, htons(1), "from another port");
		try_later_guard(&bench, i);
		close(bench.listener);
	}
	check_group(&bench.check, "accepted connections");
	kill(bench.client, SIGKILL);
	waitpid(bench.client, NULL, 0);
	world_close(&bench.world);
	return check_end(&bench.check);
}
