/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the resolver in the path costs: this process is the supervisor, as "phasegate run" is, and
 * works while a client asks. Every kind of query takes its turn in every round.
 */
#include "names.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"

/* A round of names is shorter than one of the other work: there are more kinds of it. */
#define SLICE_PART     4
#define SLICE_LEAST_MS 20 /* so that something is done on a busy machine */

static unsigned int slice_ms(const struct bench_options *options)
{
	const unsigned int part = (options->slice_ms + SLICE_PART - 1) / SLICE_PART;

	return part > SLICE_LEAST_MS ? part : SLICE_LEAST_MS;
}

/* In microseconds. */
struct lookups {
	double median[BENCH_ROUNDS], p99[BENCH_ROUNDS];
};

struct floods {
	double rate[BENCH_ROUNDS], cpu_us[BENCH_ROUNDS];
};

struct names {
	struct lookups lookups[NAMES_LOOKUPS];
	struct floods floods[NAMES_FLOODS];
	uint64_t connects[NAMES_CONNECTS], denied[NAMES_CONNECTS];
};

static struct names_result *result;
static char result_path[64];

static void share(void)
{
	result = shared_create(sizeof(*result));
	snprintf(result_path, sizeof(result_path), "%s", shared_path());
	result->next = NAMES_CACHED + 1;
}

/* Each has room for 65,536 addresses. */
#define WILDCARDS 16

static char *document(void)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		fail("not enough memory for a policy");
	fprintf(out, "{\"network_policy\":{\"network_mode\":\"allowlist\",\"allowed_hosts\":["
		     "\"*." NAMES_ALLOWED "." NAMES_PARENT "\"");
	for (size_t i = 1; i < WILDCARDS; i++)
		fprintf(out, ",\"*.more-%zu.%s\"", i, NAMES_PARENT);
	fputs("]}}", out);
	if (fclose(out))
		fail("not enough memory for a policy");
	return text;
}

/* Neither the budget nor the room for addresses is to end the work. */
static struct confined create(const struct machine *machine)
{
	pg_autofree char *text = document();
	struct pg_environment_options options = {
		.phase = PG_PHASE_SETUP,
		.resolver_count = 1,
		.dns = PG_DNS_SETTINGS_DEFAULT,
	};
	struct confined made = {0};
	struct pg_endpoint server;
	struct pg_error err = {0};
	uint64_t ignored;

	if (pg_endpoint_parse(NAMES_SERVER, NAMES_PORT, &server) < 0)
		fail("not an address: %s", NAMES_SERVER);
	made.policy = bench_parse(text, &ignored);
	options.policy = made.policy;
	options.resolvers = &server;
	options.dns.wildcard_per_minute = NAMES_MAX;
	if (pg_environment_create(machine->host, &options, &made.environment, &err) < 0)
		fail("%s", err.text);
	return made;
}

/* Serves until the client has ended. Returns the CPU time that it took. */
static uint64_t supervise(struct pg_host *host, pid_t client)
{
	const uint64_t started = pg_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	pg_autoclose int client_fd = (int)syscall(SYS_pidfd_open, client, 0);
	struct pollfd ready[] = {
		{.fd = pg_host_fd(host), .events = POLLIN},
		{.fd = client_fd, .events = POLLIN},
	};
	struct pg_error err = {0};

	if (client_fd < 0)
		fail("pidfd_open: %s", strerror(errno));
	while (!ready[1].revents) {
		if (poll(ready, PG_ARRAY_SIZE(ready), -1) < 0 && errno != EINTR)
			fail("poll: %s", strerror(errno));
		if (ready[0].revents && pg_host_process(host, &err) < 0)
			fail("%s", err.text);
	}
	return pg_clock_ns(CLOCK_THREAD_CPUTIME_ID) - started;
}

/* Runs the work; the result is in the shared memory. Returns the supervisor's CPU time for each
 * query. */
static double run(const struct names_work *work, enum names_group group, size_t number,
		  const struct bench_options *options, const struct machine *machine,
		  const struct confined *confined)
{
	const struct site site = {
		.host = machine->host,
		.plain_cgroup = machine->plain_cgroup,
		.environment = work->confined ? confined->environment : NULL,
	};
	const uint64_t queries = pg_environment_dns_stats(confined->environment).queries;
	char self[] = "/proc/self/exe", role[] = "names", group_text[24], index[24], length[24];
	char *const argv[] = {self, role, result_path, group_text, index, length, NULL};
	uint64_t cpu_ns;
	pid_t pid;
	int status;

	snprintf(group_text, sizeof(group_text), "%u", group);
	snprintf(index, sizeof(index), "%zu", number);
	snprintf(length, sizeof(length), "%u", slice_ms(options));
	result->samples = result->operations = result->denied = 0;
	result->done = false;
	pid = site_spawn(&site, argv);
	cpu_ns = supervise(machine->host, pid);
	if (waitpid(pid, &status, 0) < 0 || status || !result->done || !result->operations)
		fail("asking for names failed: %s", work->name);
	return (double)cpu_ns / PG_NSEC_PER_USEC /
	       (double)(pg_environment_dns_stats(confined->environment).queries - queries);
}

