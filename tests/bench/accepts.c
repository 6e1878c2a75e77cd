/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server inside pays for a connection that comes in: one process outside connects, accepts
 * and closes, with a listening socket that belongs to a cgroup without a policy, to one with all
 * hooks but the one that marks accepted sockets, to one with all, and to an Environment.
 */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include "base/clock.h"
#include "kernel/attach.h"

#include "children.h"
#include "results.h"

#define TABLE	"accepts"
#define INSIDE	"192.0.2.2" /* the client's end of the veth pair, which scripts/bench makes */
#define PORT	(BENCH_PORT + 10)
#define BACKLOG 64

enum variant {
	NONE,
	UNMARKED,
	MARKED,
	WHOLE,
	VARIANTS,
};
static const char *const variant_names[VARIANTS] = {
	[NONE] = "no policy",
	[UNMARKED] = "public, all hooks but the mark's",
	[MARKED] = "public, all hooks",
	[WHOLE] = "an Environment, allowlist of 10",
};

struct accepting {
	const char *server; /* a network namespace */
	int listener;
	uint64_t length_ns, operations, cpu_ns;
};

/* Both ends are closed by RST, so that none waits. */
static void connect_and_accept(int listener, const struct sockaddr_in *to)
{
	const struct linger reset = {.l_onoff = 1};
	const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int accepted;

	if (client < 0 || connect(client, (const struct sockaddr *)to, sizeof(*to)) < 0)
		fail("connecting to a server inside: %s", strerror(errno));
	accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (accepted < 0)
		fail("accepting: %s", strerror(errno));
	setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(client);
	close(accepted);
}

static void accepting_body(void *userdata)
{
	struct accepting *accepting = userdata;
	const int outside = open(accepting->server, O_RDONLY | O_CLOEXEC);
	struct sockaddr_in to;
	socklen_t size = sizeof(to);
	uint64_t started, cpu;

	if (getsockname(accepting->listener, (struct sockaddr *)&to, &size) < 0 || outside < 0 ||
	    setns(outside, CLONE_NEWNET) < 0)
		fail("connecting from outside: %s", strerror(errno));
	for (size_t i = 0; i < BACKLOG; i++)
		connect_and_accept(accepting->listener, &to);
	started = pg_monotonic_ns();
	cpu = pg_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	while (pg_monotonic_ns() - started < accepting->length_ns) {
		connect_and_accept(accepting->listener, &to);
		accepting->operations++;
	}
	accepting->cpu_ns = pg_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
}

static int make_listener(void *userdata)
{
	const enum variant *variant = userdata;
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)(PORT + *variant)),
				       .sin_addr.s_addr = inet_addr(INSIDE)};
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		fail("listening inside: %s", strerror(errno));
	return fd;
}

/* A cgroup with programs that are judged by the header of an Environment. */
struct hooked {
	int cgroup;
	uint64_t id;
};

static struct hooked hooked_create(const struct machine *machine, const char *name,
				   const struct pg_environment *like, bool marks)
{
	const pg_hook_set unmarked = pg_hooks(false) & ~((pg_hook_set)1 << PG_HOOK_SOCK_OPS);
	struct hooked hooked = {.cgroup = child_cgroup_make(machine, name)};
	struct pg_kernel *kernel = pg_host_kernel(machine->host);
	struct pg_header header;
	struct pg_error err = {0};
	struct stat status;

	if (fstat(hooked.cgroup, &status) < 0)
		fail("the cgroup %s: %s", name, strerror(errno));
	hooked.id = status.st_ino; /* on a 64-bit kernel */
	if (pg_attach_all(kernel, hooked.cgroup, marks ? pg_hooks(false) : unmarked, &err) < 0)
		fail("%s", err.text);
	if (pg_header_read(kernel, pg_environment_id(like), &header, &err) < 0)
		fail("%s", err.text);
	header.cgroup_id = hooked.id;
	if (pg_header_write(kernel, &header, &err) < 0)
		fail("%s", err.text);
	return hooked;
}

