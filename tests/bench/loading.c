/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs to put a policy into the kernel: by part, by size of the policy. */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"

#include "memory.h"

#define LIST_BYTES_MAX (64UL << 20)

enum part {
	PART_PARSE,
	PART_COMPILE,
	PART_FILL,
	PART_CONFINE,
	PART_PROBE,
	PART_DESTROY,
	PARTS,
};
static const char *const part_names[PARTS] = {
	[PART_PARSE] = "parse",	    [PART_COMPILE] = "compile", [PART_FILL] = "fill",
	[PART_CONFINE] = "confine", [PART_PROBE] = "probe",	[PART_DESTROY] = "destroy",
};

struct loads {
	double ms[PARTS][BENCH_LOADS_MAX];
	size_t entries, addresses;
	uint64_t bytes; /* of the kernel's tables */
};

static double milliseconds(uint64_t ns)
{
	return (double)ns / PG_NSEC_PER_MSEC;
}

static void load_once(struct loads *loads, size_t number, const char *document,
		      struct pg_host *host)
{
	struct confined confined = {0};
	struct pg_environment_options options = {.phase = PG_PHASE_SETUP};
	const struct pg_environment_cost *cost;
	struct pg_error err = {0};
	uint64_t parse_ns, started;

	options.policy = confined.policy = bench_parse(document, &parse_ns);
	if (pg_environment_create(host, &options, &confined.environment, &err) < 0)
		fail("%s", err.text);
	cost = pg_environment_cost(confined.environment);
	loads->ms[PART_PARSE][number] = milliseconds(parse_ns);
	loads->ms[PART_COMPILE][number] = milliseconds(cost->compile_ns);
	loads->ms[PART_FILL][number] = milliseconds(cost->fill_ns);
	loads->ms[PART_CONFINE][number] = milliseconds(cost->attach_ns);
	loads->ms[PART_PROBE][number] = milliseconds(cost->probe_ns);
	loads->entries = confined.policy->phases[PG_PHASE_SETUP].entries->count;
	loads->addresses = cost->addresses;
	loads->bytes = memory_of_sets(host, confined.environment);
	started = pg_monotonic_ns();
	confined_destroy(&confined);
	loads->ms[PART_DESTROY][number] = milliseconds(pg_monotonic_ns() - started);
}

static void print_load(const char *name, const char *document, const struct bench_options *options,
		       struct pg_host *host)
{
	pg_autofree struct loads *loads = calloc(1, sizeof(*loads));

	if (!loads)
		fail("not enough memory for the results");
	for (size_t i = 0; i < options->loads; i++)
		load_once(loads, i, document, host);
	results_value("loads", name, "entries", "", (double)loads->entries);
	results_value("loads", name, "addresses", "", (double)loads->addresses);
	for (size_t part = 0; part < PARTS; part++)
		results_cell("loads", name, part_names[part], "ms",
			     quartiles_of(loads->ms[part], options->loads));
	results_value("loads", name, "kernel memory", "KiB", (double)loads->bytes / 1024);
}

/* One entry a line; comments begin with '#'. */
static char *list_document(const char *directory, const char *name)
{
	pg_autofree char **entries = NULL;
	pg_autofree char *text = NULL, *path = NULL;
	struct pg_error err = {0};
	size_t size, count = 0;
	char *rest, *line;

	if (asprintf(&path, "%s/%s", directory, name) < 0)
		fail("not enough memory for a path");
	if (pg_file_read(path, LIST_BYTES_MAX, &text, &size, &err) < 0)
		fail("%s", err.text);
	entries = calloc(size / 2 + 1, sizeof(*entries));
	if (!entries)
		fail("not enough memory for %s", path);
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		line[strcspn(line, "# \t\r")] = '\0';
		if (*line)
			entries[count++] = line;
	}
	return set_document_of(entries, count);
}

static int is_list(const struct dirent *file)
{
	const char *end = strrchr(file->d_name, '.');

	return strstr(file->d_name, "cidr") && end && !strcmp(end, ".txt");
}

static void print_lists(const struct bench_options *options, struct pg_host *host)
{
	struct dirent **files;
	const int count = scandir(options->lists, &files, is_list, alphasort);

	if (count < 0)
		fail("reading the directory %s: %s", options->lists, strerror(errno));
	for (int i = 0; i < count; i++) {
		pg_autofree char *document = list_document(options->lists, files[i]->d_name);

		print_load(files[i]->d_name, document, options, host);
		free(files[i]);
	}
	free(files);
}

void table_loads(const struct bench_options *options, struct machine *machine)
{
	const size_t counts[] = {BENCH_SMALL, 10000, options->entries};
	char text[160];

	snprintf(text, sizeof(text),
		 "Medians of %u. \"Confine\" is record, cgroup, attach and pins; \"kernel memory\""
		 " is what the kernel counts for the tables.",
		 options->loads);
	results_table("loads", "Loading a policy", text);
	for (size_t i = 0; i < PG_ARRAY_SIZE(counts); i++) {
		pg_autofree char *document = set_document(counts[i]);
		char name[32];

		snprintf(name, sizeof(name), "%zu mixed", counts[i]);
		print_load(name, document, options, machine->host);
	}
	if (options->lists)
		print_lists(options, machine->host);
}
