/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <errno.h>
#include <string.h>

static const char usage[] =
	"Usage: bench --server NAMESPACE --name CGROUP [OPTION VALUE]...\n"
	"  --entries N    of the large set (default 1000000)\n"
	"  --rounds N     of each work (default 15)\n"
	"  --slice MS     of one work in one round (default 200)\n"
	"  --switches N   of each kind (default 10000)\n"
	"  --loads N      of each policy (default 3)\n"
	"  --attaches N   (default 100)\n"
	"  --environments N  at once, at most (default 1024)\n"
	"  --lists DIR    load its *cidr*.txt too\n"
	"  --only TABLES  these alone, separated by commas\n"
	"  --work TEXT    of the table \"pairs\", works whose names begin like that\n"
	"  --lacks TEXT   \"NAME: REASON\" a line, of contenders that are not there\n"
	"  --squid PID --tinyproxy PID\n"
	"  --output FILE  for the results\n";

/* An option with a number or with a text. */
struct row {
	const char *name;
	unsigned int *number, max;
	const char **text;
};

static unsigned int number_of(const char *name, const char *text, unsigned int max)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || !value || value > max)
		fail("%s needs a number from 1 to %u", name, max);
	return (unsigned int)value;
}

void options_parse(struct bench_options *options, int argc, char **argv)
{
	const struct row rows[] = {
		{"--server", NULL, 0, &options->server},
		{"--name", NULL, 0, &options->name},
		{"--lists", NULL, 0, &options->lists},
		{"--output", NULL, 0, &options->output},
		{"--lacks", NULL, 0, &options->lacks},
		{"--squid", &options->squid, 1U << 22, NULL},
		{"--tinyproxy", &options->tinyproxy, 1U << 22, NULL},
		{"--only", NULL, 0, &options->only},
		{"--work", NULL, 0, &options->work},
		{"--entries", &options->entries, 1000000, NULL},
		{"--rounds", &options->rounds, BENCH_ROUNDS, NULL},
		{"--slice", &options->slice_ms, 60000, NULL},
		{"--switches", &options->switches, 1000000, NULL},
		{"--loads", &options->loads, BENCH_LOADS_MAX, NULL},
		{"--attaches", &options->attaches, 100000, NULL},
		{"--environments", &options->environments, BENCH_ENVIRONMENTS, NULL},
	};

	*options = (struct bench_options){
		.entries = 1000000,
		.rounds = 15,
		.slice_ms = 200,
		.switches = 10000,
		.loads = 3,
		.attaches = 100,
		.environments = BENCH_ENVIRONMENTS,
	};
	for (int i = 1; i < argc; i += 2) {
		size_t row = 0;

		while (row < PG_ARRAY_SIZE(rows) && strcmp(argv[i], rows[row].name) != 0)
			row++;
		if (row == PG_ARRAY_SIZE(rows) || i + 1 == argc)
			fail("%s", usage);
		if (rows[row].number)
			*rows[row].number = number_of(argv[i], argv[i + 1], rows[row].max);
		else
			*rows[row].text = argv[i + 1];
	}
	if (options->entries < BENCH_SMALL)
		fail("--entries needs at least %d", BENCH_SMALL);
	if (!options->server || !options->name)
		fail("%s", usage);
}
