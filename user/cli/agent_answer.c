/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the agent, for people or as they are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent_command.h"
#include "base/json_text.h"
#include "base/text.h"

/* Longest text of one value. */
#define TEXT_MAX 2048

static const struct pg_json_limits limits = {
	.size = 256UL * 1024 * 1024,
	.depth = 16,
	.values = 16UL * 1024 * 1024,
};

static char *printable(const char *text)
{
	return pg_text_printable(text, strlen(text), TEXT_MAX);
}

char *pg_agent_text(const struct pg_json_value *object, const char *name)
{
	const struct pg_json_value *value = pg_json_member(object, name);
	const char *text = value ? pg_json_string_of(value) : "-";

	if (text)
		return printable(text);
	return pg_json_print(value);
}

void pg_agent_line(const struct pg_json_value *object, const char *name, const char *label)
{
	pg_autofree char *text = NULL;

	if (!pg_json_member(object, name))
		return;
	text = pg_agent_text(object, name);
	printf("%-15s %s\n", label, text ? text : "");
}

void pg_agent_diagnostics(FILE *out, const struct pg_json_value *array, const char *kind)
{
	const struct pg_json_value *item = array ? pg_json_first(array) : NULL;

	for (; item; item = pg_json_next(item)) {
		pg_autofree char *code = pg_agent_text(item, "code");
		pg_autofree char *message = pg_agent_text(item, "message");
		pg_autofree char *object = pg_agent_text(item, "object");
		pg_autofree char *value = pg_agent_text(item, "value");
		pg_autofree char *hint = pg_agent_text(item, "hint");

		if (!code || !message || !object || !value || !hint)
			continue;
		fprintf(out, "%s: ", kind);
		if (pg_json_member(item, "object"))
			fprintf(out, "%s: ", object);
		fprintf(out, "%s: %s\n", code, message);
		if (pg_json_member(item, "value"))
			fprintf(out, "  read:  \"%s\"\n", value);
		if (pg_json_member(item, "hint"))
			fprintf(out, "  write: \"%s\"\n", hint);
	}
}

void pg_agent_survivors(FILE *out, const char *label, const struct pg_json_value *array)
{
	const struct pg_json_value *item = array ? pg_json_first(array) : NULL;

	for (; item; item = pg_json_next(item)) {
		pg_autofree char *pid = pg_agent_text(item, "pid");
		pg_autofree char *command = pg_agent_text(item, "command");
		pg_autofree char *cgroup = pg_agent_text(item, "cgroup");

		if (pid && command && cgroup)
			fprintf(out, "%s: process %s (%s) in %s\n", label, pid, command, cgroup);
	}
}

/* The first one is in the message already. */
static void print_more_exposures(const struct pg_json_value *array)
{
	const struct pg_json_value *item = array ? pg_json_first(array) : NULL;

	while (item && (item = pg_json_next(item))) {
		pg_autofree char *message = pg_agent_text(item, "message");
		pg_autofree char *id = pg_agent_text(item, "id");
		pg_autofree char *next_step = pg_agent_text(item, "next_step");
		const struct pg_json_value *may = pg_json_member(item, "acceptable");

		if (!message || !id || !next_step)
			continue;
		fprintf(stderr, "%s (%s)\n  -> %s", message, id, next_step);
		if (may && pg_json_is_true(may))
			fprintf(stderr, "; or --accept %s", id);
		putc('\n', stderr);
	}
}

/* Whether or not it has its line's end. */
static void print_json(const char *text)
{
	const size_t size = strlen(text);

	fputs(text, stdout);
	if (size == 0 || text[size - 1] != '\n')
		putchar('\n');
}

static void print_error_json(const struct phasegate_error *error)
{
	if (error->json) {
		print_json(error->json);
		return;
	}
	fputs("{\"code\":", stdout);
	pg_json_string(stdout, error->code);
	fputs(",\"message\":", stdout);
	pg_json_string(stdout, error->message);
	fputs(",\"object\":", stdout);
	pg_json_string(stdout, error->object);
	fputs(",\"next_step\":", stdout);
	pg_json_string(stdout, error->next_step);
	puts("}");
}

