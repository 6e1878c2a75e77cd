/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate doctor: what this host offers, and what to do about what it lacks. */
#include "command.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/json_text.h"
#include "kernel/probe.h"

enum doctor_option {
	DOCTOR_OPTION_JSON = PG_OPTION_COMMAND_FIRST,
};

static const char *result_name(enum pg_probe_result result)
{
	switch (result) {
	case PG_PROBE_OK:
		return "ok";
	case PG_PROBE_WARNING:
		return "warning";
	case PG_PROBE_FAILED:
		return "failed";
	}
	return "failed";
}

static void print_row(void *userdata, const struct pg_probe_report *report)
{
	printf("%-8s %-29s %s\n", result_name(report->result), report->name, report->detail);
	if (report->advice[0])
		printf("%-8s %-29s -> %s\n", "", "", report->advice);
}

/* "ok" stands first in the object, so the checks have to wait until it is known. */
struct checks {
	struct pg_probe_report *rows;
	size_t count;
	bool lost; /* out of memory */
};

static void keep_row(void *userdata, const struct pg_probe_report *report)
{
	struct checks *checks = userdata;
	struct pg_probe_report *rows =
		reallocarray(checks->rows, checks->count + 1, sizeof(*checks->rows));

	if (!rows) {
		checks->lost = true;
		return;
	}
	checks->rows = rows;
	rows[checks->count++] = *report;
}

static void print_checks(const struct checks *checks, bool ok)
{
	printf("{\"ok\":%s,\"checks\":[", ok ? "true" : "false");
	for (size_t i = 0; i < checks->count; i++) {
		const struct pg_probe_report *row = &checks->rows[i];

		printf("%s{\"name\":", i ? "," : "");
		pg_json_string(stdout, row->name);
		printf(",\"result\":\"%s\",\"detail\":", result_name(row->result));
		pg_json_string(stdout, row->detail);
		fputs(",\"advice\":", stdout);
		pg_json_string(stdout, row->advice);
		putchar('}');
	}
	puts("]}");
}

static int doctor_json(void)
{
	struct checks checks = {0};
	const bool ok = pg_probe_all(keep_row, &checks, NULL) == 0 && !checks.lost;

	print_checks(&checks, ok);
	free(checks.rows);
	return ok ? PG_EXIT_OK : PG_EXIT_FAILURE;
}

static int doctor_table(void)
{
	const bool ok = pg_probe_all(print_row, NULL, NULL) == 0;

	puts(ok ? "\nEnforcement is possible on this host."
		: "\nEnforcement is not possible on this host; `phasegate run` would refuse.");
	return ok ? PG_EXIT_OK : PG_EXIT_FAILURE;
}

static void print_help(void)
{
	puts("usage: phasegate doctor [--json]\n"
	     "\n"
	     "Probes what this host offers and says what to do about each lack.\n"
	     "\n"
	     "  --json                    one object:\n"
	     "                            "
	     "{\"ok\":true,\"checks\":[{\"name\":...,\"result\":\"ok\",...}]}\n"
	     "  --log-level LEVEL         error, warning (default), info or debug\n"
	     "  --log-file FILE           append log messages to FILE\n"
	     "  --file-log-level LEVEL    level of that file (default debug)\n"
	     "\n"
	     "Exit status: 0 if enforcement is possible, 1 if not, 2 for a bad option.");
}

int pg_command_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, DOCTOR_OPTION_JSON},
		PG_COMMON_OPTIONS,
		{0},
	};
	struct pg_error err = {};
	bool json = false;
	int option, error = 0;

	while (!error && (option = pg_next_option(argc, argv, "", options, &err)) != -1) {
		switch (option) {
		case DOCTOR_OPTION_JSON:
			json = true;
			break;
		case PG_OPTION_HELP:
			print_help();
			return PG_EXIT_OK;
		default:
			error = option < 0 ? option : pg_common_option(option, optarg, &err);
		}
	}
	if (!error && optind < argc)
		error = pg_fail(&err, -EINVAL, "doctor: unexpected argument \"%s\"", argv[optind]);
	if (!error)
		error = pg_common_options_done(&err);
	if (error) {
		fprintf(stderr, "phasegate: %s\n", err.text);
		return PG_EXIT_USAGE;
	}
	return json ? doctor_json() : doctor_table();
}
