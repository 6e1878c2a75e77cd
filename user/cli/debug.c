/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate debug: what the BPF programs and maps on this host do and take, as the kernel says. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "environment/cgroup.h"
#include "environment/record.h"
#include "kernel/probe.h"
#include "kernel/statistics.h"

#include "agent_command.h"

#define SECONDS_DEFAULT 5
#define SECONDS_MAX	3600

enum debug_option {
	DEBUG_OPTION_JSON = PG_OPTION_COMMAND_FIRST,
	DEBUG_OPTION_SECONDS,
};

struct wanted {
	unsigned int seconds;
	bool json, help;
};

/* What there was at the end, and what was counted meanwhile. */
struct measured {
	struct pg_statistics statistics;
	uint64_t took_ns;
};

static void measured_clear(struct measured *measured)
{
	pg_statistics_clear(&measured->statistics);
}

/* Leaves in `after` what came since `before`; a program that was not there yet has it all. */
static void subtract(struct pg_statistics *after, const struct pg_statistics *before)
{
	for (size_t i = 0; i < after->program_count; i++) {
		struct pg_program_info *program = &after->programs[i];

		for (size_t j = 0; j < before->program_count; j++) {
			if (before->programs[j].id != program->id)
				continue;
			program->runs -= before->programs[j].runs;
			program->run_ns -= before->programs[j].run_ns;
		}
	}
}

struct visiting {
	struct pg_statistics *statistics;
	int cgroup_mount;
};

/* One of which the cgroup is gone has nothing attached. */
static int add_record(void *userdata, int record_fd, const struct pg_record *record,
		      struct pg_error *err)
{
	const struct visiting *visiting = userdata;
	int error = 0;

	for (size_t i = 0; i < record->cgroup_count && !error; i++) {
		pg_autoclose int fd = -1;

		if (!pg_cgroup_open(visiting->cgroup_mount, record->cgroups[i].path + 1, &fd, NULL))
			error = pg_statistics_add_place(visiting->statistics, record->name, fd,
							err);
	}
	return error;
}

/* Without their lock: an Environment that comes or goes just now may be left out. */
static int read_places(struct pg_statistics *statistics, struct pg_error *err)
{
	pg_autoclose int records = open(PG_RECORD_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pg_autoclose int mount = -1;
	struct visiting visiting = {.statistics = statistics};
	pg_autofree char *path = NULL;
	int error;

	if (records < 0)
		return errno == ENOENT ? 0
				       : pg_fail_errno(err, -errno, "opening %s", PG_RECORD_ROOT);
	error = pg_cgroup2_mount(&path, err);
	if (error)
		return error;
	mount = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount < 0)
		return pg_fail_errno(err, -errno, "opening the cgroup2 mount %s", path);
	visiting.cgroup_mount = mount;
	return pg_records_visit(records, add_record, &visiting, err);
}

static int measure(unsigned int seconds, struct measured *ret_measured, struct pg_error *err)
{
	PG_CLEANUP(pg_statistics_clear) struct pg_statistics before = {0};
	struct timespec left = {.tv_sec = (time_t)seconds};
	pg_autoclose int timing = -1;
	uint64_t started;
	int error = pg_statistics_start(&timing, err);

	if (!error)
		error = pg_statistics_read(PG_PIN_ROOT, &before, err);
	if (error)
		return error;
	started = pg_monotonic_ns();
	while (nanosleep(&left, &left) && errno == EINTR)
		;
	ret_measured->took_ns = pg_monotonic_ns() - started;
	error = pg_statistics_read(PG_PIN_ROOT, &ret_measured->statistics, err);
	if (!error)
		error = read_places(&ret_measured->statistics, err);
	if (!error)
		subtract(&ret_measured->statistics, &before);
	return error;
}

/* Calls for each Environment that has the program, once, in no order; returns how many. */
static size_t each_environment(const struct pg_statistics *statistics, uint32_t program,
			       void (*visit)(const char *name, size_t number))
{
	size_t count = 0;

	for (size_t i = 0; i < statistics->place_count; i++) {
		const struct pg_program_place *place = &statistics->places[i];
		bool seen = place->program != program;

		for (size_t j = 0; !seen && j < i; j++)
			seen = statistics->places[j].program == program &&
			       !strcmp(statistics->places[j].environment, place->environment);
		if (seen)
			continue;
		if (visit)
			visit(place->environment, count);
		count++;
	}
	return count;
}

