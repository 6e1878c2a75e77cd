/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "policy/print.h"

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The length of the JSON value at text, which the scan has found well nested. */
static size_t value_length(const char *text, size_t size)
{
	size_t depth = 0, i;

	for (i = 0; i < size; i++) {
		if (text[i] == '"') {
			for (i++; i < size && text[i] != '"'; i++)
				i += text[i] == '\\';
		} else if (text[i] == '{' || text[i] == '[') {
			depth++;
		} else if ((text[i] == ',' || text[i] == ']' || text[i] == '}') && depth == 0) {
			break;
		} else if (text[i] == ']' || text[i] == '}') {
			depth--;
		}
	}
	return i < size ? i : size;
}

static int add_source(struct pg_policy_input *input, const char *text, size_t size)
{
	char *name;

	if (input->source_count == PG_POLICY_INPUTS_MAX)
		return -E2BIG;
	name = input->names[input->source_count];
	snprintf(name, sizeof(input->names[0]), "policy/%zu", input->source_count);
	input->sources[input->source_count++] =
		(struct pg_policy_source){.name = name, .text = text, .size = size};
	return 0;
}

/* An array of documents, or one. What is none is left to the policy's parser to refuse. */
static int split(struct pg_policy_input *input, const char *text, size_t size)
{
	size_t at = 1;
	int error = 0;

	if (size < 2 || *text != '[' || text[size - 1] != ']') {
		error = add_source(input, text, size);
		snprintf(input->names[0], sizeof(input->names[0]), "policy");
		return error;
	}
	while (!error && at < size) {
		size_t length;

		while (at < size && is_space(text[at]))
			at++;
		length = value_length(text + at, size - at);
		/* "[]" is no document at all; "[{},]" has an empty one, which is a fault. */
		if (length > 0 || text[at] == ',' || input->source_count > 0)
			error = add_source(input, text + at, length);
		at += length + 1;
	}
	return error;
}

struct additions {
	const struct pg_json_value *phase[PG_PHASE_COUNT];
};

static const struct pg_json_field addition_fields[] = {
#define PG_X(symbol, value, phase_name, field) \
	{.name = (phase_name), \
	 .type = PG_JSON_ARRAY, \
	 .offset = offsetof(struct additions, phase[value]), \
	 .max = PG_POLICY_ADDITIONS_MAX},
	PG_PHASES(PG_X)
#undef PG_X
};

static int read_additions(const struct pg_json *json, const struct pg_json_value *allow,
			  struct pg_policy_addition *additions, size_t *ret_count,
			  struct pg_json_problem *problem)
{
	struct additions lists = {.phase = {NULL}};
	size_t count = 0;
	int error = 0;

	if (allow)
		error = pg_json_read(json, allow, "/allow", addition_fields,
				     PG_ARRAY_SIZE(addition_fields), &lists, problem);
	for (size_t i = 0; !error && i < PG_PHASE_COUNT; i++) {
		const struct pg_json_value *entry = NULL;

		if (lists.phase[i])
			entry = pg_json_first(lists.phase[i]);
		for (; entry && !error; entry = pg_json_next(entry)) {
			additions[count].phase = (enum pg_phase)i;
			additions[count].entry = pg_json_string_of(entry);
			if (!additions[count++].entry)
				error = pg_json_fail(problem, "/allow", NULL,
						     "entries to add are strings");
		}
	}
	*ret_count = count;
	return error;
}

static int parse_form(const char *name, enum pg_policy_form *ret_form,
		      struct pg_json_problem *problem)
{
	*ret_form = PG_POLICY_BARE;
	if (!name || strcmp(name, "bare") == 0)
		return 0;
	*ret_form = PG_POLICY_ENV_PARAMS;
	if (strcmp(name, "env-params") == 0)
		return 0;
	return pg_json_fail(problem, "/form", NULL, "the forms are bare and env-params");
}

