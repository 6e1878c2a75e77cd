/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a switch between two allowlists takes: the one write that puts a phase in force, and the
 * whole call of the library that a harness makes; and whether any packet that was sent after the
 * return was judged by the phase before.
 */
#include "switching.h"

#include <string.h>

#include "base/clock.h"

#include "children.h"
#include "results.h"

/* Between two switches under load, at most: the packets in between are the witness. */
#define GAP_US 200

struct run {
	size_t count;
	double *store_us, *whole_us;
	struct change *changes;
};

static void switch_once(struct pg_environment *environment, struct run *run, size_t number)
{
	const enum pg_phase phase = number % 2 ? PG_PHASE_SETUP : PG_PHASE_RUN;
	struct change *change = &run->changes[number];
	struct pg_error err = {0};
	struct pg_switch done;
	uint64_t started;

	change->allowed = phase == PG_PHASE_SETUP;
	change->began_ns = wall_ns();
	started = pg_monotonic_ns();
	if (pg_environment_switch(environment, phase, &done, &err) < 0)
		fail("%s", err.text);
	run->whole_us[number] = (double)(pg_monotonic_ns() - started) / PG_NSEC_PER_USEC;
	change->returned_ns = wall_ns();
	run->store_us[number] = (double)done.took_ns / PG_NSEC_PER_USEC;
	if (!done.changed)
		fail("a switch changed nothing");
}

void switching_put(const char *row, const char *what, double *took_us, size_t count)
{
	const struct quartiles quartiles = quartiles_of(took_us, count);
	char column[64];

	snprintf(column, sizeof(column), "%s, median", what);
	results_cell(SWITCHING_TABLE, row, column, "us", quartiles);
	snprintf(column, sizeof(column), "%s, p99", what);
	results_value(SWITCHING_TABLE, row, column, "us", percentile_of(took_us, count, 0.99));
	snprintf(column, sizeof(column), "%s, worst", what);
	results_value(SWITCHING_TABLE, row, column, "us", took_us[count - 1]);
}

static void put_judgement(const char *row, const struct judgement *judgement)
{
	results_value(SWITCHING_TABLE, row, "packets to what is switched", "packets",
		      (double)judgement->arrived);
	results_value(SWITCHING_TABLE, row, "sent after the return, judged by the old phase",
		      "packets", (double)judgement->wrong);
	results_value(SWITCHING_TABLE, row, "not seen for lack of room", "packets",
		      (double)judgement->lost);
	if (judgement->wrong)
		fail("%zu packets that were sent after a switch were judged by the old phase",
		     judgement->wrong);
}

static void put_row(const struct bench_options *options, const struct machine *machine,
		    struct pg_environment *environment, struct run *run, size_t entries,
		    bool loaded)
{
	pg_autoclose int cgroup = child_cgroup_of(machine, environment);
	struct flooding *flooding = loaded ? flooding_start(options, cgroup, true) : NULL;
	char row[96];

	snprintf(row, sizeof(row), "Phasegate, %zu entries, %s", entries,
		 loaded ? "UDP flood" : "idle");
	for (size_t i = 0; i < run->count; i++) {
		const struct timespec gap = {.tv_nsec = random() % GAP_US * 1000};

		if (loaded)
			nanosleep(&gap, NULL);
		switch_once(environment, run, i);
	}
	if (loaded) {
		const struct judgement judgement = flooding_end(flooding, run->changes, run->count);

		put_judgement(row, &judgement);
	}
	switching_put(row, "store", run->store_us, run->count);
	switching_put(row, "whole call", run->whole_us, run->count);
}

/* In setup the entries with the witness, in the run ten others. */
static char *switching_document(size_t entries)
{
	char **list = calloc(entries, sizeof(*list));
	char *setup, *whole, *end;

	if (!list)
		fail("not enough memory for a policy");
	for (size_t i = 0; i + 1 < entries; i++) {
		char text[BENCH_NAME];

		if (i)
			set_entry(i, text);
		else
			snprintf(text, sizeof(text), "%s", SWITCHING_WITNESS);
		list[i] = strdup(text);
		if (!list[i])
			fail("not enough memory for a policy");
	}
	/* It begins with the target, and ends as a whole document. */
	setup = set_document_of(list, entries - 1);
	end = strrchr(setup, '}');
	if (!end)
		fail("a policy without an end");
	*end = '\0';
	if (asprintf(&whole,
		     "%s,\"run_network_policy\":{\"network_mode\":\"allowlist\",\"allowed_hosts\":["
		     "\"%s\",\"192.0.2.77\",\"192.0.2.78\",\"203.0.113.0/25\",\"203.0.113.128/26\","
		     "\"203.0.113.200\",\"2001:db8:77::/48\",\"2001:db8:78::1\",\"2001:db8:79::2\","
		     "\"2001:db8:7a::/64\"]}}",
		     setup, BENCH_TARGET4) < 0)
		fail("not enough memory for a policy");
	for (size_t i = 0; i + 1 < entries; i++)
		free(list[i]);
	free(list);
	free(setup);
	return whole;
}

void table_switches(const struct bench_options *options, struct machine *machine)
{
	const size_t counts[] = {BENCH_SMALL, options->entries};
	/* An even number ends in the phase that it began with. */
	struct run run = {.count = options->switches + options->switches % 2};

	run.store_us = calloc(run.count, sizeof(*run.store_us));
	run.whole_us = calloc(run.count, sizeof(*run.whole_us));
	run.changes = calloc(run.count, sizeof(*run.changes));
	if (!run.store_us || !run.whole_us || !run.changes)
		fail("not enough memory for the results");
	results_table(
		SWITCHING_TABLE, "Switch",
		"Between an allowlist of so many entries and one of ten, idle and while one "
		"CPU does nothing but send UDP to both. The store puts the phase in force; the "
		"whole call is the library's, or a harness's to the agent: there with the "
		"closing of connections and the answer. A packet counts as judged "
		"by the old phase if the switch that forbids it had returned before it was "
		"sent and it arrived before the next switch began. The others are run as "
		"their users run them, program and all, in between sets that both allow the "
		"load.");
	for (size_t i = 0; i < PG_ARRAY_SIZE(counts); i++) {
		pg_autofree char *document = switching_document(counts[i]);
		struct confined confined = confined_create(machine->host, document);

		fprintf(stderr, "bench: switches, %zu entries\n", counts[i]);
		put_row(options, machine, confined.environment, &run, counts[i], false);
		put_row(options, machine, confined.environment, &run, counts[i], true);
		confined_destroy(&confined);
		if (!i)
			switching_agent(options, machine, document);
	}
	switching_contenders(options, machine);
	free(run.store_us);
	free(run.whole_us);
	free(run.changes);
}
