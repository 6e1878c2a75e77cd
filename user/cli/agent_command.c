/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const pg_agent_phases[] = {"setup", "run", "verifier", NULL};

void pg_agent_command_help(const struct pg_agent_command *command)
{
	printf("usage: phasegate %s %s\n\n%s\n\n%s"
	       "  --socket PATH             the agent's socket (default $PHASEGATE_SOCKET, or\n"
	       "                            " PHASEGATE_SOCKET_DEFAULT ")\n"
	       "  --json                    print the agent's answer, also an error, as JSON\n"
	       "  --log-level LEVEL         error, warning (default), info or debug\n"
	       "  --log-file FILE           append log messages to FILE\n"
	       "  --file-log-level LEVEL    level of that file (default debug)\n"
	       "\n"
	       "Exit status:\n"
	       "  0  success\n"
	       "  1  the agent refused or failed\n"
	       "  2  an option or the policy is wrong\n"
	       "%s"
	       "  5  the agent cannot be reached\n",
	       command->name, command->synopsis, command->summary, command->details,
	       command->exits ? command->exits : "");
}

int pg_agent_word(const char *option, const char *value, const char *const *words,
		  const char **ret_word, struct pg_error *err)
{
	char list[128] = "";

	for (size_t i = 0; words[i]; i++) {
		const size_t used = strlen(list);

		if (!strcmp(value, words[i])) {
			*ret_word = words[i];
			return 0;
		}
		snprintf(list + used, sizeof(list) - used, "%s%s",
			 !i		? ""
			 : words[i + 1] ? ", "
					: " or ",
			 words[i]);
	}
	return pg_fail(err, -EINVAL, "%s is %s, not \"%s\"", option, list, value);
}

int pg_agent_number(const char *option, const char *value, uint64_t max, uint64_t *ret_number,
		    struct pg_error *err)
{
	unsigned long long number;
	char *end;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno || number == 0 || number > max)
		return pg_fail(err, -EINVAL, "%s is a number from 1 to %" PRIu64 ", not \"%s\"",
			       option, max, value);
	*ret_number = number;
	return 0;
}

static int take_option(const struct pg_agent_command *command, struct pg_agent_call *call,
		       int option, const char *value, struct pg_error *err)
{
	switch (option) {
	case PG_AGENT_SOCKET_OPTION:
		call->socket = value;
		return 0;
	case PG_AGENT_JSON:
		call->json = true;
		return 0;
	case PG_OPTION_HELP:
		call->help = true;
		return 0;
	default:
		if (option >= PG_OPTION_COMMAND_FIRST)
			return command->option(call->wanted, option, value, err);
		return pg_common_option(option, value, err);
	}
}

static int parse(const struct pg_agent_command *command, struct pg_agent_call *call, int argc,
		 char **argv, struct pg_error *err)
{
	int option, error = 0;

	while (!error && (option = pg_next_option(argc, argv, "", command->options, err)) != -1)
		error = option < 0 ? option : take_option(command, call, option, optarg, err);
	if (error || call->help)
		return error;
	call->argument_count = (size_t)(argc - optind);
	if (call->argument_count < command->least || call->argument_count > command->most)
		return pg_fail(err, -EINVAL, "usage: phasegate %s %s; phasegate %s --help explains",
			       command->name, command->synopsis, command->name);
	for (size_t i = 0; i < call->argument_count; i++)
		call->arguments[i] = argv[optind + (int)i];
	if (command->check)
		error = command->check(call, err);
	return error ? error : pg_common_options_done(err);
}

int pg_agent_command(const struct pg_agent_command *command, void *wanted, int argc, char **argv)
{
	struct pg_agent_call call = {.wanted = wanted};
	struct pg_error err = {};
	int status;

	argv[0] = (char *)command->name;
	if (parse(command, &call, argc, argv, &err) < 0) {
		fprintf(stderr, "phasegate: %s\n", err.text);
		return PG_EXIT_USAGE;
	}
	if (call.help) {
		pg_agent_command_help(command);
		return PG_EXIT_OK;
	}
	if (phasegate_open(call.socket, &call.client, &call.error) < 0)
		status = pg_agent_failed(&call);
	else
		status = command->run(&call);
	phasegate_error_free(call.error);
	phasegate_close(call.client);
	if (fflush(stdout) == EOF || ferror(stdout)) {
		fputs("phasegate: cannot write the result\n", stderr);
		return PG_EXIT_FAILURE;
	}
	return status;
}
