/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client.h"

/* Past the string that begins here; NULL: it has no end. */
static const char *skip_string(const char *text)
{
	for (text++; *text; text++) {
		if (*text == '"')
			return text + 1;
		if (*text == '\\' && !*++text)
			return NULL;
	}
	return NULL;
}

/*
 * Whether the text is one object from its first to its last character, as far as brackets go. The
 * agent reads it in full, and says better what is wrong; here it is only made sure that a document
 * cannot add members to the request around it.
 */
static bool is_one_object(const char *text)
{
	size_t depth = 0;

	text += strspn(text, " \t\r\n");
	if (*text != '{')
		return false;
	while (*text) {
		if (*text == '"') {
			text = skip_string(text);
			if (!text)
				return false;
			continue;
		}
		depth += *text == '{' || *text == '[';
		depth -= *text == '}' || *text == ']';
		text++;
		if (depth == 0)
			break;
	}
	return depth == 0 && text[strspn(text, " \t\r\n")] == '\0';
}

int client_write_object(struct pg_json_writer *json, const char *name, const char *text,
			struct phasegate_error **ret_error)
{
	if (!text || !is_one_object(text))
		return client_bad_argument(ret_error, "%s is not one JSON object", name);
	pg_json_write_name(json, name);
	fputs(text, json->out);
	return 0;
}

void client_write_given(struct pg_json_writer *json, const char *name, const char *text)
{
	if (text)
		pg_json_write_string(json, name, text);
}

static int write_documents(struct pg_json_writer *json, const struct phasegate_policy *policy,
			   struct phasegate_error **ret_error)
{
	if (policy->document_count == 0)
		return client_bad_argument(ret_error, "a policy has at least one document");
	pg_json_write_name(json, "policy");
	for (size_t i = 0; i < policy->document_count; i++) {
		if (!policy->documents[i] || !is_one_object(policy->documents[i]))
			return client_bad_argument(ret_error,
						   "policy document %zu is not one JSON object", i);
		fputs(i ? "," : policy->document_count > 1 ? "[" : "", json->out);
		fputs(policy->documents[i], json->out);
	}
	if (policy->document_count > 1)
		fputc(']', json->out);
	return 0;
}

static void write_additions(struct pg_json_writer *json, const struct phasegate_policy *policy,
			    const char *phase)
{
	bool open = false;

	for (size_t i = 0; i < policy->addition_count; i++) {
		if (strcmp(policy->additions[i].phase, phase) != 0)
			continue;
		if (!open)
			pg_json_write_open(json, phase, '[');
		open = true;
		pg_json_write_string(json, NULL, policy->additions[i].entry);
	}
	if (open)
		pg_json_write_close(json, ']');
}

int client_write_policy(struct pg_json_writer *json, const struct phasegate_policy *policy,
			struct phasegate_error **ret_error)
{
	static const char *const phases[] = {"setup", "run", "verifier"};
	int error = write_documents(json, policy, ret_error);

	if (error)
		return error;
	if (policy->env_params)
		pg_json_write_string(json, "form", "env-params");
	for (size_t i = 0; i < policy->addition_count; i++) {
		const char *phase = policy->additions[i].phase;
		size_t j = 0;

		while (phase && j < PG_ARRAY_SIZE(phases) && strcmp(phase, phases[j]) != 0)
			j++;
		if (!phase || j == PG_ARRAY_SIZE(phases))
			return client_bad_argument(
				ret_error, "the phases of additions are setup, run and verifier");
	}
	if (policy->addition_count == 0)
		return 0;
	pg_json_write_open(json, "allow", '{');
	for (size_t i = 0; i < PG_ARRAY_SIZE(phases); i++)
		write_additions(json, policy, phases[i]);
	pg_json_write_close(json, '}');
	return 0;
}
