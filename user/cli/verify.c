/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate verify */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent_command.h"

enum verify_option {
	VERIFY_ALLOWED = PG_OPTION_COMMAND_FIRST,
	VERIFY_BLOCKED,
	VERIFY_WITHOUT,
};

static const struct option options[] = {
	{"allowed", required_argument, NULL, VERIFY_ALLOWED},
	{"blocked", required_argument, NULL, VERIFY_BLOCKED},
	{"without", required_argument, NULL, VERIFY_WITHOUT},
	PG_AGENT_OPTIONS,
	{},
};

/* More than there are vectors. */
#define WITHOUT_MAX 64

struct wanted {
	struct phasegate_verify verify;
	const char *without[WITHOUT_MAX];
};

static int parse_option(void *userdata, int option, const char *value, struct pg_error *err)
{
	struct wanted *wanted = userdata;

	switch (option) {
	case VERIFY_ALLOWED:
		wanted->verify.allowed = value;
		break;
	case VERIFY_BLOCKED:
		wanted->verify.blocked = value;
		break;
	case VERIFY_WITHOUT:
		if (wanted->verify.without_count == WITHOUT_MAX)
			return pg_fail(err, -EINVAL, "--without is given more than %d times",
				       WITHOUT_MAX);
		wanted->without[wanted->verify.without_count++] = value;
		break;
	}
	return 0;
}

static bool is_text(const struct pg_json_value *row, const char *name, const char *text)
{
	const struct pg_json_value *value = pg_json_member(row, name);
	const char *string = value ? pg_json_string_of(value) : NULL;

	return string && !strcmp(string, text);
}

static const char *mark_of(const struct pg_json_value *row)
{
	if (pg_json_is_true(pg_json_member(row, "wrong")))
		return "OFF";
	if (is_text(row, "result", "inconclusive"))
		return "?";
	return is_text(row, "result", "not_possible") ? "-" : "ok";
}

/* object: the member of the row that says what was tried. */
static void print_row(struct pg_table *table, const struct pg_json_value *row, const char *phase,
		      const char *what, const char *object)
{
	pg_autofree char *text = row && object ? pg_agent_text(row, object) : NULL;
	char tried[400];

	snprintf(tried, sizeof(tried), "%s%s%s", what, text ? " " : "", text ? text : "");
	pg_table_add_text(table, row ? mark_of(row) : "-");
	pg_table_add_text(table, phase);
	pg_table_add_text(table, tried);
	if (!row) {
		pg_table_add_text(table, "-");
		pg_table_add_text(table, "there is nothing to try");
		return;
	}
	pg_table_add(table, pg_agent_text(row, "result"));
	pg_table_add(table, pg_agent_text(row, "reason"));
}

static void print_rows(struct pg_table *table, const struct pg_json_value *root, const char *phase)
{
	const struct pg_json_value *phases = pg_json_member(root, "phases");
	const struct pg_json_value *vectors = pg_json_member(root, "vectors");
	const struct pg_json_value *row = phases ? pg_json_first(phases) : NULL;

	print_row(table, pg_json_member(root, "allowed"), phase, "allowed", "target");
	print_row(table, pg_json_member(root, "blocked"), phase, "blocked", "target");
	for (; row; row = pg_json_next(row)) {
		const char *name = pg_json_name_of(row);

		print_row(table, pg_json_member(row, "allowed"), name, "allowed", "address");
		print_row(table, pg_json_member(row, "blocked"), name, "blocked", "address");
	}
	for (row = vectors ? pg_json_first(vectors) : NULL; row; row = pg_json_next(row)) {
		pg_autofree char *name = pg_agent_text(row, "name");

		print_row(table, row, phase, name ? name : "", NULL);
	}
}

static const char *explain(const char *result)
{
	if (!strcmp(result, "not_enforced"))
		return ": see \"OFF\"";
	if (!strcmp(result, "inconclusive"))
		return ": not everything is proved, see \"?\"";
	return "";
}

static void print(const struct pg_json_value *root)
{
	struct pg_table table = {.columns = 5};
	pg_autofree char *result = pg_agent_text(root, "result");
	pg_autofree char *phase = pg_agent_text(root, "phase");

	print_rows(&table, root, phase ? phase : "");
	pg_table_print(&table, stdout);
	printf("phase %s: %s%s\n", phase ? phase : "", result ? result : "",
	       explain(result ? result : ""));
}

static int run(struct pg_agent_call *call)
{
	const struct wanted *wanted = call->wanted;
	struct phasegate_verify verify = wanted->verify;
	enum phasegate_verdict verdict = PHASEGATE_INCONCLUSIVE;
	int status = PG_EXIT_INCONCLUSIVE;
	char *text = NULL;

	verify.without = wanted->without;
	if (phasegate_verify(call->client, call->arguments[0], &verify, &verdict, &text,
			     &call->error) < 0)
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
		.summary =
			"Tries from inside of an Environment a destination that its phase allows, "
			"one "
			"that it\n"
			"denies, and the ways around that need no privileges. Something is blocked "
			"only if the\n"
			"kernel has reported the denial. Other phases are looked up in the "
			"kernel's "
			"tables.",
		.details = "  --allowed HOST:PORT       the first (default: the first entry of the "
			   "phase, port\n"
			   "                            443; none in phases of mode no-network)\n"
			   "  --blocked ADDRESS:PORT    the second (default: an address for "
			   "documentation)\n"
			   "  --without VECTOR          leave out a way, as the table calls it; "
			   "may be "
			   "repeated\n",
		.exits = "  3  the opposite of what the policy says has been seen\n"
			 "  4  inconclusive: not everything is proved\n",
		.least = 1,
		.most = 1,
		.options = options,
		.option = parse_option,
		.run = run,
	};
	struct wanted wanted = {.verify.allowed = NULL};

	return pg_agent_command(&command, &wanted, argc, argv);
}
