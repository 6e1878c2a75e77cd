/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "describe.h"
#include "descriptors.h"
#include "exposures_watch.h"
#include "request.h"
#include "verify.h"

void pg_api_list(struct pg_agent *agent, const struct pg_request *request, struct pg_reply *reply)
{
	struct pg_json_writer *json = pg_reply_open(reply, 200);
	struct pg_managed *managed;

	if (!json)
		return;
	pg_json_write_open(json, "environments", '[');
	LIST_FOREACH (managed, &agent->environments, link) {
		const uid_t owner = pg_environment_owner(managed->environment);

		if (request->caller->uid != 0 && request->caller->uid != owner)
			continue;
		pg_json_write_open(json, NULL, '{');
		pg_describe(managed, PG_DETAIL_LIST, json);
		pg_json_write_close(json, '}');
	}
	pg_json_write_close(json, ']');
	pg_reply_close(reply);
}

void pg_api_show(struct pg_agent *agent, const struct pg_request *request, struct pg_reply *reply)
{
	const struct pg_managed *managed = pg_request_environment(agent, request, reply);
	struct pg_json_writer *json = managed ? pg_reply_open(reply, 200) : NULL;

	if (!json)
		return;
	pg_describe(managed, PG_DETAIL_WHOLE, json);
	pg_reply_close(reply);
}

static int parse_how(const char *text, enum pg_destroy *ret_how)
{
	*ret_how = PG_DESTROY_IF_EMPTY;
	if (!text || strcmp(text, "refuse") == 0)
		return 0;
	*ret_how = PG_DESTROY_KILL;
	if (strcmp(text, "kill") == 0)
		return 0;
	*ret_how = PG_DESTROY_RELEASE;
	return strcmp(text, "release") == 0 ? 0 : -EINVAL;
}

/* The object is gone, whether or not something of it was left. */
static void forget(struct pg_agent *agent, struct pg_managed *managed)
{
	LIST_REMOVE(managed, link);
	agent->environment_count--;
	pg_exposures_unwatch(managed);
	pg_note_clear(&managed->note);
	free(managed);
}

static void report(struct pg_agent *agent, uid_t owner, const char *name, const char *processes)
{
	struct pg_json_writer json;

	pg_log_info("%s: destroyed%s%s", name, strcmp(processes, "refuse") ? ", processes: " : "",
		    strcmp(processes, "refuse") ? processes : "");
	if (!pg_agent_open_event(agent, &json, "destroyed", name))
		return;
	pg_json_write_string(&json, "processes", processes);
	pg_agent_close_event(agent, &json, owner, name);
}

static void answer_destroyed(const char *name, struct pg_reply *reply)
{
	struct pg_json_writer *json = pg_reply_open(reply, 200);

	if (!json)
		return;
	pg_json_write_string(json, "name", name);
	pg_json_write_bool(json, "destroyed", true);
	pg_reply_close(reply);
}

void pg_api_destroy(struct pg_agent *agent, const struct pg_request *request,
		    struct pg_reply *reply)
{
	struct pg_managed *managed = pg_request_environment(agent, request, reply);
	const char *processes = pg_request_query(request, "processes");
	struct pg_error err = {};
	enum pg_destroy how;
	uid_t owner;
	int error;

	if (!managed)
		return;
	if (parse_how(processes, &how) < 0) {
		pg_reply_error(reply, PG_API_REQUEST_INVALID, "processes", NULL,
			       "processes is kill, release or refuse");
		return;
	}
	if (pg_descriptors_check(agent, PG_DESCRIPTORS_TO_DESTROY, request->name, reply) < 0)
		return;
	owner = pg_environment_owner(managed->environment);
	pg_verifications_stop(agent, managed->environment);
	pg_environment_tidy_inside(managed->environment);
	error = pg_environment_destroy(managed->environment, how, &err);
	if (error == -EBUSY) {
		pg_reply_error(reply, PG_API_ENVIRONMENT_POPULATED, request->name,
			       how == PG_DESTROY_RELEASE
				       ? "stop its processes, or destroy it with processes=kill"
				       : NULL,
			       "%s", err.text);
		return;
	}
	if (error == -EAGAIN) {
		pg_reply_failure(reply, request->name, &err);
		return;
	}
	forget(agent, managed);
	report(agent, owner, request->name, processes ? processes : "refuse");
	if (error) {
		pg_log_error("%s: %s", request->name, err.text);
		pg_reply_failure(reply, request->name, &err);
	} else {
		answer_destroyed(request->name, reply);
	}
}
