/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was in a home before its workload could change it. Where the workload may have CAP_NET_ADMIN
 * the kernel says when the first of its programs begins, and what was there then (kernel/begun.h):
 * until then everything that is read is its runtime's doing, whatever it looks like, and what the
 * runtime has done and nobody has read is known even so.
 */
#include "homes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "host_internal.h"
#include "kernel/begun.h"

/* What is attached to has begun before. */
void pg_home_begin(struct pg_home *home, enum pg_homes_look why, ino_t owner)
{
	const struct pg_environment *environment = home->environment;
	struct stat own;

	if (home->is_host || !home->netns || environment->settings.attached ||
	    stat("/proc/self/ns/user", &own) || own.st_ino != owner)
		return;
	home->told = true;
	/* What is there at the start of an agent may have begun unseen. */
	home->untouched = why == PG_HOMES_LATER && pg_host_watches_exec(environment->host);
}

static void take_begun(struct pg_home *home, const struct pg_begun *begun)
{
	home->begun = malloc(sizeof(*begun));
	if (home->begun)
		*home->begun = *begun;
	home->fixed = home->fixed_for_good = true;
	home->stale_links = true;
}

/* Nobody can tell since when what is there may be the workload's doing. */
static void fix(struct pg_home *home)
{
	if (!home->untouched || home->fixed)
		return;
	home->fixed = true;
	home->fixed_since = pg_monotonic_ns();
}

static bool has_old(const struct pg_environment_list *list, uint64_t number)
{
	const struct pg_environment *environment;

	LIST_FOREACH (environment, list, link)
		if (environment->number <= number)
			return true;
	return false;
}

/*
 * Whether a program may have begun without a trace, in whatever namespace: one of an Environment
 * that was there when the last one was missed, and that has not ended, with which traces go, too.
 */
static bool may_have_missed(const struct pg_environment *environment, uint32_t missed)
{
	struct pg_host *host = environment->host;

	if (missed != host->begun_missed) {
		host->begun_missed = missed;
		host->begun_missed_of = host->environment_count;
	}
	if (!host->begun_missed_of)
		return false;
	if (host->strays || !LIST_EMPTY(&host->kept) ||
	    environment->number <= host->begun_missed_of ||
	    has_old(&host->environments, host->begun_missed_of) ||
	    has_old(&host->ending, host->begun_missed_of))
		return true;
	host->begun_missed_of = 0;
	return false;
}

bool pg_home_is_untouched(struct pg_home *home)
{
	const struct pg_environment *environment = home->environment;
	enum pg_begun_found found;
	struct pg_begun begun;
	uint32_t missed;

	if (!home->told || home->begun)
		return false;
	found = pg_begun_read(environment->host->kernel, home->netns, &begun, &missed);
	if (found != PG_BEGUN_UNKNOWN && may_have_missed(environment, missed))
		found = PG_BEGUN_UNKNOWN;
	switch (found) {
	case PG_BEGUN_NOT:
		return home->untouched;
	case PG_BEGUN_SO:
		take_begun(home, &begun);
		break;
	case PG_BEGUN_UNKNOWN:
		fix(home);
		break;
	}
	home->untouched = false;
	return false;
}

bool pg_home_began_with(const struct pg_home *home, const struct pg_addr *addr)
{
	const struct pg_begun *begun = home->begun;

	for (size_t i = 0; begun && i < begun->address_count && i < PG_BEGUN_ADDRESSES; i++)
		if (!pg_addr_compare(&begun->addresses[i], addr))
			return true;
	return false;
}

bool pg_home_began_as(const struct pg_home *home, unsigned int ifindex, pg_station *ret_station)
{
	const struct pg_begun *begun = home->begun;

	for (size_t i = 0; begun && i < begun->device_count && i < PG_BEGUN_DEVICES; i++)
		if (begun->devices[i].ifindex == ifindex) {
			*ret_station = begun->devices[i].station;
			return true;
		}
	return false;
}
