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

static void print_row(const struct bench_options *options, const struct machine *machine,
		      const struct confined *confined, size_t count, bool loaded)
{
	pg_autofree double *took = calloc(options->switches, sizeof(*took));
	char name[48];
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
	snprintf(name, sizeof(name), "%zu entries, %s", count, loaded ? "under UDP load" : "idle");
	results_cell("switches", name, "median", "us", quartiles_of(took, options->switches));
	results_value("switches", name, "p99", "us", percentile_of(took, options->switches, 0.99));
	results_value("switches", name, "worst", "us", took[options->switches - 1]);
}

void table_switches(const struct bench_options *options, struct machine *machine)
{
	const size_t counts[] = {BENCH_SMALL, options->entries};
	char text[160];

	snprintf(text, sizeof(text),
		 "The write that puts a phase in force, %u times between two allowlists (to %d"
		 " entries and back).",
		 options->switches, BENCH_SMALL);
	results_table("switches", "Switch", text);
	for (size_t i = 0; i < PG_ARRAY_SIZE(counts); i++) {
		pg_autofree char *document = set_document(counts[i]);
		struct confined confined = confined_create(machine->host, document);

		print_row(options, machine, &confined, counts[i], false);
		print_row(options, machine, &confined, counts[i], true);
		confined_destroy(&confined);
	}
}
