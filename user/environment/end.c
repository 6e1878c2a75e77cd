/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ending an Environment. What exists after each step, and what the next start does with it:
 *
 *   1. K state     intent "kill" or "release"                     ends it from there on
 *   2. closed      kill: the state has no phase, headers are zero; everything is denied
 *   3. killed      kill: no process is left
 *   4. guards      are off the links, see links.c
 *   5. programs    are off: nothing is confined, and unless released there is nobody
 *   6. cgroup      if it was made and nobody is in it
 *   7. record      nothing knows of it any more; slots of K are swept
 *
 * K: kept ones only. A killed process of others leaves the record, and the next start goes on
 * with 2 or 3: their headers cannot be closed by another process, but their programs confine them
 * until the tree is dead.
 */
#include "host_internal.h"

#include <errno.h>

#include "base/clock.h"
#include "dns.h"
#include "kernel/begun.h"
#include "kernel/host_end.h"
#include "kernel/link.h"
#include "steps.h"

/* Others wait meanwhile. Most die sooner, and what does not is waited for in ending.c. */
#define KILL_SOON_MS 20
/* What failed before is not worth a long wait. */
#define AGAIN_MS     100

/* What is left open even so is closed by the headers, each on its own. */
static int close_state(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_state_value state = environment->state;
	int error;

	if (!environment->state_index || state.phase == PG_PHASE_NONE)
		return 0;
	state.phase = PG_PHASE_NONE;
	state.generation++;
	error = pg_state_write(environment->host->kernel, environment->state_index, &state, err);
	if (!error)
		environment->state = state;
	return error;
}

static int close_place(struct pg_environment *environment, struct pg_place *place,
		       struct pg_error *err)
{
	int error;

	/* Only an empty cgroup can have been removed meanwhile; its header is gone with it. */
	if (!place->in_kernel || pg_place_is_gone(place))
		return 0;
	error = pg_header_clear(environment->host->kernel, place->id, err);
	return pg_place_is_gone(place) ? 0 : error;
}

static unsigned int kill_patience_ms(const struct pg_environment *environment)
{
	const bool others_wait = environment->host->ended && environment->record.kept;

	return others_wait || environment->ending ? KILL_SOON_MS : PG_CGROUP_KILL_MS;
}

/* Each is killed once, whatever is left of the time. */
static int kill_place(struct pg_place *place, uint64_t deadline, struct pg_error *err)
{
	const uint64_t now = pg_monotonic_ns();
	const uint64_t left_ms = now < deadline ? (deadline - now) / PG_NSEC_PER_MSEC : 0;
	int error;

	if (pg_place_is_gone(place))
		return 0;
	error = pg_cgroup_kill(place->fd, left_ms ? (unsigned int)left_ms : 1, NULL, err);
	return pg_place_is_gone(place) ? 0 : error;
}

/*
 * Closes and kills, each even if another fails: without the lock of the records unless there is
 * somebody who can be asked once more, so that none who holds it can keep the tree open or alive.
 */
static int close_and_kill(struct pg_environment *environment, struct pg_error *err)
{
	int error = close_state(environment, err), failed;
	uint64_t deadline;

	for (size_t i = 0; i < pg_place_count(environment); i++) {
		failed = close_place(environment, &environment->places[i], error ? NULL : err);
		error = error ? error : failed;
	}
	pg_step(PG_STEP_END_CLOSED);
	/* One for all members: they die at the same time, or what keeps them keeps us only once. */
	deadline = pg_monotonic_ns() + kill_patience_ms(environment) * PG_NSEC_PER_MSEC;
	for (size_t i = 0; i < pg_place_count(environment); i++) {
		failed = kill_place(&environment->places[i], deadline, error ? NULL : err);
		error = error ? error : failed;
	}
	if (!error)
		pg_step(PG_STEP_END_KILLED);
	return error;
}

void pg_remains_forget(struct pg_host *host, uint64_t env_id)
{
	if (!env_id)
		return;
	pg_flows_expire(host->kernel, env_id);
	pg_own_clear(host->kernel, env_id);
	pg_members_forget(host->kernel, env_id);
	pg_link_environment_forget(host->kernel, env_id);
	pg_begun_forget_all(host->kernel, env_id);
	pg_host_ends_forget(host->kernel, env_id);
	pg_dns_forget(host->kernel, env_id);
}

