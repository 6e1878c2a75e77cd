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

static void put_ratio(const char *table, const char *row, const char *column, const double *above,
		      const double *below, size_t count)
{
	double ratios[BENCH_ROUNDS];

	for (size_t i = 0; i < count; i++)
		ratios[i] = above[i] / below[i];
	results_cell(table, row, column, "", quartiles_of(ratios, count));
}

void table_pairs(const struct bench_options *options, struct machine *machine)
{
	static const char *const columns[] = {"none", "small", "large"};
	pg_autofree struct rounds *rounds = calloc(1, sizeof(*rounds));
	pg_autofree char *small = set_document(BENCH_SMALL);
	pg_autofree char *large = set_document(options->entries);
	struct confined confined[] = {
		confined_create(machine->host, small),
		confined_create(machine->host, large),
	};

	if (!rounds)
		fail("not enough memory for the results");
	results_table("ratios", "Rates, compared with no policy", "");
	for (size_t i = 0; i < workload_count; i++) {
		measure(rounds, i, options, machine, confined);
		for (size_t variant = SMALL; variant < VARIANTS; variant++)
			put_ratio("ratios", workloads[i].name, columns[variant],
				  rounds->rate[variant], rounds->rate[NONE], options->rounds);
	}
	confined_destroy(&confined[0]);
	confined_destroy(&confined[1]);
}