static void run_round(struct names *names, size_t round, const struct bench_options *options,
		      const struct machine *machine, const struct confined *confined)
{
	for (size_t turn = 0; turn < NAMES_LOOKUPS; turn++) {
		const size_t number = (round + turn) % NAMES_LOOKUPS;
		struct lookups *lookups = &names->lookups[number];

		run(&names_lookups[number], NAMES_GROUP_LOOKUPS, number, options, machine,
		    confined);
		lookups->median[round] = quartiles_of(result->took_us, result->samples).median;
		lookups->p99[round] = percentile_of(result->took_us, result->samples, 0.99);
	}
	for (size_t turn = 0; turn < NAMES_FLOODS; turn++) {
		const size_t number = (round + turn) % NAMES_FLOODS;
		struct floods *floods = &names->floods[number];

		floods->cpu_us[round] = run(&names_floods[number], NAMES_GROUP_FLOODS, number,
					    options, machine, confined);
		floods->rate[round] = (double)result->operations * PG_NSEC_PER_SEC /
				      (double)result->took_ns / 1e3;
	}
	for (size_t number = 0; number < NAMES_CONNECTS; number++) {
		run(&names_connects[number], NAMES_GROUP_CONNECTS, number, options, machine,
		    confined);
		names->connects[number] += result->operations;
		names->denied[number] += result->denied;
	}
}

static void put_added(const char *row, const char *column, const double *with,
		      const double *without, size_t count)
{
	double added[BENCH_ROUNDS];

	for (size_t i = 0; i < count; i++)
		added[i] = with[i] - without[i];
	results_cell("names", row, column, "us", quartiles_of(added, count));
}

static double median_of(const double *values, size_t count)
{
	double sorted[BENCH_ROUNDS];

	memcpy(sorted, values, count * sizeof(*values));
	return quartiles_of(sorted, count).median;
}

static void put_lookups(const struct names *names, const struct bench_options *options)
{
	char text[512];

	snprintf(
		text, sizeof(text),
		"Of %u rounds of %u ms, in turns. The policy is %d wildcards. One lookup after"
		" another: medians of the rounds' medians and p99. \"Added\" is the difference from"
		" the same server asked directly over the same protocol, round by round.",
		options->rounds, slice_ms(options), WILDCARDS);
	results_table("names", "Names: one lookup after another", text);
	for (size_t i = 0; i < NAMES_LOOKUPS; i++) {
		const char *name = names_lookups[i].name;
		const struct lookups *of = &names->lookups[i];
		const struct lookups *direct = &names->lookups[names_direct(i)];

		results_value("names", name, "median", "us",
			      median_of(of->median, options->rounds));
		results_value("names", name, "p99", "us", median_of(of->p99, options->rounds));
		if (of == direct)
			continue;
		put_added(name, "added to the median", of->median, direct->median, options->rounds);
		put_added(name, "added to the p99", of->p99, direct->p99, options->rounds);
	}
}

static void put_floods(struct names *names, const struct bench_options *options)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "Queries over UDP with %d under way at all times, by the clock, and by the"
		 " supervisor's CPU time: what one core of its own would answer. By the clock the"
		 " client and the server need their share of the machine, too.",
		 NAMES_WINDOW);
	results_table("names-queries", "Names: as many as possible", text);
	for (size_t i = 0; i < NAMES_FLOODS; i++) {
		const char *name = names_floods[i].name;
		struct floods *of = &names->floods[i];
		struct quartiles cpu;

		results_cell("names-queries", name, "by the clock", "1,000/s",
			     quartiles_of(of->rate, options->rounds));
		if (!names_floods[i].confined)
			continue;
		cpu = quartiles_of(of->cpu_us, options->rounds);
		results_cell("names-queries", name, "supervisor, a query", "us", cpu);
		results_value("names-queries", name, "of a core", "1,000/s", 1e3 / cpu.median);
	}
}

static void put_connects(const struct names *names)
{
	results_table("names-connects", "Names: connecting at once",
		      "Connecting to a fresh name's address the moment that it is known.");
	for (size_t i = 0; i < NAMES_CONNECTS; i++) {
		results_value("names-connects", names_connects[i].name, "connects", "",
			      (double)names->connects[i]);
		results_value("names-connects", names_connects[i].name, "denied", "",
			      (double)names->denied[i]);
	}
}

void table_names(const struct bench_options *options, struct machine *machine)
{
	pg_autofree struct names *names = calloc(1, sizeof(*names));
	struct confined confined = create(machine);

	if (!names)
		fail("not enough memory for the results");
	share();
	for (size_t round = 0; round < options->rounds; round++)
		run_round(names, round, options, machine, &confined);
	put_lookups(names, options);
	put_floods(names, options);
	put_connects(names);
	confined_destroy(&confined);
}
