/* SPDX-License-Identifier: Apache-2.0 */
/* Switches as the agent makes them: survivors first, then what can be closed ahead, then the
 * switch, then what is left to close. */
#pragma once

#include "agent.h"

/* X(symbol, name): what is done about processes of the run that could wait for a wider phase. */
#define PG_SURVIVOR_CHOICES(X) \
	X(KILL, "kill") \
	X(FREEZE, "freeze") \
	X(REFUSE, "refuse") \
	X(ALLOW, "allow")

enum pg_survivor_choice {
#define PG_X(symbol, name) PG_SURVIVOR_CHOICE_##symbol,
	PG_SURVIVOR_CHOICES(PG_X)
#undef PG_X
};

const char *pg_survivor_choice_name(enum pg_survivor_choice choice);
int pg_survivor_choice_parse(const char *name, enum pg_survivor_choice *ret_choice) PG_MUST_CHECK;

struct pg_phase_change {
	enum pg_phase phase;
	enum pg_survivor_choice survivors;
	struct pg_lease lease;
};

struct pg_phase_result {
	struct pg_switch change;
	struct pg_closing closing;
	struct pg_survivors survivors;
	bool widened; /* something became reachable that the run could not reach */
};
void pg_phase_result_clear(struct pg_phase_result *result);
#define pg_autophaseresult PG_CLEANUP(pg_phase_result_clear)

/*
 * Puts the phase in force. -EEXIST: survivors are there and are to be refused; nothing has changed,
 * and *result lists them. On another failure the old phase is in force; survivors may have been
 * ended. Closing that fails gives a warning, since the phase is in force.
 */
int pg_phase_change(struct pg_agent *agent, struct pg_managed *managed,
		    const struct pg_phase_change *wanted, struct pg_phase_result *result,
		    struct pg_error *err) PG_MUST_CHECK;

/*
 * Before the policy is updated to this one: ends survivors that would reach by it what the phase in
 * force has not allowed so far, with the warning "survivors_killed". Frozen ones stay frozen.
 */
int pg_phase_prepare_update(struct pg_agent *agent, struct pg_managed *managed,
			    const struct pg_policy *policy, struct pg_error *err) PG_MUST_CHECK;

/* Lets leases that are over fall back, and sets the timer for the next. */
void pg_leases_tend(struct pg_agent *agent);
