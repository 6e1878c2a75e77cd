/* SPDX-License-Identifier: Apache-2.0 */
#include "phases.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "compile/allows.h"

/* A fallback that failed is tried again: until then what is in force stays, which is no wider. */
#define RETRY_NS PG_NSEC_PER_SEC

static const char *const choices[] = {
#define PG_X(symbol, name) [PG_SURVIVOR_CHOICE_##symbol] = name,
	PG_SURVIVOR_CHOICES(PG_X)
#undef PG_X
};

const char *pg_survivor_choice_name(enum pg_survivor_choice choice)
{
	return choices[choice];
}

int pg_survivor_choice_parse(const char *name, enum pg_survivor_choice *ret_choice)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(choices); i++) {
		if (strcmp(name, choices[i]) == 0) {
			*ret_choice = (enum pg_survivor_choice)i;
			return 0;
		}
	}
	return -EINVAL;
}

void pg_phase_result_clear(struct pg_phase_result *result)
{
	pg_survivors_clear(&result->survivors);
	*result = (struct pg_phase_result){0};
}

/* Whether processes of the run could reach in the phase what they could not before. */
static bool widens(const struct pg_managed *managed, enum pg_phase phase)
{
	const struct pg_environment *environment = managed->environment;
	const struct pg_policy *policy = pg_environment_policy(environment);

	if (!managed->note.run_since || phase == PG_PHASE_RUN)
		return false;
	return pg_environment_denied(environment) ||
	       !pg_policy_allows_no_more(policy, phase, PG_PHASE_RUN) ||
	       !pg_policy_allows_no_more(policy, phase, pg_environment_phase(environment));
}

static int end_survivors(struct pg_managed *managed, enum pg_survivor_choice choice,
			 struct pg_survivors *survivors, struct pg_error *err)
{
	struct pg_environment *environment = managed->environment;
	const uint64_t since = managed->note.run_since;
	int error;

	switch (choice) {
	case PG_SURVIVOR_CHOICE_KILL:
		return pg_environment_end_survivors(environment, since, PG_SURVIVORS_KILL,
						    survivors, err);
	case PG_SURVIVOR_CHOICE_FREEZE:
		return pg_environment_end_survivors(environment, since, PG_SURVIVORS_FREEZE,
						    survivors, err);
	case PG_SURVIVOR_CHOICE_REFUSE:
		error = pg_environment_survivors(environment, since, survivors, err);
		if (!error && survivors->count)
			return pg_fail(err, -EEXIST, "%zu processes of the run are alive",
				       survivors->count);
		return error;
	case PG_SURVIVOR_CHOICE_ALLOW:
		return pg_environment_survivors(environment, since, survivors, err);
	}
	return -EINVAL;
}

/*
 * What has to be remembered before the phase is in force, since the agent may be killed in between:
 * that a run begins, and when the lease ends. Both are harmless if the switch then does not happen.
 */
static int note_before(struct pg_managed *managed, const struct pg_phase_change *wanted,
		       struct pg_error *err)
{
	pg_autonote struct pg_note note = {0};
	int error = pg_note_copy(&managed->note, &note);

	if (error)
		return pg_fail(err, error, "no memory for a note");
	if (wanted->phase == PG_PHASE_RUN && !note.run_since)
		note.run_since = pg_boottime_ns();
	if (wanted->lease.set)
		note.lease = wanted->lease;
	return pg_managed_set_note(managed, &note, err);
}

static int note_after(struct pg_managed *managed, const struct pg_phase_change *wanted,
		      bool widened, struct pg_error *err)
{
	pg_autonote struct pg_note note = {0};
	int error = pg_note_copy(&managed->note, &note);

	if (error)
		return pg_fail(err, error, "no memory for a note");
	note.lease = wanted->lease;
	if (wanted->phase == PG_PHASE_RUN) {
		note.frozen = false;
	} else if (widened) {
		note.frozen = wanted->survivors == PG_SURVIVOR_CHOICE_FREEZE;
		/* Frozen ones are still of the run, for the switch that comes next. */
		if (!note.frozen)
			note.run_since = 0;
	}
	return pg_managed_set_note(managed, &note, err);
}