static const char *first_environment(const struct pg_statistics *statistics, uint32_t program)
{
	for (size_t i = 0; i < statistics->place_count; i++)
		if (statistics->places[i].program == program)
			return statistics->places[i].environment;
	return "-";
}

static char *PG_PRINTF(1, 2) text_of(const char *format, ...)
{
	va_list arguments;
	char *text;
	int size;

	va_start(arguments, format);
	size = vasprintf(&text, format, arguments);
	va_end(arguments);
	return size < 0 ? NULL : text;
}

static char *environments_text(const struct pg_statistics *statistics, uint32_t program)
{
	const size_t count = each_environment(statistics, program, NULL);
	const char *first = first_environment(statistics, program);

	return count > 1 ? text_of("%s and %zu more", first, count - 1) : text_of("%s", first);
}

static double per_run(const struct pg_program_info *program)
{
	return program->runs ? (double)program->run_ns / (double)program->runs : 0;
}

static double per_second(const struct pg_program_info *program, const struct measured *measured)
{
	return (double)program->runs * (double)PG_NSEC_PER_SEC / (double)measured->took_ns;
}

static void print_programs(const struct measured *measured)
{
	static const char *const head[] = {"ID",    "PROGRAM",	  "HOOK",  "RUNS/S", "NS/RUN",
					   "INSNS", "TRANSLATED", "JITED", "MEMORY", "ENVIRONMENT"};
	const struct pg_statistics *statistics = &measured->statistics;
	struct pg_table table = {.columns = PG_ARRAY_SIZE(head)};

	for (size_t i = 0; i < PG_ARRAY_SIZE(head); i++)
		pg_table_add_text(&table, head[i]);
	for (size_t i = 0; i < statistics->program_count; i++) {
		const struct pg_program_info *program = &statistics->programs[i];

		pg_table_add(&table, text_of("%" PRIu32, program->id));
		pg_table_add_text(&table, program->name);
		pg_table_add_text(&table, program->hook);
		pg_table_add(&table, text_of("%.0f", per_second(program, measured)));
		pg_table_add(&table,
			     program->runs ? text_of("%.0f", per_run(program)) : text_of("-"));
		pg_table_add(&table, program->verified ? text_of("%" PRIu32, program->verified)
						       : text_of("-"));
		pg_table_add(&table, text_of("%" PRIu32, program->translated));
		pg_table_add(&table, text_of("%" PRIu32, program->jited));
		pg_table_add(&table, text_of("%" PRIu64, program->memory));
		pg_table_add(&table, environments_text(statistics, program->id));
	}
	pg_table_print(&table, stdout);
}

static void print_maps(const struct pg_statistics *statistics)
{
	static const char *const head[] = {"MAP", "TYPE", "MAPS", "ELEMENTS", "MEMORY"};
	struct pg_table table = {.columns = PG_ARRAY_SIZE(head)};

	for (size_t i = 0; i < PG_ARRAY_SIZE(head); i++)
		pg_table_add_text(&table, head[i]);
	for (size_t i = 0; i < statistics->map_count; i++) {
		const struct pg_map_info *map = &statistics->maps[i];

		pg_table_add_text(&table, map->name);
		pg_table_add_text(&table, map->type ? map->type : "-");
		pg_table_add(&table, text_of("%" PRIu32, map->count));
		pg_table_add(&table,
			     map->counted ? text_of("%" PRIu64, map->elements) : text_of("-"));
		pg_table_add(&table, text_of("%" PRIu64, map->memory));
	}
	pg_table_print(&table, stdout);
}

static void print_text(const struct measured *measured)
{
	if (!measured->statistics.program_count) {
		puts("No program of Phasegate is loaded: no agent and no `phasegate run` is at work"
		     " here, and nothing is left of one.");
		return;
	}
	print_programs(measured);
	putchar('\n');
	print_maps(&measured->statistics);
}

static void print_environment(const char *name, size_t number)
{
	if (number)
		putchar(',');
	pg_json_string(stdout, name);
}

static void print_program_json(const struct measured *measured,
			       const struct pg_program_info *program)
{
	printf("{\"id\":%" PRIu32 ",\"name\":\"%s\",\"hook\":\"%s\",\"runs\":%" PRIu64, program->id,
	       program->name, program->hook, program->runs);
	printf(",\"runs_per_second\":%.3f,\"ns_per_run\":", per_second(program, measured));
	if (program->runs)
		printf("%.3f", per_run(program));
	else
		fputs("null", stdout);
	fputs(",\"verified_instructions\":", stdout);
	if (program->verified)
		printf("%" PRIu32, program->verified);
	else
		fputs("null", stdout);
	printf(",\"translated_bytes\":%" PRIu32 ",\"jited_bytes\":%" PRIu32
	       ",\"memory_bytes\":%" PRIu64 ",\"environments\":[",
	       program->translated, program->jited, program->memory);
	each_environment(&measured->statistics, program->id, print_environment);
	fputs("]}", stdout);
}

