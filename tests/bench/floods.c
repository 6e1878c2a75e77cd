/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many attempts a second are denied, with events on: one process on each CPU does nothing but
 * try. Each denial is either reported or counted as not reported; that the sums agree is checked.
 */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>

#include "base/clock.h"

#include "children.h"
#include "results.h"

#define TABLE	   "denials"
#define DENIED	   0xc63364c8U /* 198.51.100.200, in no set */
#define SPREAD	   4096	       /* destinations of the flood that has many, of 198.18.0.0/15 */
#define SPREAD_AT  0xc6120000U
#define CPUS_MAX   64
#define TIME_EVERY 64
#define ROUNDS_MAX 5

static void try_connect(int fd, const struct sockaddr_in *to)
{
	if (!connect(fd, (const struct sockaddr *)to, sizeof(*to)) || errno != EPERM)
		fail("a connect that the policy denies: %s", strerror(errno));
}

static void try_send(int fd, const struct sockaddr_in *to)
{
	if (sendto(fd, "", 1, 0, (const struct sockaddr *)to, sizeof(*to)) >= 0 || errno != EPERM)
		fail("a datagram that the policy denies: %s", strerror(errno));
}

struct attempt {
	const char *name;
	int type;
	uint32_t spread;
	void (*once)(int fd, const struct sockaddr_in *to);
};
static const struct attempt attempts[] = {
	{"TCP connect()", SOCK_STREAM, 1, try_connect},
	{"TCP connect(), 4,096 destinations", SOCK_STREAM, SPREAD, try_connect},
	{"UDP connect()", SOCK_DGRAM, 1, try_connect},
	{"UDP sendto()", SOCK_DGRAM, 1, try_send},
};

/* What the children share. */
struct flood {
	const struct attempt *attempt;
	uint64_t length_ns;
	atomic_uint waiting; /* for all to be there */
	atomic_uint next;
	struct {
		_Alignas(128) uint64_t operations, took_ns, cpu_ns;
	} done[CPUS_MAX];
};

static uint64_t attempt_until(const struct attempt *attempt, int fd, uint64_t until_ns)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(BENCH_PORT)};
	uint64_t operations = 0;

	to.sin_addr.s_addr = htonl(DENIED);
	while (pg_monotonic_ns() < until_ns)
		for (size_t i = 0; i < TIME_EVERY; i++, operations++) {
			if (attempt->spread > 1)
				to.sin_addr.s_addr =
					htonl(SPREAD_AT + (uint32_t)(operations % attempt->spread));
			attempt->once(fd, &to);
		}
	return operations;
}

static void flood_body(void *userdata)
{
	struct flood *flood = userdata;
	const unsigned int number = atomic_fetch_add(&flood->next, 1);
	const int fd = socket(AF_INET, flood->attempt->type | SOCK_CLOEXEC, 0);
	uint64_t started, cpu;

	if (fd < 0)
		fail("a socket: %s", strerror(errno));
	atomic_fetch_sub(&flood->waiting, 1);
	while (atomic_load(&flood->waiting))
		;
	started = pg_monotonic_ns();
	cpu = pg_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	flood->done[number].operations =
		attempt_until(flood->attempt, fd, started + flood->length_ns);
	flood->done[number].cpu_ns = pg_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	flood->done[number].took_ns = pg_monotonic_ns() - started;
}

struct flooded {
	struct pg_host *host;
	struct pg_policy *policy;
	struct pg_environment *environment;
	uint64_t reported;
	int cgroup;
};
static struct flooded *current;

static void count_denied(void *userdata, struct pg_environment *environment,
			 const struct pg_event *event)
{
	(void)userdata;
	(void)event;
	if (current && environment == current->environment)
		current->reported++;
}

static void process(struct pg_host *host, int wait_ms)
{
	struct pollfd pending = {.fd = pg_host_fd(host), .events = POLLIN};
	struct pg_error err = {0};

	if (poll(&pending, 1, wait_ms) > 0 && pg_host_process(host, &err) < 0)
		fail("%s", err.text);
}

static uint64_t denied_in(const struct pg_counters *counters)
{
	return counters->verdict[PG_COUNT_CONNECT][PG_DENY] +
	       counters->verdict[PG_COUNT_SENDMSG][PG_DENY];
}

static struct pg_counters counters_of(const struct flooded *flooded)
{
	struct pg_counters counters;
	struct pg_error err = {0};

	if (pg_environment_counters(flooded->environment, &counters, &err) < 0)
		fail("%s", err.text);
	return counters;
}

/* Every attempt was denied and counted, and reported or counted as not reported. */
static void check(const struct flooded *flooded, const struct pg_counters *before,
		  uint64_t reported_before, uint64_t operations)
{
	const struct pg_counters after = counters_of(flooded);
	const uint64_t denied = denied_in(&after) - denied_in(before),
		       reported = flooded->reported - reported_before,
		       unreported = after.events_lost - before->events_lost +
				    after.events_suppressed - before->events_suppressed;

	if (denied != operations || reported + unreported != denied)
		fail("of %llu denied attempts %llu were counted; %llu reported, %llu not",
		     (unsigned long long)operations, (unsigned long long)denied,
		     (unsigned long long)reported, (unsigned long long)unreported);
}