/* What was let go would find the old header if it were confined again. */
static void close_released(struct pg_environment *environment)
{
	for (size_t i = 0; i < pg_place_count(environment); i++)
		(void)!close_place(environment, &environment->places[i], NULL);
}

/* With the lock already, or else the kill comes before it. */
static int undo(struct pg_environment *environment, int *records_fd, struct pg_error *err)
{
	const bool kill = environment->intent != PG_INTENT_RELEASE;
	int error = 0;

	/* Without it the next start would adopt what is not ended yet: no reason to keep it. */
	if (!pg_environment_save(environment, NULL) && environment->record.kept)
		pg_step(PG_STEP_END_SAVED);
	if (kill)
		error = close_and_kill(environment, err);
	if (!error && *records_fd < 0)
		error = pg_records_lock_within(environment->ending ? AGAIN_MS : PG_RECORDS_LOCK_MS,
					       -1, records_fd, err);
	if (error)
		return error;
	error = pg_links_end(environment, err);
	if (error)
		return error;
	pg_remains_forget(environment->host, environment->header.env_id);
	error = pg_remains_remove(environment->host, *records_fd, &environment->record, kill, err);
	if (error)
		return error;
	if (!kill)
		close_released(environment);
	pg_close_fd(&environment->record_fd);
	return 0;
}

int pg_environment_undo(struct pg_environment *environment, struct pg_error *err)
{
	PG_CLEANUP(pg_records_unlock) int records_fd = -1;

	return environment->record_fd < 0 ? 0 : undo(environment, &records_fd, err);
}

static bool is_below_parent(const struct pg_environment *environment)
{
	for (size_t i = 0; i < pg_place_count(environment); i++)
		if (pg_host_is_below_parent(environment->host, pg_place_path(environment, i)))
			return true;
	return false;
}

static int refuse_populated(const struct pg_environment *environment, enum pg_destroy how,
			    struct pg_error *err)
{
	bool populated = false;
	int error =
		how == PG_DESTROY_KILL ? 0 : pg_environment_populated(environment, &populated, err);

	/* In doubt it is populated. */
	if (error && err)
		err->number = -EBUSY;
	if (error)
		return -EBUSY;
	if (!populated)
		return 0;
	if (how == PG_DESTROY_IF_EMPTY)
		return pg_fail(err, -EBUSY, "the Environment %s has processes",
			       environment->record.name);
	if (is_below_parent(environment))
		return pg_fail(err, -EBUSY,
			       "the processes of %s cannot be released where they are: below /%s"
			       " nothing has a network without an Environment; move them to"
			       " another cgroup first, or kill them",
			       environment->record.name, environment->host->parent);
	return 0;
}

int pg_environment_destroy(struct pg_environment *environment, enum pg_destroy how,
			   struct pg_error *err)
{
	PG_CLEANUP(pg_records_unlock) int records_fd = -1;
	int error = refuse_populated(environment, how, err);

	/* One of many is not worth a long wait; then nothing has changed. */
	if (!error && environment->record.kept)
		error = pg_records_lock_within(PG_RECORDS_LOCK_SOON_MS, -1, &records_fd, err);
	if (error)
		return error;
	environment->intent = how == PG_DESTROY_RELEASE ? PG_INTENT_RELEASE : PG_INTENT_KILL;
	error = undo(environment, &records_fd, err);
	/* What failed for want of memory has not, most often, the next time; each step may be done
	 * twice. After that, and where there was a wait in vain, it is tried later (ending.c), or
	 * at the next start. */
	if (error && error != -EBUSY && error != -EAGAIN && error != -ETIMEDOUT)
		error = undo(environment, &records_fd, err);
	/* To the caller these mean that nothing has changed. */
	if (error == -EBUSY || error == -EAGAIN)
		error = err ? (err->number = -EIO) : -EIO;
	if (error)
		pg_error_prefix(err, "ending the Environment %s", environment->record.name);
	LIST_REMOVE(environment, link);
	if (error && how != PG_DESTROY_RELEASE && pg_ending_wait(environment, error))
		return -EINPROGRESS;
	if (!error || !pg_ending_take(environment))
		pg_environment_free(environment);
	return error;
}

void pg_environment_leave(struct pg_environment *environment)
{
	LIST_REMOVE(environment, link);
	pg_environment_free(environment);
}
