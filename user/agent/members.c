/* SPDX-License-Identifier: Apache-2.0 */
#include "members.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

struct member {
	const char *cgroup, *container, *runtime;
	uint64_t pid;
};

static const struct pg_json_field fields[] = {
	PG_JSON_FIELD(struct member, cgroup, PG_JSON_STRING, .max = 4096),
	PG_JSON_FIELD(struct member, pid, PG_JSON_NUMBER, .max = INT_MAX),
};

void pg_member_list_clear(struct pg_member_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->paths[i]);
	free(list->sources);
	*list = (struct pg_member_list){0};
}

static int out_of_memory(struct pg_reply *reply)
{
	pg_reply_error(reply, PG_API_OUT_OF_MEMORY, NULL, NULL, "no memory for the members");
	return -ENOMEM;
}

/* The member's cgroup; what it was asked for as goes to sources. */
static int resolve(struct pg_agent *agent, const struct pg_request *request,
		   const struct member *member, const char *object, struct pg_member_list *list,
		   struct pg_json_writer *sources, struct pg_reply *reply)
{
	char **path = &list->paths[list->count];

	if (!member->pid == !member->cgroup) {
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, object, NULL,
				      "a member is one of cgroup and pid");
	}
	sources->comma = false;
	if (member->cgroup) {
		pg_json_write_string(sources, "kind", "cgroup");
		*path = strdup(member->cgroup);
		return *path ? 0 : out_of_memory(reply);
	}
	pg_json_write_string(sources, "kind", "pid");
	pg_json_write_number(sources, "pid", member->pid);
	list->attach = true;
	return pg_member_of_pid(agent, request, (pid_t)member->pid, object, path, reply);
}

static int add(struct pg_agent *agent, const struct pg_request *request, const struct pg_json *json,
	       const struct pg_json_value *element, struct pg_member_list *list,
	       struct pg_json_writer *sources, struct pg_reply *reply)
{
	struct pg_json_problem problem = {};
	struct member member = {0};
	char object[32];
	int error;

	snprintf(object, sizeof(object), "/members/%zu", list->count);
	error = pg_json_read(json, element, object, fields, PG_ARRAY_SIZE(fields), &member,
			     &problem);
	if (error) {
		pg_reply_problem(reply, &problem);
		return error;
	}
	error = resolve(agent, request, &member, object, list, sources, reply);
	if (error)
		return error;
	putc('\n', sources->out);
	list->count++;
	for (size_t i = 0; i + 1 < list->count; i++) {
		if (strcmp(list->paths[i], list->paths[list->count - 1]) != 0)
			continue;
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, object, NULL,
				      "two members are the same cgroup, %s", list->paths[i]);
	}
	return 0;
}

static int check(struct pg_agent *agent, const struct pg_request *request,
		 const struct pg_member_list *list, struct pg_reply *reply)
{
	int error = 0;

	for (size_t i = 0; !error && i < list->count; i++) {
		char object[32];

		snprintf(object, sizeof(object), "/members/%zu", i);
		error = pg_member_check(agent, request, list->paths[i], list->attach, object,
					reply);
	}
	return error;
}

int pg_members_resolve(struct pg_agent *agent, const struct pg_request *request,
		       const struct pg_json *json, const struct pg_json_value *array,
		       struct pg_member_list *list, struct pg_reply *reply)
{
	pg_autojsonwriter struct pg_json_writer sources = {0};
	const struct pg_json_value *element = array ? pg_json_first(array) : NULL;
	size_t size;
	int error = 0;

	if (pg_json_writer_start(&sources) < 0)
		return out_of_memory(reply);
	if (!element) {
		pg_json_write_string(&sources, "kind", "new");
		putc('\n', sources.out);
	}
	for (; element && !error; element = pg_json_next(element))
		error = add(agent, request, json, element, list, &sources, reply);
	if (!error)
		error = check(agent, request, list, reply);
	if (error)
		return error;
	if (pg_json_writer_end(&sources, &list->sources, &size) < 0)
		return out_of_memory(reply);
	return 0;
}
