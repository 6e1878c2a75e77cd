/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate env: the table of its commands. */
#include "env.h"

#include <string.h>

#include "base/text.h"
#include "policy/diagnostic.h"

static const struct pg_command commands[] = {
	{
		.name = "create",
		.arguments = "NAME --policy FILE|JSON [OPTION]...",
		.summary = "put cgroups, processes or containers under a policy",
		.run = pg_env_create,
	},
	{
		.name = "list",
		.arguments = "[--json]",
		.summary = "list the Environments that you may use",
		.run = pg_env_list,
	},
	{
		.name = "show",
		.arguments = "NAME [--json]",
		.summary = "show one with its members, policy, warnings and counters",
		.run = pg_env_show,
	},
	{
		.name = "phase",
		.arguments = "NAME setup|run|verifier [OPTION]...",
		.summary = "put a phase in force",
		.run = pg_env_phase,
	},
	{
		.name = "update",
		.arguments = "NAME --policy FILE|JSON [OPTION]...",
		.summary = "put another policy in force, in the same phase",
		.run = pg_env_update,
	},
	{
		.name = "destroy",
		.arguments = "NAME [--kill|--release]",
		.summary = "end one",
		.run = pg_env_destroy,
	},
};

static void print_usage(FILE *out)
{
	fputs("usage: phasegate env COMMAND [NAME] [OPTION]...\n"
	      "\n"
	      "Drives the host agent (phasegated).\n"
	      "\n",
	      out);
	for (size_t i = 0; i < PG_ARRAY_SIZE(commands); i++)
		fprintf(out, "  phasegate env %s %s\n        %s\n", commands[i].name,
			commands[i].arguments, commands[i].summary);
	fputs("\nphasegate env COMMAND --help explains each.\n", out);
}

static int refuse(const char *word)
{
	const char *names[PG_ARRAY_SIZE(commands)];
	pg_autofree char *printable =
		pg_text_printable(word, strlen(word), PG_DIAGNOSTIC_VALUE_MAX);
	const char *nearest;

	for (size_t i = 0; i < PG_ARRAY_SIZE(commands); i++)
		names[i] = commands[i].name;
	nearest = pg_text_nearest(word, names, PG_ARRAY_SIZE(names));
	fprintf(stderr, "phasegate: env: there is no %s %s", *word == '-' ? "option" : "command",
		printable ? printable : "");
	if (nearest)
		fprintf(stderr, "; did you mean \"%s\"?\n", nearest);
	else
		fputs("; phasegate env --help explains\n", stderr);
	return PG_EXIT_USAGE;
}

int pg_command_env(int argc, char **argv)
{
	if (argc < 2) {
		print_usage(stderr);
		return PG_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_usage(stdout);
		return PG_EXIT_OK;
	}
	for (size_t i = 0; i < PG_ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	return refuse(argv[1]);
}
