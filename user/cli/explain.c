/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate explain */
#include <errno.h>
#include <string.h>

#include "agent_command.h"

enum explain_option {
	EXPLAIN_PHASE = PG_OPTION_COMMAND_FIRST,
};

static const struct option options[] = {
	{"phase", required_argument, NULL, EXPLAIN_PHASE},
	PG_AGENT_OPTIONS,
	{},
};

static int parse_option(void *userdata, int option, const char *value, struct pg_error *err)
{
	return pg_agent_word("--phase", value, pg_agent_phases, userdata, err);
}

static void print_row(struct pg_table *table, const char *name, const struct pg_json_value *phase)
{
	pg_table_add_text(table, name);
	pg_table_add(table, pg_agent_text(phase, "network_mode"));
	pg_table_add_text(table,
			  pg_json_is_true(pg_json_member(phase, "allowed")) ? "allowed" : "denied");
	pg_table_add(table, pg_agent_text(phase, "entry"));
	pg_table_add(table, pg_agent_text(phase, "reason"));
}

static void print(const struct pg_json_value *root)
{
	const struct pg_json_value *phases = pg_json_member(root, "phases");
	const struct pg_json_value *phase = phases ? pg_json_first(phases) : NULL;
	const bool denied = pg_json_is_true(pg_json_member(root, "denied"));
	const bool allowed = pg_json_is_true(pg_json_member(root, "allowed")) && !denied;
	pg_autofree char *host = pg_agent_text(root, "host");
	pg_autofree char *name = pg_agent_text(root, "phase");
	pg_autofree char *reason = pg_agent_text(root, "reason");
	struct pg_table table = {.columns = 5};

	printf("%s is %s in phase %s: %s\n", host ? host : "", allowed ? "allowed" : "denied",
	       name ? name : "",
	       denied	? "everything is, since a lease is over"
	       : reason ? reason
			: "");
	for (; phase; phase = pg_json_next(phase))
		print_row(&table, pg_json_name_of(phase), phase);
	pg_table_print(&table, stdout);
}

static int run(struct pg_agent_call *call)
{
	const char *const *phase = call->wanted;
	bool allowed = false;
	char *text = NULL;

	if (phasegate_explain(call->client, call->arguments[0], call->arguments[1], *phase,
			      &allowed, &text, &call->error) < 0)
		return pg_agent_failed(call);
	return pg_agent_answer(call, text, print, allowed ? PG_EXIT_OK : PG_EXIT_NO);
}

int pg_command_explain(int argc, char **argv)
{
	static const struct pg_agent_command command = {
		.name = "explain",
		.synopsis = "NAME HOST|ADDRESS [OPTION]...",
		.summary = "Says whether an Environment may reach a host, and by which entry, in "
			   "each phase.",
		.details = "  --phase PHASE             judge by this phase instead of the one in "
			   "force\n",
		.exits = "  3  it is denied\n",
		.least = 2,
		.most = 2,
		.options = options,
		.option = parse_option,
		.run = run,
	};
	const char *phase = NULL;

	return pg_agent_command(&command, &phase, argc, argv);
}