struct flooding {
	double rate, cpu_ns; /* of all children together: attempts a second, time of each */
};

static struct flooding flood_once(struct flooded *flooded, struct flood *flood,
				  const struct attempt *attempt, int cpus, unsigned int length_ms)
{
	uint64_t operations = 0, cpu_ns = 0, reported;
	struct flooding flooding = {0};
	struct pg_counters before;
	pid_t pids[CPUS_MAX];

	process(flooded->host, 0); /* what came before */
	before = counters_of(flooded);
	reported = flooded->reported;
	memset(flood, 0, sizeof(*flood));
	flood->attempt = attempt;
	flood->length_ns = length_ms * PG_NSEC_PER_MSEC;
	flood->waiting = (unsigned int)cpus;
	for (int i = 0; i < cpus; i++)
		pids[i] = child_start(flooded->cgroup, i, flood_body, flood);
	for (const uint64_t until = pg_monotonic_ns() + flood->length_ns;
	     pg_monotonic_ns() < until;)
		process(flooded->host, 10);
	for (int i = 0; i < cpus; i++)
		child_finish(pids[i]);
	process(flooded->host, 0);
	for (int i = 0; i < cpus; i++) {
		operations += flood->done[i].operations;
		cpu_ns += flood->done[i].cpu_ns;
		flooding.rate += (double)flood->done[i].operations * PG_NSEC_PER_SEC /
				 (double)flood->done[i].took_ns;
	}
	check(flooded, &before, reported, operations);
	flooding.cpu_ns = (double)cpu_ns / (double)operations;
	return flooding;
}

static void put_row(const struct bench_options *options, struct flooded *flooded,
		    struct flood *flood, const struct attempt *attempt, const char *row, int cpus)
{
	const size_t rounds = options->rounds < ROUNDS_MAX ? options->rounds : ROUNDS_MAX;
	double rates[ROUNDS_MAX], each[ROUNDS_MAX];
	const char *plural = cpus > 1 ? "s" : "";
	char column[64];

	for (size_t i = 0; i < rounds; i++) {
		const struct flooding flooding =
			flood_once(flooded, flood, attempt, cpus, options->slice_ms);

		rates[i] = flooding.rate / 1000;
		each[i] = flooding.cpu_ns;
	}
	snprintf(column, sizeof(column), "denied, %d CPU%s", cpus, plural);
	results_cell(TABLE, row, column, "1,000/s", quartiles_of(rates, rounds));
	snprintf(column, sizeof(column), "CPU time each, %d CPU%s", cpus, plural);
	results_cell(TABLE, row, column, "ns", quartiles_of(each, rounds));
}

static struct flooded flooded_create(struct pg_host *host, const struct machine *machine,
				     const char *document)
{
	struct pg_environment_options options = {.phase = PG_PHASE_SETUP, .report_denials = true};
	struct flooded flooded = {.host = host};
	struct pg_error err = {0};
	uint64_t ignored;

	options.policy = flooded.policy = bench_parse(document, &ignored);
	if (pg_environment_create(host, &options, &flooded.environment, &err) < 0)
		fail("%s", err.text);
	flooded.cgroup = child_cgroup_of(machine, flooded.environment);
	return flooded;
}

static void flooded_destroy(struct flooded *flooded)
{
	struct confined confined = {flooded->policy, flooded->environment};

	pg_close_fd(&flooded->cgroup);
	confined_destroy(&confined);
}

static void flood_all(const struct bench_options *options, struct machine *machine,
		      struct flood *flood, size_t entries)
{
	const int cpus = get_nprocs() < CPUS_MAX ? get_nprocs() : CPUS_MAX;
	pg_autofree char *document = set_document(entries);
	struct flooded flooded = flooded_create(machine->host, machine, document);

	current = &flooded;
	for (size_t i = 0; i < PG_ARRAY_SIZE(attempts); i++) {
		char row[128];

		snprintf(row, sizeof(row), "%s, %zu entries", attempts[i].name, entries);
		put_row(options, &flooded, flood, &attempts[i], row, 1);
		if (cpus > 1)
			put_row(options, &flooded, flood, &attempts[i], row, cpus);
	}
	current = NULL;
	flooded_destroy(&flooded);
}

void table_floods(const struct bench_options *options, struct machine *machine)
{
	const size_t entries[] = {BENCH_SMALL, options->entries};
	struct flood *flood = child_memory(sizeof(*flood));

	results_table(
		TABLE, "A flood of denied attempts",
		"A process on each of so many CPUs does nothing but try, on one socket, to "
		"reach what the policy denies, with events on. Of each Environment a thousand "
		"denials a second are reported and the others counted; that each attempt was "
		"denied, and either reported or counted, was checked.");
	machine->denied = count_denied;
	for (size_t i = 0; i < PG_ARRAY_SIZE(entries); i++) {
		fprintf(stderr, "bench: denied attempts, %zu entries\n", entries[i]);
		flood_all(options, machine, flood, entries[i]);
	}
	machine->denied = NULL;
	child_memory_free(flood, sizeof(*flood));
}
