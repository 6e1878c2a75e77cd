/* SPDX-License-Identifier: Apache-2.0 */
#include "members.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "containers.h"
#include "exposures.h"

struct member {
	const char *cgroup, *container, *runtime;
	uint64_t pid;
};

static const struct pg_json_field fields[] = {
	PG_JSON_FIELD(struct member, cgroup, PG_JSON_STRING, .max = 4096),
	PG_JSON_FIELD(struct member, pid, PG_JSON_NUMBER, .max = INT_MAX),
	PG_JSON_FIELD(struct member, container, PG_JSON_STRING, .max = 255),
	PG_JSON_FIELD(struct member, runtime, PG_JSON_STRING, .max = 16),
};

void pg_member_list_clear(struct pg_member_list *list)
{
	for (size_t i = 0; i < PG_MEMBERS_MAX; i++) {
		free(list->paths[i]);
		pg_member_container_free(list->containers[i]);
	}
	for (size_t i = 0; i < PG_RUNTIME_COUNT; i++)
		pg_neighbours_clear(&list->around[i].neighbours);
	free(list->sources);
	pg_exposures_clear(&list->exposures);
	*list = (struct pg_member_list){0};
}

static int out_of_memory(struct pg_reply *reply)
{
	pg_reply_error(reply, PG_API_OUT_OF_MEMORY, NULL, NULL, "no memory for the members");
	return -ENOMEM;
}

struct pg_runtimes pg_member_list_runtimes(const struct pg_agent *agent,
					   const struct pg_member_list *list)
{
	struct pg_runtimes runtimes = {.deadline = list->deadline, .cancelled = list->cancelled};

	for (size_t i = 0; i < PG_RUNTIME_COUNT; i++)
		runtimes.paths[i] = agent->config->runtimes[i];
	return runtimes;
}

static int resolve_container(const struct pg_agent *agent, const struct pg_caller *caller,
			     const struct member *member, const char *object,
			     struct pg_member_list *list, struct pg_json_writer *sources,
			     struct pg_reply *reply)
{
	struct pg_member_container **found = &list->containers[list->count];
	int error = pg_member_of_container(agent, caller, member->runtime, member->container,
					   object, list, &list->paths[list->count], found, reply);

	list->attach = true;
	if (!error)
		pg_member_container_describe(*found, sources);
	return error;
}

static int resolve_pid(const struct pg_agent *agent, const struct pg_caller *caller,
		       const struct member *member, const char *object, struct pg_member_list *list,
		       struct pg_json_writer *sources, struct pg_reply *reply)
{
	pg_json_write_string(sources, "kind", "pid");
	pg_json_write_number(sources, "pid", member->pid);
	list->attach = true;
	return pg_member_of_pid(agent, caller, (pid_t)member->pid, object,
				&list->paths[list->count], reply);
}

/* The member's cgroup; what it was asked for as goes to sources. */
static int resolve(const struct pg_agent *agent, const struct pg_caller *caller,
		   const struct member *member, const char *object, struct pg_member_list *list,
		   struct pg_json_writer *sources, struct pg_reply *reply)
{
	if (!member->pid + !member->cgroup + !member->container != 2 ||
	    (member->runtime && !member->container))
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, object, NULL,
				      "a member is one of cgroup, pid and container, the last"
				      " with its runtime or without");
	sources->comma = false;
	if (member->container)
		return resolve_container(agent, caller, member, object, list, sources, reply);
	if (member->pid)
		return resolve_pid(agent, caller, member, object, list, sources, reply);
	pg_json_write_string(sources, "kind", "cgroup");
	list->paths[list->count] = strdup(member->cgroup);
	return list->paths[list->count] ? 0 : out_of_memory(reply);
}

static int add(const struct pg_agent *agent, const struct pg_caller *caller,
	       const struct pg_json *json, const struct pg_json_value *element,
	       struct pg_member_list *list, struct pg_json_writer *sources, struct pg_reply *reply)
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
	error = resolve(agent, caller, &member, object, list, sources, reply);
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

static int check(const struct pg_agent *agent, const struct pg_caller *caller,
		 const struct pg_member_list *list, struct pg_reply *reply)
{
	int error = 0;

	for (size_t i = 0; !error && i < list->count; i++) {
		char object[32];

		snprintf(object, sizeof(object), "/members/%zu", i);
		error = pg_member_check(agent, caller, list->paths[i], list->attach,
					list->containers[i], object, reply);
	}
	return error;
}

bool pg_members_ask(const struct pg_json_value *array)
{
	const struct pg_json_value *element = array ? pg_json_first(array) : NULL;

	for (; element; element = pg_json_next(element))
		if (pg_json_is_object(element) && pg_json_member(element, "container"))
			return true;
	return false;
}

/* Not knowing them is no reason to refuse. */
static void look_around(const struct pg_agent *agent, struct pg_member_list *list)
{
	const struct pg_runtimes runtimes = pg_member_list_runtimes(agent, list);

	for (size_t i = 0; i < list->count; i++) {
		const struct pg_member_container *member = list->containers[i];
		struct pg_surroundings *around =
			member ? &list->around[member->container.runtime] : NULL;

		if (!around || around->asked)
			continue;
		around->asked = true;
		(void)!pg_container_list(&runtimes, member->container.runtime, &around->neighbours,
					 &around->err);
	}
}

int pg_members_resolve(const struct pg_agent *agent, const struct pg_caller *caller,
		       const struct pg_json *json, const struct pg_json_value *array,
		       struct pg_member_list *list, struct pg_reply *reply)
{
	pg_autojsonwriter struct pg_json_writer sources = {0};
	const struct pg_json_value *element = array ? pg_json_first(array) : NULL;
	size_t size;
	int error = 0;

	list->deadline = pg_monotonic_ns() + PG_RUNTIME_WAIT_MS * PG_NSEC_PER_MSEC;
	if (pg_json_writer_start(&sources) < 0)
		return out_of_memory(reply);
	if (!element) {
		pg_json_write_string(&sources, "kind", "new");
		putc('\n', sources.out);
	}
	for (; element && !error; element = pg_json_next(element))
		error = add(agent, caller, json, element, list, &sources, reply);
	if (!error)
		error = check(agent, caller, list, reply);
	if (error)
		return error;
	if (pg_json_writer_end(&sources, &list->sources, &size) < 0)
		return out_of_memory(reply);
	look_around(agent, list);
	pg_exposures_find(agent, list);
	return 0;
}
