/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a packet costs more where there are many Environments. One process sends from a socket of
 * one of them, or in turns from one of each; and the same from cgroups without a policy, since the
 * kernel itself has more to look at, too. All Environments have the same policy.
 */
#include "bench.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>

#include "base/clock.h"

#include "children.h"
#include "results.h"

#define TABLE	   "environments"
#define ROUNDS_MAX 9
#define TIME_EVERY 64

#define STEPS 3

struct crowd {
	const struct bench_options *options;
	const struct machine *machine;
	struct pg_policy *policy;
	struct pg_environment *environments[BENCH_ENVIRONMENTS];
	int inside[BENCH_ENVIRONMENTS], bare[BENCH_ENVIRONMENTS]; /* sockets */
	size_t count;
	double create_ms[BENCH_ENVIRONMENTS], destroy_ms[BENCH_ENVIRONMENTS];
};

struct sending {
	const int *sockets;
	size_t count;
	uint64_t length_ns, operations, cpu_ns;
};

static void send_until(struct sending *sending, uint64_t until_ns)
{
	static const char datagram[32];
	size_t next = 0;

	while (pg_monotonic_ns() < until_ns)
		for (size_t i = 0; i < TIME_EVERY; i++, sending->operations++) {
			if (send(sending->sockets[next], datagram, sizeof(datagram), 0) < 0)
				fail("a datagram of Environment %zu: %s", next, strerror(errno));
			next = next + 1 < sending->count ? next + 1 : 0;
		}
}

static void sending_body(void *userdata)
{
	struct sending *sending = userdata;
	uint64_t cpu;

	send_until(sending, pg_monotonic_ns() + sending->length_ns / 4);
	sending->operations = 0;
	cpu = pg_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	send_until(sending, pg_monotonic_ns() + sending->length_ns);
	sending->cpu_ns = pg_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
}

static double packet_ns(const struct crowd *crowd, struct sending *sending, const int *sockets,
			size_t count)
{
	sending->sockets = sockets;
	sending->count = count;
	sending->operations = 0;
	sending->length_ns = crowd->options->slice_ms * PG_NSEC_PER_MSEC;
	child_finish(
		child_start(crowd->machine->plain_cgroup, get_nprocs() - 1, sending_body, sending));
	return (double)sending->cpu_ns / (double)sending->operations;
}

static int make_socket(void *userdata)
{
	(void)userdata;
	return connected(SOCK_DGRAM, BENCH_TARGET4, BENCH_PORT);
}

static void name_of(size_t number, char name[static BENCH_NAME])
{
	snprintf(name, BENCH_NAME, "bare-%zu", number);
}

static void add_environment(struct crowd *crowd)
{
	const struct pg_environment_options options = {.policy = crowd->policy,
						       .phase = PG_PHASE_SETUP};
	struct pg_environment **environment = &crowd->environments[crowd->count];
	const uint64_t started = pg_monotonic_ns();
	pg_autoclose int cgroup = -1;
	struct pg_error err = {0};

	if (pg_environment_create(crowd->machine->host, &options, environment, &err) < 0)
		fail("Environment %zu: %s", crowd->count, err.text);
	crowd->create_ms[crowd->count] = (double)(pg_monotonic_ns() - started) / PG_NSEC_PER_MSEC;
	cgroup = child_cgroup_of(crowd->machine, *environment);
	crowd->inside[crowd->count] = child_socket(cgroup, make_socket, NULL);
}

static void add_bare(struct crowd *crowd)
{
	pg_autoclose int cgroup = -1;
	char name[BENCH_NAME];

	name_of(crowd->count, name);
	cgroup = child_cgroup_make(crowd->machine, name);
	crowd->bare[crowd->count] = child_socket(cgroup, make_socket, NULL);
}

static void remove_last(struct crowd *crowd)
{
	struct confined confined = {.environment = crowd->environments[--crowd->count]};
	char name[BENCH_NAME];
	uint64_t started;

	pg_close_fd(&crowd->inside[crowd->count]);
	pg_close_fd(&crowd->bare[crowd->count]);
	name_of(crowd->count, name);
	child_cgroup_remove(crowd->machine, name);
	started = pg_monotonic_ns();
	confined_destroy(&confined);
	crowd->destroy_ms[crowd->count] = (double)(pg_monotonic_ns() - started) / PG_NSEC_PER_MSEC;
}

/* CPU time of a packet, round by round. */
struct rounds {
	size_t count;
	double one[ROUNDS_MAX], all[ROUNDS_MAX];
	double bare_one[ROUNDS_MAX], bare_all[ROUNDS_MAX];
};

