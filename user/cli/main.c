/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "policy/diagnostic.h"

static const struct pg_command commands[] = {
	{
		.name = "check",
		.arguments = "[FILE|-] [--policy FILE|JSON]... [--allow PHASE=ENTRY]... "
			     "[--env-params] [--json]",
		.summary = "validate a policy and print what each phase allows",
		.run = pg_command_check,
	},
	{
		.name = "run",
		.arguments = "--policy FILE|JSON [OPTION]... -- COMMAND...",
		.summary = "run a command, or one for each phase, confined by a policy",
		.run = pg_command_run,
	},
	{
		.name = "doctor",
		.arguments = "[OPTION]...",
		.summary = "say what this host offers for enforcement, and what it lacks",
		.run = pg_command_doctor,
	},
	{
		.name = "debug",
		.arguments = "[--seconds N] [--json]",
		.summary = "say what the BPF programs and maps on this host do and take",
		.run = pg_command_debug,
	},
	{
		.name = "env",
		.arguments = "create|list|show|phase|update|destroy [NAME] [OPTION]...",
		.summary = "create and change Environments of the host agent",
		.run = pg_command_env,
	},
	{
		.name = "events",
		.arguments = "[--follow] [--env NAME] [--cursor N|now] [--json]",
		.summary = "print what has happened in Environments: switches, denials",
		.run = pg_command_events,
	},
	{
		.name = "explain",
		.arguments = "NAME HOST|ADDRESS [--phase PHASE] [--json]",
		.summary = "say whether an Environment may reach a host, and by which entry",
		.run = pg_command_explain,
	},
	{
		.name = "verify",
		.arguments =
			"NAME [--allowed HOST:PORT] [--blocked ADDRESS:PORT] [--without VECTOR]...",
		.summary = "try from inside what is allowed, what is blocked, and the ways around",
		.run = pg_command_verify,
	},
	{
		.name = "seccomp",
		.arguments = "[BASE|-]",
		.summary = "print a seccomp profile for containers, made of the runtime's own",
		.run = pg_command_seccomp,
	},
};

static void print_usage(FILE *out)
{
	fputs("usage: phasegate COMMAND [OPTION]...\n"
	      "       phasegate --help | --version\n"
	      "\n"
	      "Kernel-enforced, phase-aware egress policy for containers.\n"
	      "\n",
	      out);
	for (size_t i = 0; i < PG_ARRAY_SIZE(commands); i++)
		fprintf(out, "  phasegate %s %s\n        %s\n", commands[i].name,
			commands[i].arguments, commands[i].summary);
	fputs("\n"
	      "Every command also takes --log-level LEVEL, --log-file FILE, --file-log-level "
	      "LEVEL\n"
	      "and --help. LEVEL is error, warning, info or debug.\n",
	      out);
}

static int unknown_command(const char *name)
{
	const char *names[PG_ARRAY_SIZE(commands)];
	pg_autofree char *printable =
		pg_text_printable(name, strlen(name), PG_DIAGNOSTIC_VALUE_MAX);
	const char *nearest;

	for (size_t i = 0; i < PG_ARRAY_SIZE(commands); i++)
		names[i] = commands[i].name;
	nearest = pg_text_nearest(name, names, PG_ARRAY_SIZE(names));
	fprintf(stderr, "phasegate: there is no command \"%s\"", printable ? printable : "");
	if (nearest)
		fprintf(stderr, "; did you mean \"%s\"?\n", nearest);
	else
		fputs("; phasegate --help lists them\n", stderr);
	return PG_EXIT_USAGE;
}

int main(int argc, char **argv)
{
	int status;

	if (argc < 2) {
		print_usage(stderr);
		return PG_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		puts("phasegate " PG_VERSION);
		return PG_EXIT_OK;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		print_usage(stdout);
		return PG_EXIT_OK;
	}
	for (size_t i = 0; i < PG_ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		status = commands[i].run(argc - 1, argv + 1);
		pg_log_close();
		return status;
	}
	return unknown_command(argv[1]);
}
