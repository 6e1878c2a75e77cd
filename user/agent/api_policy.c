/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "describe.h"
#include "descriptors.h"
#include "generation.h"
#include "opens_host.h"
#include "phases.h"
#include "policy_input.h"
#include "quota.h"
#include "request.h"
#include "watch.h"

struct wanted {
	struct pg_policy_input input;
	uint64_t expected_generation;
};

static const struct pg_json_field fields[] = {
	PG_POLICY_INPUT_FIELDS(offsetof(struct wanted, input)),
	PG_JSON_FIELD(struct wanted, expected_generation, PG_JSON_NUMBER),
};

static void clear_wanted(struct wanted *wanted)
{
	pg_policy_input_clear(&wanted->input);
}

static void answer(const struct pg_managed *managed, const struct wanted *wanted,
		   const struct pg_switch *change, const struct pg_closing *closing,
		   const char *warnings, struct pg_reply *reply)
{
	struct pg_json_writer *json = pg_reply_open(reply, 200);

	if (!json)
		return;
	pg_json_write_string(json, "name", pg_environment_name(managed->environment));
	pg_json_write_string(json, "phase", pg_phase_name(change->phase));
	pg_json_write_number(json, "generation", change->generation);
	pg_json_write_bool(json, "changed", change->changed);
	pg_json_write_real(json, "took_us", (double)change->took_ns / PG_NSEC_PER_USEC);
	pg_json_write_number(json, "closed", closing->closed);
	pg_json_write_real(json, "close_us", (double)closing->took_ns / PG_NSEC_PER_USEC);
	pg_json_write_open(json, "warnings", '[');
	pg_policy_input_warnings(&wanted->input, json);
	if (*warnings) {
		pg_json_write_name(json, NULL);
		fputs(warnings, json->out);
	}
	pg_json_write_close(json, ']');
	pg_reply_close(reply);
}

static void report(struct pg_agent *agent, const struct pg_environment *environment,
		   const struct pg_switch *change)
{
	struct pg_json_writer json;

	if (!pg_agent_open_event(agent, &json, "policy", pg_environment_name(environment)))
		return;
	pg_json_write_number(&json, "generation", change->generation);
	pg_agent_close_event(agent, &json, pg_environment_owner(environment),
			     pg_environment_name(environment));
}

/* They are chosen when it is created. */
static int check_resolvers(const struct pg_environment *environment, const struct wanted *wanted,
			   const char *name, struct pg_reply *reply)
{
	if (!pg_policy_has_names(wanted->input.policy) || pg_environment_has_resolvers(environment))
		return 0;
	return pg_reply_error(reply, PG_API_NO_RESOLVER, "/policy", NULL,
			      "the policy has host names, and there was no nameserver when %s was"
			      " created",
			      name);
}

static void update(struct pg_agent *agent, const struct pg_request *request,
		   struct pg_managed *managed, const struct wanted *wanted, struct pg_reply *reply)
{
	struct pg_environment *environment = managed->environment;
	pg_autofree char *warnings = NULL;
	struct pg_closing closing = {0};
	struct pg_switch change = {0};
	struct pg_error err = {}, closing_err = {};
	int error;

	if (pg_agent_collect_warnings(agent, request->name) < 0) {
		pg_reply_error(reply, PG_API_OUT_OF_MEMORY, request->name, NULL,
			       "no memory for the update");
		return;
	}
	pg_opens_host_warn(agent, wanted->input.policy);
	error = pg_watch_look(agent, managed, &err);
	if (!error)
		error = pg_phase_prepare_update(agent, managed, wanted->input.policy, &err);
	if (!error)
		error = pg_environment_update(environment, wanted->input.policy, &change, &err);
	if (!error && pg_environment_close_forbidden(environment, &closing, &closing_err) < 0)
		pg_agent_warn(agent, "connections_open", closing_err.text);
	closing.closed += change.closed;
	pg_agent_take_warnings(agent, &warnings);
	if (error) {
		pg_reply_failure(reply, request->name, &err);
		return;
	}
	report(agent, environment, &change);
	answer(managed, wanted, &change, &closing, warnings ? warnings : "", reply);
}

void pg_api_policy(struct pg_agent *agent, const struct pg_request *request, struct pg_reply *reply)
{
	PG_CLEANUP(clear_wanted)
	struct wanted wanted = {.expected_generation = PG_ANY_GENERATION};
	struct pg_managed *managed = pg_request_environment(agent, request, reply);
	pg_autojson struct pg_json *json = NULL;

	if (!managed ||
	    pg_request_read(request, fields, PG_ARRAY_SIZE(fields), &wanted, &json, reply) < 0 ||
	    pg_policy_input_parse(json, &wanted.input, reply) < 0)
		return;
	if (!wanted.input.policy)
		pg_policy_input_refuse(&wanted.input, reply);
	else if (pg_check_generation(managed, wanted.expected_generation, reply) == 0 &&
		 pg_quota_check(agent, pg_environment_owner(managed->environment), managed,
				wanted.input.policy, request->name, reply) == 0 &&
		 check_resolvers(managed->environment, &wanted, request->name, reply) == 0 &&
		 pg_descriptors_check(agent,
				      PG_DESCRIPTORS_TO_MAKE(
					      pg_environment_member_count(managed->environment)),
				      request->name, reply) == 0)
		update(agent, request, managed, &wanted, reply);
}
