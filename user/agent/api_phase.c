/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "compile/allows.h"
#include "describe.h"
#include "generation.h"
#include "phases.h"
#include "request.h"
#include "watch.h"

/* A month: a harness that is away for longer will not come back. */
#define LEASE_MAX_S (31UL * 24 * 3600)

struct wanted {
	const char *phase, *survivors;
	uint64_t expected_generation;
	const struct pg_json_value *lease;
};

static const struct pg_json_field fields[] = {
	PG_JSON_FIELD(struct wanted, phase, PG_JSON_STRING, .required = true),
	PG_JSON_FIELD(struct wanted, survivors, PG_JSON_STRING),
	PG_JSON_FIELD(struct wanted, expected_generation, PG_JSON_NUMBER),
	PG_JSON_FIELD(struct wanted, lease, PG_JSON_OBJECT),
};

struct wanted_lease {
	uint64_t seconds;
	const char *then;
};

static const struct pg_json_field lease_fields[] = {
	PG_JSON_FIELD(struct wanted_lease, seconds, PG_JSON_NUMBER, .max = LEASE_MAX_S,
		      .required = true),
	PG_JSON_FIELD(struct wanted_lease, then, PG_JSON_STRING),
};

/* What the lease falls back to: setup, if nothing is said and that allows no more. */
static int choose_then(const struct pg_policy *policy, const char *word, enum pg_phase phase,
		       int *ret_then, struct pg_reply *reply)
{
	enum pg_phase then = PG_PHASE_SETUP;

	*ret_then = PG_LEASE_DENY;
	if (word && strcmp(word, "deny") == 0)
		return 0;
	if (word && pg_phase_parse(word, &then) < 0)
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, "/lease/then", NULL,
				      "then is a phase or deny");
	if (pg_policy_allows_no_more(policy, then, phase))
		*ret_then = (int)then;
	else if (word)
		return pg_reply_error(reply, PG_API_LEASE_WIDER, "/lease/then", NULL,
				      "%s allows what %s does not, and a lease only ever closes",
				      word, pg_phase_name(phase));
	return 0;
}

static int read_lease(const struct pg_json *json, const struct wanted *wanted,
		      const struct pg_policy *policy, struct pg_phase_change *change,
		      struct pg_reply *reply)
{
	struct wanted_lease lease = {0};
	struct pg_json_problem problem = {};

	if (!wanted->lease)
		return 0;
	if (pg_json_read(json, wanted->lease, "/lease", lease_fields, PG_ARRAY_SIZE(lease_fields),
			 &lease, &problem) < 0) {
		pg_reply_problem(reply, &problem);
		return -EINVAL;
	}
	if (lease.seconds == 0)
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, "/lease/seconds", NULL,
				      "a lease has at least one second");
	change->lease.set = true;
	change->lease.phase = change->phase;
	change->lease.deadline = pg_boottime_ns() + lease.seconds * PG_NSEC_PER_SEC;
	return choose_then(policy, lease.then, change->phase, &change->lease.then, reply);
}

static int read_change(const struct pg_json *json, const struct wanted *wanted,
		       const struct pg_managed *managed, struct pg_phase_change *change,
		       struct pg_reply *reply)
{
	if (pg_phase_parse(wanted->phase, &change->phase) < 0)
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, "/phase", NULL,
				      "the phases are setup, run and verifier");
	if (wanted->survivors &&
	    pg_survivor_choice_parse(wanted->survivors, &change->survivors) < 0)
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, "/survivors", NULL,
				      "survivors is kill, freeze, refuse or allow");
	if (change->phase == PG_PHASE_VERIFIER && managed->note.verifier == PG_VERIFIER_HOST)
		return pg_reply_error(reply, PG_API_VERIFIER_ON_HOST,
				      pg_environment_name(managed->environment), NULL,
				      "verification runs on the host, so the phase has no"
				      " meaning here");
	return read_lease(json, wanted, pg_environment_policy(managed->environment), change, reply);
}

static void answer(const struct pg_managed *managed, const struct pg_phase_change *change,
		   const struct pg_phase_result *result, const char *warnings,
		   struct pg_reply *reply)
{
	struct pg_json_writer *json = pg_reply_open(reply, 200);

	if (!json)
		return;
	pg_json_write_string(json, "name", pg_environment_name(managed->environment));
	pg_json_write_string(json, "phase", pg_phase_name(result->change.phase));
	pg_json_write_number(json, "generation", result->change.generation);
	pg_json_write_bool(json, "changed", result->change.changed);
	pg_json_write_real(json, "took_us", (double)result->change.took_ns / PG_NSEC_PER_USEC);
	pg_json_write_number(json, "closed", result->closing.closed);
	pg_json_write_real(json, "close_us", (double)result->closing.took_ns / PG_NSEC_PER_USEC);
	pg_json_write_bool(json, "widened", result->widened);
	pg_json_write_string(json, "survivors_choice",
			     result->widened ? pg_survivor_choice_name(change->survivors) : NULL);
	pg_describe_survivors(&result->survivors, json);
	pg_describe_lease(&managed->note.lease, json);
	pg_json_write_name(json, "warnings");
	fprintf(json->out, "[%s]", warnings);
	pg_reply_close(reply);
}

static void refuse_survivors(const struct pg_phase_result *result, const struct pg_error *err,
			     const char *name, struct pg_reply *reply)
{
	struct pg_json_writer *json =
		pg_reply_open_error(reply, PG_API_SURVIVORS_PRESENT, name, NULL, "%s", err->text);

	if (!json)
		return;
	pg_describe_survivors(&result->survivors, json);
	pg_reply_close(reply);
}

static void change_phase(struct pg_agent *agent, const struct pg_request *request,
			 struct pg_managed *managed, const struct pg_phase_change *change,
			 struct pg_reply *reply)
{
	pg_autophaseresult struct pg_phase_result result = {0};
	pg_autofree char *warnings = NULL;
	struct pg_error err = {};
	int error;

	if (pg_agent_collect_warnings(agent, request->name) < 0) {
		pg_reply_error(reply, PG_API_OUT_OF_MEMORY, request->name, NULL,
			       "no memory for the switch");
		return;
	}
	/* To whom is switched must be confined. */
	error = pg_watch_look(agent, managed, &err);
	if (!error)
		error = pg_phase_change(agent, managed, change, &result, &err);
	pg_agent_take_warnings(agent, &warnings);
	if (error == -EEXIST)
		refuse_survivors(&result, &err, request->name, reply);
	else if (error)
		pg_reply_failure(reply, request->name, &err);
	else
		answer(managed, change, &result, warnings ? warnings : "", reply);
}

void pg_api_phase(struct pg_agent *agent, const struct pg_request *request, struct pg_reply *reply)
{
	struct wanted wanted = {.expected_generation = PG_ANY_GENERATION};
	struct pg_managed *managed = pg_request_environment(agent, request, reply);
	pg_autojson struct pg_json *json = NULL;
	struct pg_phase_change change = {0};

	if (!managed ||
	    pg_request_read(request, fields, PG_ARRAY_SIZE(fields), &wanted, &json, reply) < 0 ||
	    read_change(json, &wanted, managed, &change, reply) < 0 ||
	    pg_check_generation(managed, wanted.expected_generation, reply) < 0)
		return;
	change_phase(agent, request, managed, &change, reply);
}
