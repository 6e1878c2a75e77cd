/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs to put a policy into the kernel: by part, by size of the policy. */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/vector.h"

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
#define TABLE "loads"

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
	double sums[BENCH_LOADS_MAX]; /* before the parts are sorted */

	if (!loads)
		fail("not enough memory for the results");
	for (size_t i = 0; i < options->loads; i++)
		load_once(loads, i, document, host);
	results_value(TABLE, name, "entries", "", (double)loads->entries);
	results_value(TABLE, name, "addresses", "", (double)loads->addresses);
	for (size_t i = 0; i < options->loads; i++)
		sums[i] = loads->ms[PART_COMPILE][i] + loads->ms[PART_FILL][i];
	for (size_t part = 0; part < PARTS; part++)
		results_cell(TABLE, name, part_names[part], "ms",
			     quartiles_of(loads->ms[part], options->loads));
	results_cell(TABLE, name, "compile + fill", "ms", quartiles_of(sums, options->loads));
	results_value(TABLE, name, "kernel memory", "KiB", (double)loads->bytes / 1024);
	results_value(TABLE, name, "of it an address", "octets",
		      (double)loads->bytes / (double)loads->addresses);
}

struct list {
	char **entries;
	size_t count, room;
};

static void list_put(struct list *list, const char *entry)
{
	char *copy = strdup(entry);

	if (!copy ||
	    pg_vector_grow(&list->entries, list->count, &list->room, sizeof(*list->entries)))
		fail("not enough memory for a policy");
	list->entries[list->count++] = copy;
}

/* One entry a line; comments begin with '#'. */
static void list_read(struct list *list, const char *directory, const char *name)
{
	pg_autofree char *path = NULL, *text = NULL;
	struct pg_error err = {0};
	char *rest, *line;
	size_t size;

	if (asprintf(&path, "%s/%s", directory, name) < 0)
		fail("not enough memory for a path");
	if (pg_file_read(path, LIST_BYTES_MAX, &text, &size, &err) < 0)
		fail("%s", err.text);
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		line[strcspn(line, "# \t\r")] = '\0';
		if (*line)
			list_put(list, line);
	}
}

static void print_list(const char *name, struct list *list, const struct bench_options *options,
		       struct pg_host *host)
{
	pg_autofree char *document = set_document_of(list->entries, list->count);

	print_load(name, document, options, host);
	for (size_t i = 0; i < list->count; i++)
		free(list->entries[i]);
	free(list->entries);
	*list = (struct list){0};
}

static int is_list(const struct dirent *file)
{
	const char *end = strrchr(file->d_name, '.');

	return strstr(file->d_name, "cidr") && end && !strcmp(end, ".txt");
}

/* Each alone, and the two large ones in one policy. */
static void print_lists(const struct bench_options *options, struct pg_host *host)
{
	struct list list = {0}, both = {0};
	struct dirent **files;
	const int count = scandir(options->lists, &files, is_list, alphasort);

	if (count < 0)
		fail("reading the directory %s: %s", options->lists, strerror(errno));
	for (int i = 0; i < count; i++) {
		const char *name = files[i]->d_name;

		list_read(&list, options->lists, name);
		print_list(name, &list, options, host);
		if (strstr(name, "aws") || strstr(name, "github"))
			list_read(&both, options->lists, name);
		free(files[i]);
	}
	free(files);
	if (both.count)
		print_list("AWS and GitHub", &both, options, host);
}

/* Of the mixture, the part of one family. */
static void print_family(bool v6, const struct bench_options *options, struct pg_host *host)
{
	const size_t count = options->entries;
	struct list list = {0};
	char name[48];

	for (size_t i = 0; i < count; i++) {
		char entry[BENCH_NAME];

		set_entry(v6 ? i * 4 + 3 : i / 3 * 4 + i % 3, entry);
		list_put(&list, entry);
	}
	snprintf(name, sizeof(name), "%zu of IPv%d alone", count, v6 ? 6 : 4);
	print_list(name, &list, options, host);
}

void table_loads(const struct bench_options *options, struct machine *machine)
{
	const size_t counts[] = {BENCH_SMALL, 10000, options->entries};
	char text[160];

	snprintf(text, sizeof(text),
		 "Medians of %u. \"Confine\" is record, cgroup and attach; \"kernel memory\""
		 " is what the kernel counts for the tables.",
		 options->loads);
	results_table(TABLE, "Loading a policy", text);
	for (size_t i = 0; i < PG_ARRAY_SIZE(counts); i++) {
		pg_autofree char *document = set_document(counts[i]);
		char name[32];

		snprintf(name, sizeof(name), "%zu mixed", counts[i]);
		print_load(name, document, options, machine->host);
	}
	print_family(false, options, machine->host);
	print_family(true, options, machine->host);
	if (options->lists)
		print_lists(options, machine->host);
}
