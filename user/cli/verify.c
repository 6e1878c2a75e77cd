/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate verify */
#include <errno.h>
#include <string.h>

#include "agent_command.h"

enum verify_option {
	VERIFY_ALLOWED = PG_OPTION_COMMAND_FIRST,
	VERIFY_BLOCKED,
};

static const struct option options[] = {
	{"allowed", required_argument, NULL, VERIFY_ALLOWED},
	{"blocked", required_argument, NULL, VERIFY_BLOCKED},
	PG_AGENT_OPTIONS,
	{},
};

struct verify {
	const char *allowed, *blocked;
};

static int parse_option(void *userdata, int option, const char *value, struct pg_error *err)
{
	struct verify *wanted = userdata;

	if (option == VERIFY_ALLOWED)
		wanted->allowed = value;
	else
		wanted->blocked = value;
	return 0;
}

static void print_row(struct pg_table *table, const struct pg_json_value *root, const char *name)
{
	const struct pg_json_value *probe = pg_json_member(root, name);

	pg_table_add_text(table, name);
	if (!probe) {
		pg_table_add_text(table, "-");
		pg_table_add_text(table, "-");
		pg_table_add_text(table, "there is nothing that the phase allows");
		return;
	}
	pg_table_add(table, pg_agent_text(probe, "target"));
	pg_table_add(table, pg_agent_text(probe, "result"));
	pg_table_add(table, pg_agent_text(probe, "reason"));
}

static void print(const struct pg_json_value *root)
{
	struct pg_table table = {.columns = 4};
	pg_autofree char *result = pg_agent_text(root, "result");
	pg_autofree char *phase = pg_agent_text(root, "phase");

	print_row(&table, root, "allowed");
	print_row(&table, root, "blocked");
	pg_table_print(&table, stdout);
	printf("phase %s: %s%s\n", phase ? phase : "", result ? result : "",
	       result && !strcmp(result, "inconclusive")
		       ? ": nothing is proved; name a server that answers with --allowed"
		       : "");
}

static int run(struct pg_agent_call *call)
{
	const struct verify *wanted = call->wanted;
	enum phasegate_verdict verdict = PHASEGATE_INCONCLUSIVE;
	int status = PG_EXIT_INCONCLUSIVE;
	char *text = NULL;

	if (phasegate_verify(call->client, call->arguments[0], wanted->allowed, wanted->blocked,
			     &verdict, &text, &call->error) < 0)
		return pg_agent_failed(call);
	switch (verdict) {
	case PHASEGATE_ENFORCED:
		status = PG_EXIT_OK;
		break;
	case PHASEGATE_NOT_ENFORCED:
		status = PG_EXIT_NO;
		break;
	case PHASEGATE_INCONCLUSIVE:
		break;
	}
	return pg_agent_answer(call, text, print, status);
}

int pg_command_verify(int argc, char **argv)
{
	static const struct pg_agent_command command = {
		.name = "verify",
		.synopsis = "NAME [OPTION]...",
		.summary = "Connects from inside of an Environment to a destination that its phase "
			   "allows and to\n"
			   "one that it denies. The latter is blocked only if the kernel has "
			   "reported the denial.",
		.details = "  --allowed HOST:PORT       the first (default: the first entry of the "
			   "phase, port\n"
			   "                            443; none in phases of mode no-network)\n"
			   "  --blocked ADDRESS:PORT    the second (default: an address for "
			   "documentation)\n",
		.exits = "  3  the opposite of what the policy says has been seen\n"
			 "  4  inconclusive: nothing is proved\n",
		.least = 1,
		.most = 1,
		.options = options,
		.option = parse_option,
		.run = run,
	};
	struct verify wanted = {.allowed = NULL};

	return pg_agent_command(&command, &wanted, argc, argv);
}