static void report(struct pg_agent *agent, const struct pg_managed *managed,
		   const struct pg_phase_result *result, const char *kind)
{
	const struct pg_environment *environment = managed->environment;
	struct pg_json_writer json;

	if (!pg_agent_open_event(agent, &json, kind, pg_environment_name(environment)))
		return;
	pg_json_write_string(&json, "phase", pg_phase_name(pg_environment_phase(environment)));
	pg_json_write_bool(&json, "denied", pg_environment_denied(environment));
	pg_json_write_number(&json, "generation", pg_environment_generation(environment));
	pg_json_write_number(&json, "closed", result->closing.closed);
	pg_json_write_number(&json, "survivors", result->survivors.count);
	pg_agent_close_event(agent, &json, pg_environment_owner(environment),
			     pg_environment_name(environment));
}

static void close_forbidden(struct pg_agent *agent, struct pg_managed *managed,
			    struct pg_phase_result *result)
{
	struct pg_error err = {};

	if (pg_environment_close_forbidden(managed->environment, &result->closing, &err) < 0)
		pg_agent_warn(agent, "connections_open", err.text);
}

static void keep_after(struct pg_agent *agent, struct pg_managed *managed,
		       const struct pg_phase_change *wanted, bool widened)
{
	struct pg_error err = {};

	if (note_after(managed, wanted, widened, &err) < 0)
		pg_agent_warn(agent, "not_kept", err.text);
}

static int switch_and_note(struct pg_managed *managed, const struct pg_phase_change *wanted,
			   struct pg_switch *ret_switch, size_t *ret_closed, struct pg_error *err)
{
	pg_autonote struct pg_note old = {0};
	struct pg_error unused = {};
	int error = pg_note_copy(&managed->note, &old);

	if (error)
		return pg_fail(err, error, "no memory for a note");
	error = note_before(managed, wanted, err);
	if (error)
		return error;
	*ret_closed = pg_environment_close_ahead(managed->environment, wanted->phase);
	error = pg_environment_switch(managed->environment, wanted->phase, ret_switch, err);
	/* The lease of the phase that stays; what is kept wrongly would fall back all the same. */
	if (error)
		(void)!pg_managed_set_note(managed, &old, &unused);
	return error;
}

int pg_phase_change(struct pg_agent *agent, struct pg_managed *managed,
		    const struct pg_phase_change *wanted, struct pg_phase_result *result,
		    struct pg_error *err)
{
	size_t ahead = 0;
	int error = 0;

	result->widened = widens(managed, wanted->phase);
	if (result->widened)
		error = end_survivors(managed, wanted->survivors, &result->survivors, err);
	if (!error)
		error = switch_and_note(managed, wanted, &result->change, &ahead, err);
	if (error)
		return error;
	/* Whatever the note says: the agent may have been killed before it was written. */
	if (wanted->phase == PG_PHASE_RUN && pg_environment_thaw(managed->environment, err) < 0)
		pg_agent_warn(agent, "still_frozen", err->text);
	keep_after(agent, managed, wanted, result->widened);
	if (result->change.changed) {
		close_forbidden(agent, managed, result);
		result->closing.closed += ahead;
		report(agent, managed, result, "phase");
	}
	pg_leases_tend(agent);
	return 0;
}

