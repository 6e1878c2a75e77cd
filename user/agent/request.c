/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <errno.h>
#include <string.h>

/* 64 members and a few hundred additions to a policy; the policy itself is not counted. */
static const struct pg_json_limits limits = {.size = PG_REQUEST_MAX,
					     .depth = 5,
					     .values = 4096,
					     .skip = "policy"};

static int fail(int error, const struct pg_json_problem *problem, struct pg_reply *reply)
{
	if (error == -ENOMEM)
		pg_reply_error(reply, PG_API_OUT_OF_MEMORY, NULL, NULL,
			       "no memory to read the request");
	else
		pg_reply_problem(reply, problem);
	return error;
}

int pg_request_parse(const char *body, size_t size, struct pg_json **ret_json,
		     struct pg_reply *reply)
{
	struct pg_json_problem problem = {};
	int error = pg_json_parse(body, size, &limits, ret_json, &problem);

	return error ? fail(error, &problem, reply) : 0;
}

int pg_request_read(const struct pg_request *request, const struct pg_json_field *fields,
		    size_t count, void *into, struct pg_json **ret_json, struct pg_reply *reply)
{
	struct pg_json_problem problem = {};
	pg_autojson struct pg_json *json = NULL;
	int error = pg_request_parse(request->body, request->size, &json, reply);

	if (error)
		return error;
	error = pg_json_read(json, pg_json_root(json), "", fields, count, into, &problem);
	if (error)
		return fail(error, &problem, reply);
	*ret_json = PG_TAKE_PTR(json);
	return 0;
}

struct pg_managed *pg_agent_find(const struct pg_agent *agent, const char *name)
{
	struct pg_managed *managed;

	LIST_FOREACH (managed, &agent->environments, link)
		if (strcmp(pg_environment_name(managed->environment), name) == 0)
			return managed;
	return NULL;
}

struct pg_managed *pg_request_environment(struct pg_agent *agent, const struct pg_request *request,
					  struct pg_reply *reply)
{
	struct pg_managed *managed = pg_agent_find(agent, request->name);

	/* One of somebody else is as if there were none. */
	if (managed && (request->caller->uid == 0 ||
			request->caller->uid == pg_environment_owner(managed->environment)))
		return managed;
	if (pg_record_name_valid(request->name))
		pg_reply_error(reply, PG_API_ENVIRONMENT_NOT_FOUND, request->name, NULL,
			       "there is no Environment of this name");
	else
		pg_reply_error(reply, PG_API_NAME_INVALID, NULL, NULL,
			       "this is not a name that an Environment can have");
	return NULL;
}

void pg_reply_failure(struct pg_reply *reply, const char *object, const struct pg_error *err)
{
	const enum pg_api_error code = err->number == -ENOMEM	? PG_API_OUT_OF_MEMORY
				       : err->number == -EAGAIN ? PG_API_BUSY
								: PG_API_ENFORCEMENT_FAILED;

	pg_reply_error(reply, code, object, NULL, "%s", err->text);
}
