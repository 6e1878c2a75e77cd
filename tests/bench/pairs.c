/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same work by all contenders, in turns: what else the machine does hits all alike. The one
 * without a policy works before and after every few of the others, which are in another order in
 * every round; a ratio is to the mean of its two neighbours in time.
 */
#include "contenders.h"

#include <string.h>

#define BETWEEN 3 /* contenders between two turns of the first */

struct figures {
	double rate[BENCH_ROUNDS], ratio[BENCH_ROUNDS], cpu_ns[BENCH_ROUNDS],
		added_ns[BENCH_ROUNDS];
};

struct run {
	const struct bench_options *options;
	const struct machine *machine;
	struct contender contenders[CONTENDERS_MAX];
	size_t count;
	struct figures (*figures)[CONTENDERS_MAX]; /* by workload */
};

static bool takes_part(const struct contender *contender, const struct workload *workload)
{
	return !contender->missing[0] && !(contender->proxy && workload->sockets);
}

static bool is_wanted(const struct run *run, const struct workload *workload)
{
	const char *work = run->options->work;

	return !work || !strncmp(workload->name, work, strlen(work));
}

/* Those that take part, but for the first, in an order that is the same in every run. */
static size_t draw_order(const struct run *run, size_t workload, size_t round,
			 size_t order[static CONTENDERS_MAX])
{
	uint32_t random = (uint32_t)(round * workload_count + workload + 1) * 2654435761U;
	size_t count = 0;

	for (size_t i = 1; i < run->count; i++)
		if (takes_part(&run->contenders[i], &workloads[workload]))
			order[count++] = i;
	for (size_t i = count; i > 1; i--) {
		const size_t other = (random = random * 1664525 + 1013904223) / 65536 % i;
		const size_t kept = order[i - 1];

		order[i - 1] = order[other];
		order[other] = kept;
	}
	return count;
}

static struct measurement measure(const struct run *run, size_t contender, size_t workload)
{
	const struct site *site = &run->contenders[contender].site;

	return worker_finish(site, worker_start(site, workload, run->options->slice_ms));
}

static struct measurement mean(struct measurement a, struct measurement b)
{
	return (struct measurement){(a.rate + b.rate) / 2, (a.cpu_ns + b.cpu_ns) / 2};
}

static void note(struct figures *figures, size_t round, struct measurement measured,
		 struct measurement none)
{
	figures->rate[round] = measured.rate;
	figures->ratio[round] = measured.rate / none.rate;
	figures->cpu_ns[round] = measured.cpu_ns;
	figures->added_ns[round] = measured.cpu_ns - none.cpu_ns;
}

static void do_round(const struct run *run, size_t workload, size_t round)
{
	struct figures *figures = run->figures[workload];
	struct measurement before = measure(run, 0, workload), sum = before;
	size_t order[CONTENDERS_MAX], turns = 1;
	const size_t count = draw_order(run, workload, round, order);

	for (size_t first = 0; first < count; first += BETWEEN) {
		struct measurement between[BETWEEN], after;
		const size_t group = count - first < BETWEEN ? count - first : BETWEEN;

		for (size_t i = 0; i < group; i++)
			between[i] = measure(run, order[first + i], workload);
		after = measure(run, 0, workload);
		for (size_t i = 0; i < group; i++)
			note(&figures[order[first + i]], round, between[i], mean(before, after));
		before = after;
		sum.rate += after.rate;
		sum.cpu_ns += after.cpu_ns;
		turns++;
	}
	sum.rate /= (double)turns;
	sum.cpu_ns /= (double)turns;
	note(&figures[0], round, sum, sum);
}

/* ---- results */

static void put_tables(const struct run *run)
{
	char text[1024];

	snprintf(
		text, sizeof(text),
		"Medians (quartiles) of %u rounds of %u ms for each, in turns; no policy in between"
		" every %d of the others. TCP connections are opened and reset (connect), carry 64"
		" octets there and back again and again (request/response), or as much as they can"
		" (bulk); on one CPU the client is both ends, by turns, and its rate is by its CPU"
		" time, so that nothing hangs on who waits for whom. Datagrams have 32 octets; to "
		"4,096 destinations they come from one socket"
		" that has been at each before. HTTP is GET of 1 KB, over one connection that"
		" is kept or a new one each time, and of 10 MB.",
		run->options->rounds, run->options->slice_ms, BETWEEN);
	results_table("rates", "Work under a policy", text);
	results_table("ratios", "Rates, compared with no policy",
		      "Of the rates, round by round, to those without a policy right before and"
		      " after: 1 is no loss.");
	results_table(
		"cpu", "CPU time of an operation",
		"Of the client, with what the kernel does for it on its CPU, and of the proxy."
		" Other processes disturb it least. Of bulk: of 1 KiB.");
	results_table("added", "CPU time added to an operation",
		      "The difference from no policy right before and after.");
}

static void put(const struct run *run, size_t contender, size_t workload)
{
	const struct workload *of = &workloads[workload];
	const char *name = run->contenders[contender].name;
	struct figures *figures = &run->figures[workload][contender];
	const size_t rounds = run->options->rounds;

	for (size_t i = 0; i < rounds; i++)
		figures->rate[i] /= of->scale;
	results_cell("rates", name, of->name, of->unit, quartiles_of(figures->rate, rounds));
	results_cell("cpu", name, of->name, "ns", quartiles_of(figures->cpu_ns, rounds));
	if (!contender)
		return;
	results_cell("ratios", name, of->name, "", quartiles_of(figures->ratio, rounds));
	results_cell("added", name, of->name, "ns", quartiles_of(figures->added_ns, rounds));
}

static void put_missing(const struct contender *contender, const struct workload *workload)
{
	static const char *const tables[] = {"rates", "ratios", "cpu", "added"};

	for (size_t i = 0; i < PG_ARRAY_SIZE(tables); i++)
		results_missing(tables[i], contender->name, workload->name, contender->missing);
}

static void put_all(const struct run *run)
{
	put_tables(run);
	for (size_t contender = 0; contender < run->count; contender++)
		for (size_t workload = 0; workload < workload_count; workload++) {
			if (!is_wanted(run, &workloads[workload]))
				continue;
			if (run->contenders[contender].missing[0])
				put_missing(&run->contenders[contender], &workloads[workload]);
			else if (takes_part(&run->contenders[contender], &workloads[workload]))
				put(run, contender, workload);
		}
}

void table_pairs(const struct bench_options *options, struct machine *machine)
{
	pg_autofree struct figures(*figures)[CONTENDERS_MAX] =
		calloc(workload_count, sizeof(*figures));
	struct run run = {.options = options, .machine = machine, .figures = figures};

	if (!figures)
		fail("not enough memory for the results");
	run.count = contenders_open(run.contenders, options, machine);
	if (run.contenders[0].missing[0])
		fail("there is no network namespace for the work (scripts/bench makes it)");
	for (size_t round = 0; round < options->rounds; round++) {
		fprintf(stderr, "bench: work, round %zu of %u\n", round + 1, options->rounds);
		for (size_t workload = 0; workload < workload_count; workload++)
			if (is_wanted(&run, &workloads[workload]))
				do_round(&run, workload, round);
	}
	put_all(&run);
	contenders_close(machine);
}