static void print_json(const struct measured *measured)
{
	const struct pg_statistics *statistics = &measured->statistics;

	printf("{\"seconds\":%.6f,\"programs\":[",
	       (double)measured->took_ns / (double)PG_NSEC_PER_SEC);
	for (size_t i = 0; i < statistics->program_count; i++) {
		if (i)
			putchar(',');
		print_program_json(measured, &statistics->programs[i]);
	}
	fputs("],\"maps\":[", stdout);
	for (size_t i = 0; i < statistics->map_count; i++) {
		const struct pg_map_info *map = &statistics->maps[i];

		printf("%s{\"name\":", i ? "," : "");
		pg_json_string(stdout, map->name);
		fputs(",\"type\":", stdout);
		pg_json_string(stdout, map->type);
		printf(",\"maps\":%" PRIu32 ",\"elements\":", map->count);
		if (map->counted)
			printf("%" PRIu64, map->elements);
		else
			fputs("null", stdout);
		printf(",\"memory_bytes\":%" PRIu64 "}", map->memory);
	}
	puts("]}");
}

static void print_help(void)
{
	puts("usage: phasegate debug [--seconds N] [--json]\n"
	     "\n"
	     "Has the kernel take the time of BPF programs for a while, and prints what "
	     "Phasegate's\n"
	     "take, those of agents, of `phasegate run` and those that have no owner, and the\n"
	     "memory of their maps. Needs root.\n"
	     "\n"
	     "  --seconds N               how long (default 5, at most 3600)\n"
	     "  --json                    one object: "
	     "{\"seconds\":...,\"programs\":[...],\"maps\":[...]}\n"
	     "  --log-level LEVEL         error, warning (default), info or debug\n"
	     "  --log-file FILE           append log messages to FILE\n"
	     "  --file-log-level LEVEL    level of that file (default debug)\n"
	     "\n"
	     "Exit status: 0, 1 if the kernel does not say it, 2 for a bad option.");
}

static int parse_seconds(const char *text, unsigned int *ret_seconds, struct pg_error *err)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9' || !value || value > SECONDS_MAX)
		return pg_fail(err, -EINVAL, "--seconds is a number from 1 to %d, not \"%s\"",
			       SECONDS_MAX, text);
	*ret_seconds = (unsigned int)value;
	return 0;
}

static int read_options(int argc, char **argv, struct wanted *wanted, struct pg_error *err)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, DEBUG_OPTION_JSON},
		{"seconds", required_argument, NULL, DEBUG_OPTION_SECONDS},
		PG_COMMON_OPTIONS,
		{0},
	};
	int option, error = 0;

	while (!error && (option = pg_next_option(argc, argv, "", options, err)) != -1) {
		switch (option) {
		case DEBUG_OPTION_JSON:
			wanted->json = true;
			break;
		case DEBUG_OPTION_SECONDS:
			error = parse_seconds(optarg, &wanted->seconds, err);
			break;
		case PG_OPTION_HELP:
			wanted->help = true;
			return 0;
		default:
			error = option < 0 ? option : pg_common_option(option, optarg, err);
		}
	}
	if (!error && optind < argc)
		error = pg_fail(err, -EINVAL, "debug: unexpected argument \"%s\"", argv[optind]);
	return error ? error : pg_common_options_done(err);
}

int pg_command_debug(int argc, char **argv)
{
	PG_CLEANUP(measured_clear) struct measured measured = {0};
	struct wanted wanted = {.seconds = SECONDS_DEFAULT};
	struct pg_error err = {};
	int error = read_options(argc, argv, &wanted, &err);
	const int status = error ? PG_EXIT_USAGE : PG_EXIT_FAILURE;

	if (!error && wanted.help) {
		print_help();
		return PG_EXIT_OK;
	}
	if (!error)
		error = measure(wanted.seconds, &measured, &err);
	if (error) {
		fprintf(stderr, "phasegate: %s\n", err.text);
		return status;
	}
	if (wanted.json)
		print_json(&measured);
	else
		print_text(&measured);
	return PG_EXIT_OK;
}
