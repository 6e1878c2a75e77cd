/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another policy for an Environment. What exists after each step, and what is in force:
 *
 *   1. new sets        in slots of their own, with the learned addresses of     old
 *                      names that the new policy has, too
 *   2. K policy, state both banks are in the state file                         old
 *   3. headers         the new slots are in the bank that is not in force       old
 *   4. RCU period      no hook run has an older header any more                 old
 *   5. state           one store: the other bank, another generation            new
 *   6. K state         without the old bank; then its policy goes               new
 *   7. RCU period      no hook run uses the old slots any more; they go         new
 *
 * K: kept ones only. The next owner takes the bank that the state in the kernel names, and lets the
 * other one go.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "dns.h"
#include "steps.h"

static unsigned int other_bank(const struct pg_environment *environment)
{
	return !environment->state.bank;
}

/* What names need that have not been there before. */
static int prepare_names(struct pg_environment *environment, struct pg_error *err)
{
	const bool first = !environment->dns;
	int error = first ? pg_dns_create(environment, err) : 0;

	if (!error)
		error = pg_names_carry_over(environment->content, environment->next, err);
	if (!error)
		error = pg_dns_load(environment->dns, environment->next, err);
	if (error || !first)
		return error;
	error = pg_places_attach(environment, true, err);
	return error ? error : pg_dns_start(environment->dns, err);
}

static int prepare(struct pg_environment *environment, const struct pg_policy *policy,
		   struct pg_error *err)
{
	int error = pg_content_create(environment, policy, &environment->next, err);

	if (!error && environment->next->names)
		error = prepare_names(environment, err);
	if (!error)
		pg_step(PG_STEP_UPDATE_FILLED);
	return error;
}

static int save_both(struct pg_environment *environment, struct pg_error *err)
{
	int error;

	if (!environment->record.kept)
		return 0;
	error = pg_saved_policy_write(environment->record_fd, other_bank(environment),
				      environment->next->policy, err);
	if (!error)
		error = pg_environment_save(environment, err);
	if (!error)
		pg_step(PG_STEP_UPDATE_SAVED);
	return error;
}

/* As pg_environment_close_ahead(). */
static size_t close_ahead(const struct pg_environment *environment)
{
	struct pg_environment then = *environment;

	then.content = environment->next;
	return environment->state.phase == PG_PHASE_NONE ? 0 : pg_closing_ahead(&then);
}

static int put_in_force(struct pg_environment *environment, struct pg_switch *ret_switch,
			struct pg_error *err)
{
	struct pg_state_value state = environment->state;
	struct pg_kernel *kernel = environment->host->kernel;
	uint64_t start;
	size_t closed;
	int error;

	memcpy(environment->header.slots[other_bank(environment)], environment->next->slots,
	       sizeof(environment->header.slots[0]));
	error = pg_places_write(environment, err);
	if (error)
		return error;
	pg_kernel_synchronize(kernel);
	pg_step(PG_STEP_UPDATE_WRITTEN);
	closed = close_ahead(environment);
	state.bank = other_bank(environment);
	state.generation++;
	start = pg_monotonic_ns();
	error = pg_state_write(kernel, environment->state_index, &state, err);
	if (error)
		return error;
	*ret_switch = (struct pg_switch){
		.phase = environment->phase,
		.generation = state.generation,
		.changed = true,
		.took_ns = pg_monotonic_ns() - start,
		.closed = closed,
	};
	environment->state = state;
	pg_step(PG_STEP_UPDATED);
	return 0;
}

/* What it named may become another Environment's. */
static void forget_other_bank(struct pg_environment *environment)
{
	memset(environment->header.slots[other_bank(environment)], 0,
	       sizeof(environment->header.slots[0]));
}

/* The policy is in force already: what fails here is put right by the next save or owner. */
static void let_old_go(struct pg_environment *environment)
{
	struct pg_content *old = environment->content;
	struct pg_error err = {};

	environment->content = PG_TAKE_PTR(environment->next);
	forget_other_bank(environment);
	pg_content_free(environment, old, false);
	pg_step(PG_STEP_UPDATE_FREED);
	if (pg_environment_save(environment, &err))
		pg_host_warn(environment->host, "state", err.text);
	else if (environment->record.kept)
		pg_saved_policy_remove(environment->record_fd, other_bank(environment));
}

int pg_environment_update(struct pg_environment *environment, const struct pg_policy *policy,
			  struct pg_switch *ret_switch, struct pg_error *err)
{
	struct pg_content *failed;
	int error = prepare(environment, policy, err);

	if (!error)
		error = save_both(environment, err);
	if (!error)
		error = put_in_force(environment, ret_switch, err);
	if (!error) {
		let_old_go(environment);
		return 0;
	}
	failed = PG_TAKE_PTR(environment->next);
	forget_other_bank(environment);
	if (environment->dns && !environment->content->names)
		pg_dns_destroy(environment, false);
	/* Without it in the state file first: its slots may be another's soon. */
	if (!pg_environment_save(environment, NULL) && environment->record.kept)
		pg_saved_policy_remove(environment->record_fd, other_bank(environment));
	pg_content_free(environment, failed, false);
	return pg_error_prefix(err, "updating the policy of %s (the old one stays in force)",
			       environment->record.name);
}