static void measure(const struct crowd *crowd, struct sending *sending, struct rounds *rounds)
{
	rounds->count = crowd->options->rounds < ROUNDS_MAX ? crowd->options->rounds : ROUNDS_MAX;
	for (size_t i = 0; i < rounds->count; i++) {
		rounds->bare_one[i] = packet_ns(crowd, sending, crowd->bare, 1);
		rounds->one[i] = packet_ns(crowd, sending, crowd->inside, 1);
		rounds->bare_all[i] = packet_ns(crowd, sending, crowd->bare, crowd->count);
		rounds->all[i] = packet_ns(crowd, sending, crowd->inside, crowd->count);
	}
}

static struct quartiles sorted_quartiles(const double *values, size_t count)
{
	double sorted[ROUNDS_MAX];

	memcpy(sorted, values, count * sizeof(*values));
	return quartiles_of(sorted, count);
}

/* first: what there was with one Environment. */
static void put_row(const struct rounds *rounds, const struct rounds *first, const char *row)
{
	double cost[ROUNDS_MAX], growth_one[ROUNDS_MAX], growth_all[ROUNDS_MAX];
	double alone;

	for (size_t i = 0; i < rounds->count; i++)
		cost[i] = first->one[i] / first->bare_one[i];
	alone = quartiles_of(cost, rounds->count).median;
	for (size_t i = 0; i < rounds->count; i++) {
		growth_one[i] = rounds->one[i] / rounds->bare_one[i] / alone;
		growth_all[i] = rounds->all[i] / rounds->bare_all[i] / alone;
	}
	results_cell(TABLE, row, "bare cgroups, one sends", "ns",
		     sorted_quartiles(rounds->bare_one, rounds->count));
	results_cell(TABLE, row, "one sends", "ns", sorted_quartiles(rounds->one, rounds->count));
	results_cell(TABLE, row, "bare cgroups, all send", "ns",
		     sorted_quartiles(rounds->bare_all, rounds->count));
	results_cell(TABLE, row, "all send", "ns", sorted_quartiles(rounds->all, rounds->count));
	results_cell(TABLE, row, "growth over the bare kernel's, one sends", "ratio",
		     quartiles_of(growth_one, rounds->count));
	results_cell(TABLE, row, "growth over the bare kernel's, all send", "ratio",
		     quartiles_of(growth_all, rounds->count));
}

static void put_times(const char *row, double *values, size_t count)
{
	const struct quartiles quartiles = quartiles_of(values, count);

	results_cell("lifecycle", row, "median", "ms", quartiles);
	results_value("lifecycle", row, "p99", "ms", percentile_of(values, count, 0.99));
	results_value("lifecycle", row, "worst", "ms", values[count - 1]);
}

static void put_lifecycle(struct crowd *crowd, size_t count)
{
	char row[64];

	results_table("lifecycle", "Making and ending Environments",
		      "With a policy of ten entries, one after the other; the first one's set is "
		      "shared by the others.");
	results_value("lifecycle", "create, the first", "median", "ms", crowd->create_ms[0]);
	if (count > 1) {
		snprintf(row, sizeof(row), "create, %zu others", count - 1);
		put_times(row, crowd->create_ms + 1, count - 1);
	}
	snprintf(row, sizeof(row), "destroy, all %zu", count);
	put_times(row, crowd->destroy_ms, count);
}

static void fill_to(struct crowd *crowd, size_t count)
{
	fprintf(stderr, "bench: %zu Environments\n", count);
	for (; crowd->count < count; crowd->count++) {
		add_environment(crowd);
		add_bare(crowd);
	}
}

void table_environments(const struct bench_options *options, struct machine *machine)
{
	const size_t steps[STEPS] = {1, 128, options->environments};
	struct rounds rounds[STEPS];
	pg_autofree char *document = set_document(BENCH_SMALL);
	pg_autofree struct crowd *crowd = calloc(1, sizeof(*crowd));
	struct sending *sending = child_memory(sizeof(*sending));
	uint64_t ignored;
	size_t made;

	if (!crowd)
		fail("not enough memory for the results");
	crowd->options = options;
	crowd->machine = machine;
	crowd->policy = bench_parse(document, &ignored);
	results_table(TABLE, "Many Environments",
		      "CPU time of a small UDP packet, from one of so many Environments and from "
		      "all of them in turns; beside it the same of cgroups without a policy. The "
		      "growth is that of the ratio between the two since there was one of each.");
	for (size_t i = 0; i < STEPS && (!i || steps[i] > crowd->count); i++) {
		const size_t count =
			steps[i] < options->environments ? steps[i] : options->environments;
		char row[64];

		fill_to(crowd, count);
		measure(crowd, sending, &rounds[i]);
		snprintf(row, sizeof(row), "%zu Environment%s", count, count > 1 ? "s" : "");
		put_row(&rounds[i], &rounds[0], row);
	}
	made = crowd->count;
	while (crowd->count)
		remove_last(crowd);
	put_lifecycle(crowd, made);
	pg_policy_free(crowd->policy);
	child_memory_free(sending, sizeof(*sending));
}
