/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "policy/print.h"
#include "policy_input.h"
#include "request.h"

static const struct pg_json_field fields[] = {PG_POLICY_INPUT_FIELDS(0)};

/* A policy that is at fault is an answer, too, not an error: the same as `phasegate check`. */
void pg_api_validate(struct pg_agent *agent, const struct pg_request *request,
		     struct pg_reply *reply)
{
	pg_autopolicyinput struct pg_policy_input input = {0};
	pg_autojson struct pg_json *json = NULL;
	int error;

	if (pg_request_read(request, fields, PG_ARRAY_SIZE(fields), &input, &json, reply) < 0 ||
	    pg_policy_input_parse(json, &input, reply) < 0)
		return;
	error = pg_json_writer_start(&reply->json);
	if (!error)
		error = pg_policy_print_json(reply->json.out, input.policy, &input.diagnostics,
					     input.sources);
	if (!error)
		error = pg_json_writer_end(&reply->json, &reply->body, &reply->size);
	if (error)
		pg_reply_error(reply, PG_API_OUT_OF_MEMORY, NULL, NULL,
			       "no memory to print the policy");
	else
		reply->status = 200;
}