int pg_phase_prepare_update(struct pg_agent *agent, struct pg_managed *managed,
			    const struct pg_policy *policy, struct pg_error *err)
{
	struct pg_environment *environment = managed->environment;
	const enum pg_phase phase = pg_environment_phase(environment);
	PG_CLEANUP(pg_survivors_clear) struct pg_survivors survivors = {0};
	pg_autonote struct pg_note note = {0};
	char text[128];
	int error;

	/* While everything is denied it is the next switch that opens. */
	if (!managed->note.run_since || managed->note.frozen || phase == PG_PHASE_RUN ||
	    pg_environment_denied(environment) ||
	    pg_phase_allows_no_more(&policy->phases[phase],
				    &pg_environment_policy(environment)->phases[phase]))
		return 0;
	error = end_survivors(managed, PG_SURVIVOR_CHOICE_KILL, &survivors, err);
	if (error)
		return error;
	if (survivors.count) {
		snprintf(text, sizeof(text),
			 "%zu processes of the run were killed, since the %s phase allows more now",
			 survivors.count, pg_phase_name(phase));
		pg_agent_warn(agent, "survivors_killed", text);
	}
	error = pg_note_copy(&managed->note, &note);
	if (error)
		return pg_fail(err, error, "no memory for a note");
	note.run_since = 0;
	return pg_managed_set_note(managed, &note, err);
}

static bool is_due(const struct pg_managed *managed, uint64_t now)
{
	const struct pg_lease *lease = &managed->note.lease;

	return lease->set && lease->deadline <= now;
}

/* To a phase that allows no more than what is in force, whatever that has become meanwhile. */
static int fall_back(struct pg_managed *managed, struct pg_switch *ret_switch, size_t *ret_closed,
		     struct pg_error *err)
{
	struct pg_environment *environment = managed->environment;
	const int then = managed->note.lease.then;

	if (then == PG_LEASE_DENY ||
	    !pg_policy_allows_no_more(pg_environment_policy(environment), (enum pg_phase)then,
				      pg_environment_phase(environment)))
		return pg_environment_deny(environment, ret_switch, err);
	*ret_closed = pg_environment_close_ahead(environment, (enum pg_phase)then);
	return pg_environment_switch(environment, (enum pg_phase)then, ret_switch, err);
}

static void end_lease(struct pg_agent *agent, struct pg_managed *managed)
{
	const char *name = pg_environment_name(managed->environment);
	pg_autophaseresult struct pg_phase_result result = {0};
	pg_autonote struct pg_note note = {0};
	struct pg_error err = {};
	size_t ahead = 0;
	int error = pg_note_copy(&managed->note, &note);

	if (!error && !pg_environment_denied(managed->environment)) {
		error = fall_back(managed, &result.change, &ahead, &err);
		if (!error)
			close_forbidden(agent, managed, &result);
		result.closing.closed += ahead;
	}
	if (error) {
		pg_log_error("%s: the lease is over, but the phase cannot fall back: %s", name,
			     *err.text ? err.text : strerror(-error));
		managed->note.lease.deadline = pg_boottime_ns() + RETRY_NS;
		return;
	}
	note.lease = (struct pg_lease){0};
	if (pg_managed_set_note(managed, &note, &err) < 0) {
		pg_log_warning("%s: %s", name, err.text);
		managed->note.lease = (struct pg_lease){0};
	}
	pg_log_info("%s: the lease is over: %s%s", name,
		    pg_environment_denied(managed->environment)
			    ? "everything is denied"
			    : pg_phase_name(pg_environment_phase(managed->environment)),
		    pg_environment_denied(managed->environment) ? "" : " is in force");
	report(agent, managed, &result, "lease_over");
}

void pg_leases_tend(struct pg_agent *agent)
{
	uint64_t next = UINT64_MAX, now = pg_boottime_ns();
	struct pg_managed *managed;

	LIST_FOREACH (managed, &agent->environments, link) {
		const struct pg_lease *lease = &managed->note.lease;

		if (is_due(managed, now))
			end_lease(agent, managed);
		if (lease->set && lease->deadline < next)
			next = lease->deadline;
	}
	if (!agent->lease_source)
		return;
	if (next != UINT64_MAX)
		sd_event_source_set_time(agent->lease_source, next / PG_NSEC_PER_USEC + 1);
	sd_event_source_set_enabled(agent->lease_source,
				    next == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}