static void hooked_destroy(const struct machine *machine, const char *name, struct hooked *hooked)
{
	struct pg_error err = {0};

	if (pg_header_clear(pg_host_kernel(machine->host), hooked->id, &err) < 0)
		fail("%s", err.text);
	if (pg_detach(hooked->cgroup, &err) < 0)
		fail("%s", err.text);
	pg_close_fd(&hooked->cgroup);
	child_cgroup_remove(machine, name);
}

static double accept_us(const struct machine *machine, struct accepting *accepting,
			unsigned int length_ms)
{
	accepting->length_ns = length_ms * PG_NSEC_PER_MSEC;
	accepting->operations = 0;
	child_finish(
		child_start(machine->plain_cgroup, get_nprocs() - 1, accepting_body, accepting));
	return (double)accepting->cpu_ns / PG_NSEC_PER_USEC / (double)accepting->operations;
}

static void put_added(const double *with, const double *without, const char *row,
		      const char *column, size_t rounds)
{
	double added[BENCH_ROUNDS];

	for (size_t i = 0; i < rounds; i++)
		added[i] = with[i] - without[i];
	results_cell(TABLE, row, column, "us", quartiles_of(added, rounds));
}

static void measure(const struct bench_options *options, const struct machine *machine,
		    const int listeners[VARIANTS])
{
	struct accepting *accepting = child_memory(sizeof(*accepting));
	double took[VARIANTS][BENCH_ROUNDS];

	accepting->server = options->server;
	for (size_t round = 0; round < options->rounds; round++)
		for (size_t turn = 0; turn < VARIANTS; turn++) {
			const size_t variant = (round + turn) % VARIANTS;

			accepting->listener = listeners[variant];
			took[variant][round] = accept_us(machine, accepting, options->slice_ms);
		}
	for (size_t i = 0; i < VARIANTS; i++) {
		double sorted[BENCH_ROUNDS];

		memcpy(sorted, took[i], sizeof(sorted));
		results_cell(TABLE, variant_names[i], "a connection", "us",
			     quartiles_of(sorted, options->rounds));
		if (i != NONE)
			put_added(took[i], took[NONE], variant_names[i], "over no policy",
				  options->rounds);
	}
	put_added(took[MARKED], took[UNMARKED], variant_names[MARKED], "of it the accept mark",
		  options->rounds);
	child_memory_free(accepting, sizeof(*accepting));
}

static void know_own_address(const struct machine *machine,
			     const struct pg_environment *environment)
{
	struct pg_addr own = {0};
	struct pg_error err = {0};

	own.word[2] = htonl(0xffff);
	own.word[3] = inet_addr(INSIDE);
	if (pg_own_add(pg_host_kernel(machine->host), pg_environment_id(environment), &own, 0,
		       &err) < 0)
		fail("%s", err.text);
}

void table_accepts(const struct bench_options *options, struct machine *machine)
{
	pg_autofree char *small = set_document(BENCH_SMALL);
	struct confined open = confined_create(machine->host, "{}"),
			whole = confined_create(machine->host, small);
	struct hooked unmarked = hooked_create(machine, "unmarked", open.environment, false),
		      marked = hooked_create(machine, "marked", open.environment, true);
	int cgroups[VARIANTS], listeners[VARIANTS];

	fprintf(stderr, "bench: a server inside\n");
	results_table(TABLE, "A server inside",
		      "A process outside connects to a server inside, accepts there and closes, on "
		      "one CPU; median and quartiles of rounds in turns, differences round by "
		      "round. The accept mark is what the hook costs that marks accepted sockets.");
	know_own_address(machine, whole.environment);
	cgroups[NONE] = machine->plain_cgroup;
	cgroups[UNMARKED] = unmarked.cgroup;
	cgroups[MARKED] = marked.cgroup;
	cgroups[WHOLE] = child_cgroup_of(machine, whole.environment);
	for (size_t i = 0; i < VARIANTS; i++) {
		enum variant variant = (enum variant)i;

		listeners[i] = child_socket(cgroups[i], make_listener, &variant);
	}
	measure(options, machine, listeners);
	for (size_t i = 0; i < VARIANTS; i++)
		pg_close_fd(&listeners[i]);
	pg_close_fd(&cgroups[WHOLE]);
	hooked_destroy(machine, "unmarked", &unmarked);
	hooked_destroy(machine, "marked", &marked);
	confined_destroy(&open);
	confined_destroy(&whole);
}