static int parse(const struct pg_json *json, struct pg_policy_input *input,
		 struct pg_json_problem *problem)
{
	pg_autofree struct pg_policy_addition *additions =
		calloc(PG_PHASE_COUNT * PG_POLICY_ADDITIONS_MAX, sizeof(*additions));
	enum pg_policy_form form;
	size_t size, count = 0;
	const char *text = pg_json_skipped(json, &size);
	int error = additions ? parse_form(input->form, &form, problem) : -ENOMEM;

	if (!error)
		error = read_additions(json, input->allow, additions, &count, problem);
	if (!error && split(input, text, size) < 0)
		error = pg_json_fail(problem, "/policy", NULL, "at most %d documents",
				     PG_POLICY_INPUTS_MAX);
	if (!error && input->source_count == 0)
		error = pg_json_fail(problem, "/policy", NULL,
				     "no document: write {} for a policy that allows everything");
	if (error)
		return error;
	error = pg_policy_parse(input->sources, input->source_count, additions, count, form,
				&input->policy, &input->diagnostics);
	return error == -EINVAL ? 0 : error;
}

int pg_policy_input_parse(const struct pg_json *json, struct pg_policy_input *input,
			  struct pg_reply *reply)
{
	struct pg_json_problem problem = {};
	int error = parse(json, input, &problem);

	if (error == -EINVAL)
		pg_reply_problem(reply, &problem);
	else if (error)
		pg_reply_error(reply, PG_API_OUT_OF_MEMORY, NULL, NULL,
			       "no memory to read the policy");
	return error;
}

void pg_policy_input_clear(struct pg_policy_input *input)
{
	pg_policy_free(PG_TAKE_PTR(input->policy));
	pg_diagnostics_clear(&input->diagnostics);
}

/* As {code, message, object, value, hint}; object points into the request. */
static void write_diagnostic(const struct pg_policy_input *input,
			     const struct pg_diagnostic *diagnostic, struct pg_json_writer *json)
{
	char object[320];
	const char *source = diagnostic->source < input->source_count
				     ? input->sources[diagnostic->source].name
				     : "allow";

	snprintf(object, sizeof(object), "/%s%s", source, diagnostic->pointer);
	pg_json_write_open(json, NULL, '{');
	pg_json_write_string(json, "code", pg_diagnostic_code_name(diagnostic->code));
	pg_json_write_string(json, "message", diagnostic->message);
	pg_json_write_string(json, "object", object);
	pg_json_write_string(json, "value", diagnostic->value);
	pg_json_write_string(json, "hint", diagnostic->hint);
	pg_json_write_close(json, '}');
}

static void write_diagnostics(const struct pg_policy_input *input, bool errors,
			      struct pg_json_writer *json)
{
	const struct pg_diagnostics *diagnostics = &input->diagnostics;

	for (size_t i = 0; i < diagnostics->count; i++)
		if (pg_diagnostic_is_error(diagnostics->items[i].code) == errors)
			write_diagnostic(input, &diagnostics->items[i], json);
}

void pg_policy_input_warnings(const struct pg_policy_input *input, struct pg_json_writer *json)
{
	write_diagnostics(input, false, json);
}

void pg_policy_input_refuse(const struct pg_policy_input *input, struct pg_reply *reply)
{
	struct pg_json_writer *json =
		pg_reply_open_error(reply, PG_API_POLICY_INVALID, "/policy", NULL,
				    "the policy has %zu error%s, so nothing was changed",
				    input->diagnostics.errors,
				    input->diagnostics.errors == 1 ? "" : "s");

	if (!json)
		return;
	pg_json_write_open(json, "errors", '[');
	write_diagnostics(input, true, json);
	pg_json_write_close(json, ']');
	pg_json_write_open(json, "warnings", '[');
	write_diagnostics(input, false, json);
	pg_json_write_close(json, ']');
	pg_reply_close(reply);
}
