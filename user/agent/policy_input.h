/* SPDX-License-Identifier: Apache-2.0 */
/* The policy in a request: documents, additions, and what is wrong with them. */
#pragma once

#include "json/json.h"
#include "policy/policy.h"
#include "reply.h"

/* Documents of one request; a later one replaces fields of an earlier one. */
#define PG_POLICY_INPUTS_MAX	16
/* Entries added to each phase. Each is looked for among all entries. */
#define PG_POLICY_ADDITIONS_MAX 256

/* The fields of a request, then what they say. All zero at first; sources point into the request.
 */
struct pg_policy_input {
	const char *form;
	const struct pg_json_value *allow;
	struct pg_policy_source sources[PG_POLICY_INPUTS_MAX];
	char names[PG_POLICY_INPUTS_MAX][16];
	size_t source_count;
	struct pg_diagnostics diagnostics;
	struct pg_policy *policy; /* NULL: it is at fault, see diagnostics */
};

/* Rows of the table of a struct in which it is a member, at the offset. */
#define PG_POLICY_INPUT_FIELDS(at) \
	{.name = "policy", .type = PG_JSON_SKIP, .required = true}, \
		{.name = "form", \
		 .type = PG_JSON_STRING, \
		 .offset = (at) + offsetof(struct pg_policy_input, form)}, \
	{ \
		.name = "allow", .type = PG_JSON_OBJECT, \
		.offset = (at) + offsetof(struct pg_policy_input, allow) \
	}

/* -EINVAL or -ENOMEM: the error is in reply. A policy that is at fault is none: see ->policy. */
int pg_policy_input_parse(const struct pg_json *json, struct pg_policy_input *input,
			  struct pg_reply *reply) PG_MUST_CHECK;
/* Replies with policy_invalid and all diagnostics. */
void pg_policy_input_refuse(const struct pg_policy_input *input, struct pg_reply *reply);
void pg_policy_input_clear(struct pg_policy_input *input);
#define pg_autopolicyinput PG_CLEANUP(pg_policy_input_clear)

/* Adds the policy's warnings to an array of {code, message, object}. */
void pg_policy_input_warnings(const struct pg_policy_input *input, struct pg_json_writer *json);
