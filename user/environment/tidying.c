/* SPDX-License-Identifier: Apache-2.0 */
/* Lets go of sets that no header names any more. */
#include "host_internal.h"

#include "base/clock.h"

/* Of sets that are not in use any more: what comes meanwhile goes with it. */
#define TIDYING_PAUSE_MS 200

void pg_host_tidy_soon(struct pg_host *host)
{
	/* Whoever makes and ends Environments all the time must not put it off. */
	if (host->tidying_set)
		return;
	/* Without the timer they go when there is need of room. */
	host->tidying_set =
		!pg_timer_set(host->tidying_fd, TIDYING_PAUSE_MS * PG_NSEC_PER_MSEC, 0, NULL);
}

static int tidy(void *userdata, struct pg_error *err)
{
	struct pg_host *host = userdata;

	pg_timer_acknowledge(host->tidying_fd);
	host->tidying_set = false;
	if (pg_kernel_tidy(host->kernel))
		pg_host_tidy_soon(host);
	return 0;
}

int pg_tidying_start(struct pg_host *host, struct pg_error *err)
{
	host->tidying = (struct pg_source){tidy, host};
	return pg_host_add_timer(host, &host->tidying, &host->tidying_fd, err);
}
