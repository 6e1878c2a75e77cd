/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "describe.h"
#include "descriptors.h"
#include "exposures_watch.h"
#include "request.h"
#include "server.h"
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

void pg_agent_ended(struct pg_agent *agent, const struct pg_environment *environment,
		    const struct pg_error *fault)
{
	const char *name = pg_environment_name(environment);

	if (fault)
		pg_log_error("%s: %s", name, fault->text);
	report(agent, pg_environment_owner(environment), name, "kill");
	/* Also if there was no memory for the event. */
	if (agent->server)
		pg_server_notify(agent->server);
}

/* Of one whose processes do not die at once; for others it does not exist any more. */
static void answer_waited_for(struct pg_agent *agent, const struct pg_request *request,
			      struct pg_reply *reply)
{
	struct pg_error err = {};
	const int error = pg_host_ending(agent->host, *request->resume, &err);

	if (!error)
		answer_destroyed(request->name, reply);
	else if (error == -EINPROGRESS && !request->last)
		reply->wait = true;
	else if (error == -EINPROGRESS && agent->stopping)
		pg_reply_error(reply, PG_API_STOPPING, request->name, NULL,
			       "the agent is being stopped, and its next start goes on: %s",
			       err.text);
	else
		pg_reply_failure(reply, request->name, &err);
}

static void answer_refused(const struct pg_request *request, enum pg_destroy how,
			   const struct pg_error *err, struct pg_reply *reply)
{
	if (err->number == -EBUSY)
		pg_reply_error(reply, PG_API_ENVIRONMENT_POPULATED, request->name,
			       how == PG_DESTROY_RELEASE
				       ? "stop its processes, or destroy it with processes=kill"
				       : NULL,
			       "%s", err->text);
	else
		pg_reply_failure(reply, request->name, err);
}

static void destroy(struct pg_agent *agent, const struct pg_request *request,
		    struct pg_managed *managed, enum pg_destroy how, struct pg_reply *reply)
{
	const char *processes = pg_request_query(request, "processes");
	const uid_t owner = pg_environment_owner(managed->environment);
	const uint64_t id = pg_environment_id(managed->environment);
	struct pg_error err = {};
	int error;

	pg_verifications_stop(agent, managed->environment);
	pg_environment_tidy_inside(managed->environment);
	error = pg_environment_destroy(managed->environment, how, &err);
	if (error == -EBUSY || error == -EAGAIN) {
		answer_refused(request, how, &err, reply);
		return;
	}
	forget(agent, managed);
	if (error == -EINPROGRESS) {
		*request->resume = id;
		reply->wait = true;
		return;
	}
	report(agent, owner, request->name, processes ? processes : "refuse");
	if (error) {
		pg_log_error("%s: %s", request->name, err.text);
		pg_reply_failure(reply, request->name, &err);
	} else {
		answer_destroyed(request->name, reply);
	}
}

void pg_api_destroy(struct pg_agent *agent, const struct pg_request *request,
		    struct pg_reply *reply)
{
	struct pg_managed *managed;
	enum pg_destroy how;

	if (*request->resume) {
		answer_waited_for(agent, request, reply);
		return;
	}
	managed = pg_request_environment(agent, request, reply);
	if (!managed)
		return;
	if (parse_how(pg_request_query(request, "processes"), &how) < 0) {
		pg_reply_error(reply, PG_API_REQUEST_INVALID, "processes", NULL,
			       "processes is kill, release or refuse");
		return;
	}
	if (pg_descriptors_check(agent, PG_DESCRIPTORS_TO_DESTROY, request->name, reply) < 0)
		return;
	destroy(agent, request, managed, how, reply);
}