/* Lists that come with some errors. */
static void print_more(const char *text)
{
	struct pg_json_problem problem = {};
	pg_autojson struct pg_json *json = NULL;
	const struct pg_json_value *root;

	if (!text || pg_json_parse(text, strlen(text), &limits, &json, &problem) < 0)
		return;
	root = pg_json_root(json);
	pg_agent_diagnostics(stderr, pg_json_member(root, "errors"), "error");
	pg_agent_diagnostics(stderr, pg_json_member(root, "warnings"), "warning");
	pg_agent_survivors(stderr, "survivor", pg_json_member(root, "survivors"));
	print_more_exposures(pg_json_member(root, "exposures"));
}

/* What the agent says in words of the API, in those of the command line. */
static const char *next_step_of(const struct phasegate_error *error)
{
	static const struct {
		const char *code, *next_step;
	} ours[] = {
		{"request_invalid", "correct it; the command's --help says what it takes"},
		{"environment_not_found", "phasegate env list shows those that you may use"},
		{"environment_populated", "stop its processes, or give --kill or --release"},
		{"member_populated", "give --attach to take over processes that run already, or "
				     "name an empty cgroup"},
		{"generation_mismatch", "somebody else has switched or updated it; phasegate env "
					"show says what is in force"},
		{"survivors_present", "end the processes, or give --survivors kill, freeze or "
				      "allow"},
		{"cursor_expired", "some events are lost; go on with the number before the "
				   "message, as --cursor N"},
		{"policy_invalid", "correct every error that follows; phasegate check tries a "
				   "policy without the agent"},
		{"verifier_on_host", "verify on the host, or create the Environment with "
				     "--verifier same or new"},
		{"lease_wider", "let --then be a phase that allows no more than the one taken, or "
				"deny"},
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(ours); i++)
		if (!strcmp(error->code, ours[i].code))
			return ours[i].next_step;
	return error->next_step;
}

static void print_error(const struct phasegate_error *error, const char *better)
{
	pg_autofree char *message = printable(error->message);
	pg_autofree char *object = error->object ? printable(error->object) : NULL;
	pg_autofree char *next_step = printable(better ? better : next_step_of(error));

	fprintf(stderr, "phasegate: %s%s%s (%s)\n", object ? object : "", object ? ": " : "",
		message ? message : "", error->code);
	if (next_step && *next_step)
		fprintf(stderr, "  -> %s\n", next_step);
	print_more(error->json);
}

/* What was written is wrong, whatever the agent has. */
static bool is_usage(const char *code)
{
	return !strcmp(code, "policy_invalid") || !strcmp(code, "request_invalid") ||
	       !strcmp(code, "name_invalid") || !strcmp(code, "bad_argument");
}

int pg_agent_failed(struct pg_agent_call *call)
{
	const struct phasegate_error *error = call->error;

	if (call->json)
		print_error_json(error);
	else
		print_error(error, call->next_step);
	if (!strcmp(error->code, "agent_unreachable"))
		return PG_EXIT_UNREACHABLE;
	return is_usage(error->code) ? PG_EXIT_USAGE : PG_EXIT_FAILURE;
}

int pg_agent_answer(const struct pg_agent_call *call, char *text,
		    void (*print)(const struct pg_json_value *root), int status)
{
	struct pg_json_problem problem = {};
	pg_autojson struct pg_json *json = NULL;
	int error = 0;

	if (call->json)
		print_json(text);
	else
		error = pg_json_parse(text, strlen(text), &limits, &json, &problem);
	if (json)
		print(pg_json_root(json));
	phasegate_free(text);
	if (!error)
		return status;
	fprintf(stderr, "phasegate: cannot read the agent's answer: %s\n",
		error == -ENOMEM ? "not enough memory" : problem.message);
	return PG_EXIT_FAILURE;
}
