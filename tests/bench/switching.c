/* SPDX-License-Identifier: Apache-2.0 */
/* How long the one write of a switch between two allowlists takes. */
#include "bench.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"

static double switch_us(struct pg_environment *environment, unsigned int number)
{
	const enum pg_phase phase = number % 2 ? PG_PHASE_SETUP : PG_PHASE_RUN;
	struct pg_error err = {0};
	struct pg_switch done;

	if (pg_environment_switch(environment, phase, &done, &err) < 0)
		fail("%s", err.text);
	if (!done.changed)
		fail("a switch changed nothing");
	return (double)done.took_ns / PG_NSEC_PER_USEC;
}

/* The load runs for as long as it takes, and is killed then. */
static pid_t start_load(const struct machine *machine, struct pg_environment *environment)
{
	const struct site site = {.host = machine->host, .environment = environment};
	const struct timespec begun = {.tv_nsec = 100 * PG_NSEC_PER_MSEC};
	const pid_t pid = worker_start(&site, workload_udp(), 1000 * 1000);

	nanosleep(&begun, NULL);
	if (waitpid(pid, NULL, WNOHANG))
		fail("the load ended by itself");
	return pid;
}

static void print_row(FILE *out, const struct bench_options *options, const struct machine *machine,
		      const struct confined *confined, size_t count, bool loaded)
{
	pg_autofree double *took = calloc(options->switches, sizeof(*took));
	pid_t load = 0;

	if (!took)
		fail("not enough memory for the results");
	if (loaded)
		load = start_load(machine, confined->environment);
	for (unsigned int i = 0; i < options->switches; i++)
		took[i] = switch_us(confined->environment, i);
	if (options->switches % 2)
		switch_us(confined->environment, options->switches);
	if (loaded) {
		/* What the phases allow both must have passed all the time. */
		if (waitpid(load, NULL, WNOHANG))
			fail("a switch between two sets that allow the load ended it");
		kill(load, SIGKILL);
		waitpid(load, NULL, 0);
	}
	fprintf(out, "| %zu entries, %s | %.2f |", count, loaded ? "under UDP load" : "idle",
		quartiles_of(took, options->switches).median);
	fprintf(out, " %.2f | %.2f |\n", percentile_of(took, options->switches, 0.99),
		took[options->switches - 1]);
}

void table_switches(FILE *out, const struct bench_options *options, struct machine *machine,
		    struct confined confined[2])
{
	const size_t counts[] = {BENCH_SMALL, options->entries};

	fprintf(stderr, "bench: switches\n");
	fprintf(out,
		"## Switch\n\nThe write that puts a phase in force, %u times between two"
		" allowlists (to %d entries and back), in microseconds.\n\n| policy | median | p99 "
		"|"
		" worst |\n|---|---|---|---|\n",
		options->switches, BENCH_SMALL);
	for (size_t i = 0; i < PG_ARRAY_SIZE(counts); i++) {
		print_row(out, options, machine, &confined[i], counts[i], false);
		print_row(out, options, machine, &confined[i], counts[i], true);
	}
	fputc('\n', out);
}
