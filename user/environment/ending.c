/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept Environments whose end has failed, for want of memory or because something in the way cannot
 * be removed yet. Nobody has them any more, and what is left of them stays closed; the host tries
 * again, each time after a longer while. What has not succeeded when the process ends is for its
 * next start.
 */
#include "host_internal.h"

#include "base/clock.h"
#include "base/log.h"

#define PAUSE_FIRST_NS (PG_NSEC_PER_SEC / 2)
#define PAUSE_LAST_NS  (64 * PG_NSEC_PER_SEC)

static void set_timer(struct pg_host *host)
{
	struct pg_error err = {};

	if (pg_timer_set(host->ending_fd, host->ending_pause, 0, &err))
		pg_host_warn(host, "ending", err.text);
}

bool pg_ending_take(struct pg_environment *environment)
{
	struct pg_host *host = environment->host;

	if (host->ending_fd < 0 || environment->record_fd < 0 || !environment->record.kept)
		return false;
	environment->ending = true;
	LIST_INSERT_HEAD(&host->ending, environment, link);
	host->ending_pause = PAUSE_FIRST_NS;
	set_timer(host);
	return true;
}

static int try_all(void *userdata, struct pg_error *err)
{
	struct pg_host *host = userdata;
	struct pg_environment *environment, *next;

	pg_timer_acknowledge(host->ending_fd);
	for (environment = LIST_FIRST(&host->ending); environment; environment = next) {
		struct pg_error fault = {};

		next = LIST_NEXT(environment, link);
		if (pg_environment_undo(environment, &fault)) {
			pg_log_debug("ending the Environment %s again: %s",
				     environment->record.name, fault.text);
			continue;
		}
		pg_log_debug("ended the Environment %s at last", environment->record.name);
		LIST_REMOVE(environment, link);
		pg_environment_free(environment);
	}
	host->ending_pause *= 2;
	if (host->ending_pause > PAUSE_LAST_NS)
		host->ending_pause = PAUSE_LAST_NS;
	if (!LIST_EMPTY(&host->ending))
		set_timer(host);
	return 0;
}

int pg_ending_start(struct pg_host *host, struct pg_error *err)
{
	host->ending_source = (struct pg_source){try_all, host};
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
