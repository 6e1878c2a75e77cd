/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same work without a policy, under ten entries and under the large set, in turns: what else
 * the machine does hits all three alike, and the ratios are of neighbours in time.
 */
#include "bench.h"

enum variant {
	NONE,
	SMALL,
	LARGE,
	VARIANTS,
};

struct rounds {
	double rate[VARIANTS][BENCH_ROUNDS], cpu[VARIANTS][BENCH_ROUNDS];
};

static struct site site_of(enum variant variant, const struct machine *machine,
			   const struct confined confined[2])
{
	return (struct site){
		.host = machine->host,
		.plain_cgroup = machine->plain_cgroup,
		.environment = variant == NONE ? NULL : confined[variant == LARGE].environment,
	};
}

static void measure(struct rounds *rounds, size_t workload, const struct bench_options *options,
		    const struct machine *machine, const struct confined confined[2])
{
	for (size_t round = 0; round < options->rounds; round++) {
		for (size_t turn = 0; turn < VARIANTS; turn++) {
			const enum variant variant = (enum variant)((round + turn) % VARIANTS);
			const struct site site = site_of(variant, machine, confined);
			const struct measurement measured =
				worker_finish(&site,
					      worker_start(&site, workload, options->slice_ms));

			rounds->rate[variant][round] = measured.rate;
			rounds->cpu[variant][round] = measured.cpu_ns;
		}
	}
}

/* Of the pairs, above / below. */
static void print_ratio(FILE *out, const double *above, const double *below, size_t count)
{
	double ratios[BENCH_ROUNDS];
	struct quartiles quartiles;

	for (size_t i = 0; i < count; i++)
		ratios[i] = above[i] / below[i];
	quartiles = quartiles_of(ratios, count);
	fprintf(out, " %.3f (%.3f-%.3f) |", quartiles.median, quartiles.low, quartiles.high);
}

static void print_rate(FILE *out, const struct workload *workload, const double *rates,
		       size_t count)
{
	double sorted[BENCH_ROUNDS];
	struct quartiles quartiles;

	for (size_t i = 0; i < count; i++)
		sorted[i] = rates[i] / workload->scale;
	quartiles = quartiles_of(sorted, count);
	fprintf(out, " %.2f (%.2f-%.2f) |", quartiles.median, quartiles.low, quartiles.high);
}

void table_pairs(FILE *out, const struct bench_options *options, struct machine *machine,
		 struct confined confined[2])
{
	pg_autofree struct rounds *rounds = calloc(workload_count, sizeof(*rounds));

	if (!rounds)
		fail("not enough memory for the results");
	for (size_t i = 0; i < workload_count; i++) {
		fprintf(stderr, "bench: %s\n", workloads[i].name);
		measure(&rounds[i], i, options, machine, confined);
	}
	fprintf(out,
		"## Work under a policy\n\nMedian (quartiles) of %u rounds of 3 x %u ms, in"
		" turns.\n\n| work | unit | no policy | %d entries | %u entries |\n"
		"|---|---|---|---|---|\n",
		options->rounds, options->slice_ms, BENCH_SMALL, options->entries);
	for (size_t i = 0; i < workload_count; i++) {
		fprintf(out, "| %s | %s |", workloads[i].name, workloads[i].unit);
		for (size_t variant = 0; variant < VARIANTS; variant++)
			print_rate(out, &workloads[i], rounds[i].rate[variant], options->rounds);
		fputc('\n', out);
	}
	fprintf(out,
		"\nRatios of rates, round by round (1 is no loss). The last two columns are of the"
		" client's CPU time per operation instead, which other processes disturb least; "
		"they"
		" are inverted to read alike.\n\n| work | %d / none | %u / none | %u / %d | CPU:"
		" none / %u | CPU: %d / %u |\n|---|---|---|---|---|---|\n",
		BENCH_SMALL, options->entries, options->entries, BENCH_SMALL, options->entries,
		BENCH_SMALL, options->entries);
	for (size_t i = 0; i < workload_count; i++) {
		const struct rounds *of = &rounds[i];

		fprintf(out, "| %s |", workloads[i].name);
		print_ratio(out, of->rate[SMALL], of->rate[NONE], options->rounds);
		print_ratio(out, of->rate[LARGE], of->rate[NONE], options->rounds);
		print_ratio(out, of->rate[LARGE], of->rate[SMALL], options->rounds);
		print_ratio(out, of->cpu[NONE], of->cpu[LARGE], options->rounds);
		print_ratio(out, of->cpu[SMALL], of->cpu[LARGE], options->rounds);
		fputc('\n', out);
	}
	fputc('\n', out);
}
