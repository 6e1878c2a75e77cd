/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands: one file a command, one row here. */
#pragma once

#include <getopt.h>
#include <stdio.h>

#include "base/error.h"

/* Exit statuses, as in docs/phasegate.1.md. A command run by `phasegate run` has its own. */
enum pg_exit {
	PG_EXIT_OK = 0,
	PG_EXIT_FAILURE = 1, /* the operation failed; for doctor: enforcement is not possible */
	PG_EXIT_USAGE = 2,   /* bad option, or a policy that is at fault */
	PG_EXIT_NO = 3,	     /* explain: denied; verify: not enforced */
	PG_EXIT_INCONCLUSIVE = 4, /* verify: nothing is proved */
	PG_EXIT_UNREACHABLE = 5,  /* there is no agent at the socket */
	PG_EXIT_REFUSED = 125,	  /* run: enforcement could not be had, so nothing was started */
	PG_EXIT_NOT_EXECUTABLE = 126, /* run: the command could not be executed */
	PG_EXIT_NOT_FOUND = 127,      /* run: the command was not found */
	PG_EXIT_SIGNAL = 128,	      /* run: 128 + N, the command was ended by signal N */
};

struct pg_command {
	const char *name;
	const char *arguments;		   /* synopsis after the name */
	const char *summary;		   /* one line */
	int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns enum pg_exit */
};

int pg_command_check(int argc, char **argv);
int pg_command_run(int argc, char **argv);
int pg_command_doctor(int argc, char **argv);
int pg_command_debug(int argc, char **argv);
int pg_command_env(int argc, char **argv);
int pg_command_events(int argc, char **argv);
int pg_command_explain(int argc, char **argv);
int pg_command_verify(int argc, char **argv);
int pg_command_seccomp(int argc, char **argv);

/* Options that every command takes (getopt_long values above the ASCII range). */
enum pg_common_option {
	PG_OPTION_LOG_LEVEL = 0x1000,
	PG_OPTION_LOG_FILE,
	PG_OPTION_FILE_LOG_LEVEL,
	PG_OPTION_HELP,
	PG_OPTION_COMMAND_FIRST = 0x2000, /* a command's own long options start here */
};

/* Rows for a command's struct option array. */
#define PG_COMMON_OPTIONS \
	{"log-level", required_argument, NULL, PG_OPTION_LOG_LEVEL}, \
		{"log-file", required_argument, NULL, PG_OPTION_LOG_FILE}, \
		{"file-log-level", required_argument, NULL, PG_OPTION_FILE_LOG_LEVEL}, \
	{ \
		"help", no_argument, NULL, PG_OPTION_HELP \
	}

/*
 * getopt_long(3) for the command argv[0], whose long options these are and which has -h besides.
 * mode is "+" (stop at the first argument), "-" (arguments are option 1) or "". Returns the option,
 * -1 at the end, or -EINVAL.
 */
int pg_next_option(int argc, char **argv, const char *mode, const struct option *options,
		   struct pg_error *err) PG_MUST_CHECK;

/* Handles one of them. PG_OPTION_HELP is the command's own business. */
int pg_common_option(int option, const char *value, struct pg_error *err) PG_MUST_CHECK;

/* Opens the log file that the options named; call once after all options. */
int pg_common_options_done(struct pg_error *err) PG_MUST_CHECK;
