/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept Environments whose end has failed: since processes do not die at once, for want of memory,
 * or because something in the way cannot be removed yet. Nobody has them any more, and what is left
 * of them stays closed; the host tries again, when the last process has died and each after a
 * longer while than before. One a turn, that which is due the longest: a try may have to wait, for
 * processes that do not die or for the lock of the records, and whatever else there is to do is
 * done in between. For processes the caller of the destroy waits, too, as long as it would have
 * waited for them itself. What has not succeeded when the process ends is for its next start.
 */
#include "host_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define PAUSE_FIRST_NS (PG_NSEC_PER_SEC / 2)
#define PAUSE_LAST_NS  (64 * PG_NSEC_PER_SEC)
/* Of what a try takes, that much longer none follows. */
#define PAUSE_SHARE    4

static struct pg_environment *find_next(const struct pg_host *host)
{
	struct pg_environment *environment, *next = LIST_FIRST(&host->ending);

	LIST_FOREACH (environment, &host->ending, link)
		if (environment->ending_at < next->ending_at)
			next = environment;
	return next;
}

static void set_timer(struct pg_host *host)
{
	const struct pg_environment *environment = find_next(host);
	const uint64_t now = pg_monotonic_ns();
	struct pg_error err = {};
	uint64_t at;

	if (!environment)
		return;
	at = environment->ending_at;
	at = at > host->ending_next ? at : host->ending_next;
	if (pg_timer_set(host->ending_fd, at > now ? at - now : 1, 0, &err))
		pg_host_warn(host, "ending", err.text);
}

bool pg_ending_take(struct pg_environment *environment)
{
	struct pg_host *host = environment->host;

	if (host->ending_fd < 0 || environment->record_fd < 0 || !environment->record.kept)
		return false;
	environment->ending = true;
	environment->ending_pause = PAUSE_FIRST_NS;
	environment->ending_at = pg_monotonic_ns() + PAUSE_FIRST_NS;
	LIST_INSERT_HEAD(&host->ending, environment, link);
	set_timer(host);
	return true;
}

bool pg_ending_has(const struct pg_host *host, const char *name)
{
	const struct pg_environment *environment;

	LIST_FOREACH (environment, &host->ending, link)
		if (!strcmp(environment->record.name, name))
			return true;
	return false;
}

/* In doubt somebody is. */
static bool is_populated(const struct pg_environment *environment)
{
	bool populated;

	return pg_environment_populated(environment, &populated, NULL) || populated;
}

void pg_ending_look(struct pg_environment *environment)
{
	if (is_populated(environment))
		return;
	environment->ending_at = pg_monotonic_ns();
	set_timer(environment->host);
}

bool pg_ending_wait(struct pg_environment *environment, int error)
{
	if (!environment->host->ended || (error != -ETIMEDOUT && !is_populated(environment)) ||
	    !pg_ending_take(environment))
		return false;
	environment->ending_until = pg_monotonic_ns() + PG_CGROUP_KILL_MS * PG_NSEC_PER_MSEC;
	/* They may have died since. */
	pg_ending_look(environment);
	return true;
}

static void tell(struct pg_environment *environment, const struct pg_error *fault)
{
	const struct pg_host *host = environment->host;

	if (environment->ending_until)
		host->ended(host->userdata, environment, fault);
	environment->ending_until = 0;
}

static void give_up(struct pg_environment *environment, struct pg_error *fault)
{
	pg_error_prefix(fault, "ending the Environment %s", environment->record.name);
	/* To the caller these mean that nothing has changed. */
	if (fault->number == -EBUSY || fault->number == -EAGAIN)
		fault->number = -EIO;
	environment->ending_fault = malloc(sizeof(*fault));
	if (environment->ending_fault)
		*environment->ending_fault = *fault;
	tell(environment, fault);
}

static void put_off(struct pg_environment *environment, struct pg_error *fault)
{
	const uint64_t now = pg_monotonic_ns();

	pg_log_debug("ending the Environment %s again: %s", environment->record.name, fault->text);
	environment->ending_pause *= 2;
	if (environment->ending_pause > PAUSE_LAST_NS)
		environment->ending_pause = PAUSE_LAST_NS;
	environment->ending_at = now + environment->ending_pause;
	if (environment->ending_until && environment->ending_until <= now)
		give_up(environment, fault);
	else if (environment->ending_until && environment->ending_until < environment->ending_at)
		environment->ending_at = environment->ending_until;
}

static void try_one(struct pg_environment *environment)
{
	struct pg_error fault = {};

	if (pg_environment_undo(environment, &fault)) {
		put_off(environment, &fault);
		return;
	}
	pg_log_debug("ended the Environment %s at last", environment->record.name);
	LIST_REMOVE(environment, link);
	tell(environment, NULL);
	pg_environment_free(environment);
}

static int outcome_of(const struct pg_environment *environment, struct pg_error *err)
{
	const struct pg_error *fault = environment->ending_fault;

	if (environment->ending_until)
		return pg_fail(err, -EINPROGRESS, "processes of %s are still alive",
			       environment->record.name);
	if (!fault)
		return pg_fail(err, -ENOMEM, "%s cannot be ended yet; no memory to say why",
			       environment->record.name);
	if (err)
		*err = *fault;
	return fault->number;
}

int pg_host_ending(const struct pg_host *host, uint64_t id, struct pg_error *err)
{
	const struct pg_environment *environment;

	LIST_FOREACH (environment, &host->ending, link)
		if (environment->header.env_id == id)
			return outcome_of(environment, err);
	return 0;
}

static int try_next(void *userdata, struct pg_error *err)
{
	struct pg_host *host = userdata;
	struct pg_environment *environment = find_next(host);
	const uint64_t start = pg_monotonic_ns();
	uint64_t now;

	pg_timer_acknowledge(host->ending_fd);
	if (environment && environment->ending_at <= start)
		try_one(environment);
	now = pg_monotonic_ns();
	host->ending_next = now + PAUSE_SHARE * (now - start);
	set_timer(host);
	return 0;
}

int pg_ending_start(struct pg_host *host, struct pg_error *err)
{
	host->ending_source = (struct pg_source){try_next, host};
	return host->pins ? pg_host_add_timer(host, &host->ending_source, &host->ending_fd, err)
			  : 0;
}

void pg_ending_leave(struct pg_host *host)
{
	struct pg_environment *environment;

	while ((environment = LIST_FIRST(&host->ending))) {
		LIST_REMOVE(environment, link);
		pg_environment_free(environment);
	}
}
