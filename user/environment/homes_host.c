/* SPDX-License-Identifier: Apache-2.0 */
#include "homes.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <libmnl/libmnl.h>

#include "base/clock.h"
#include "host_internal.h"
#include "kernel/begun.h"

/*
 * A look takes time for each process there, and a workload can cause one by each packet that it
 * forges: looks at one Environment that find nothing new become rarer, and all together leave most
 * of the time to everything else.
 */
#define PAUSE_FIRST_NS (10 * PG_NSEC_PER_MSEC)
#define PAUSE_LAST_NS  (500 * PG_NSEC_PER_MSEC)
#define PAUSE_SHARE    3
/* Because of a new address: the workload's first program is executed some milliseconds after its
 * runtime has set one, and what it sends before that is own is lost, ARP for a second. */
#define PAUSE_NEW_NS   (PG_NSEC_PER_MSEC / 2)

/*
 * A runtime makes a cgroup, then puts a process there, which enters a namespace, gets addresses and
 * executes the first program of the workload some 30 ms later: looks follow closely at first, then
 * each after twice the time, for about a second.
 */
#define FOLLOW_STEP_NS (3 * PG_NSEC_PER_MSEC)
#define FOLLOW_CLOSE   40
#define FOLLOW_COUNT   (FOLLOW_CLOSE + 8)

/* Whether a process stays where it is, is gone for good, or has begun, is still to be decided. */
#define AGAIN_NS       (PG_NSEC_PER_SEC / 2)
/* A runtime's process executes the workload's first program; what it has changed waits for that. */
#define AGAIN_FIXED_NS (30 * PG_NSEC_PER_MSEC)
#define AGAIN_EMPTY_NS (30 * PG_NSEC_PER_SEC)

struct pg_homes {
	struct pg_host *host;
	struct pg_homes_netlink netlink;
	struct pg_source heard, timer;
	int timer_fd;
	uint64_t look_next; /* not before then is another Environment looked into */
	uint64_t read_next; /* nor is everything read again */
	bool lost;	    /* messages; everything is to be read again */
	uint64_t set_for;   /* what the timer is set for; 0: it is not */
};

struct pg_homes_netlink *pg_homes_netlink(const struct pg_host *host)
{
	return &host->homes->netlink;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static struct pg_environment *next_due(const struct pg_homes *homes)
{
	struct pg_environment *environment, *next = NULL;

	LIST_FOREACH (environment, &homes->host->environments, link)
		if (environment->homes_state.look_at &&
		    (!next || environment->homes_state.look_at < next->homes_state.look_at))
			next = environment;
	return next;
}

static void set_timer(struct pg_homes *homes, uint64_t when)
{
	const uint64_t now = pg_monotonic_ns();
	struct pg_error err = {};

	when = later(when, homes->look_next);
	if (homes->set_for && homes->set_for <= when)
		return;
	homes->set_for = when;
	if (!pg_timer_set(homes->timer_fd, when > now ? when - now : 1, 0, &err))
		return;
	/* Whatever is next sets it again. */
	homes->set_for = 0;
	pg_host_warn(homes->host, "own_address", err.text);
}

static void look_at(struct pg_environment *environment, uint64_t when)
{
	struct pg_homes_state *state = &environment->homes_state;

	if (!state->look_at || when < state->look_at)
		state->look_at = when;
	set_timer(environment->host->homes, state->look_at);
}

void pg_homes_look_into(struct pg_environment *environment)
{
	const struct pg_homes_state *state = &environment->homes_state;

	look_at(environment, later(pg_monotonic_ns(), state->looked + state->pause));
}

/* A workload can cause these too, so that they are not begun anew all the time. */
void pg_homes_follow(struct pg_environment *environment)
{
	struct pg_homes_state *state = &environment->homes_state;

	if (state->more)
		return;
	state->more = FOLLOW_COUNT;
	state->step = FOLLOW_STEP_NS;
	look_at(environment, pg_monotonic_ns());
}

/* No workload gives its namespaces a number in that of the host. */
void pg_homes_look(struct pg_host *host)
{
	struct pg_environment *environment;

	LIST_FOREACH (environment, &host->environments, link)
		if (environment->settings.attached)
			pg_homes_look_into(environment);
		else
			look_at(environment, pg_monotonic_ns());
}

static void plan_next(struct pg_environment *environment)
{
	struct pg_homes_state *state = &environment->homes_state;
	const uint64_t now = pg_monotonic_ns();
	const struct pg_home *home;

	if (state->more && --state->more) {
		look_at(environment, now + state->step);
		state->step *= state->more < FOLLOW_COUNT - FOLLOW_CLOSE ? 2 : 1;
	}
	LIST_FOREACH (home, &environment->homes, link) {
		if (home->fixed != home->fixed_for_good)
			look_at(environment, now + AGAIN_FIXED_NS);
		else if (home->poised)
			look_at(environment, now + AGAIN_NS);
		else if (!home->confirmed && home->members)
			look_at(environment, now + AGAIN_NS);
		else if (home->empty_since)
			look_at(environment, now + AGAIN_EMPTY_NS);
	}
}

static void look_into(struct pg_homes *homes, struct pg_environment *environment)
{
	struct pg_homes_state *state = &environment->homes_state;
	const uint64_t start = pg_monotonic_ns();
	struct pg_error err = {};
	uint64_t now;

	state->look_at = 0;
	state->pause = state->pause ? 2 * state->pause : PAUSE_FIRST_NS;
	if (state->pause > PAUSE_LAST_NS)
		state->pause = PAUSE_LAST_NS;
	if (pg_homes_renew(environment, PG_HOMES_LATER, &err)) {
		pg_homes_warn(environment, "own_address", &err);
		look_at(environment, start + PAUSE_LAST_NS);
	}
	now = pg_monotonic_ns();
	state->looked = now;
	homes->look_next = now + PAUSE_SHARE * (now - start);
	plan_next(environment);
}

static void hear_address(void *userdata, int nsid, unsigned int ifindex, const struct pg_addr *addr,
			 bool there)
{
	const struct pg_homes *homes = userdata;
	struct pg_environment *environment;
	struct pg_home *home;

	LIST_FOREACH (environment, &homes->host->environments, link)
		LIST_FOREACH (home, &environment->homes, link)
			if (home->nsid == nsid)
				pg_home_hear(home, ifindex, addr, there);
}

static bool is_known(const struct pg_homes *homes, int nsid)
{
	const struct pg_environment *environment;
	const struct pg_home *home;

	LIST_FOREACH (environment, &homes->host->environments, link)
		LIST_FOREACH (home, &environment->homes, link)
			if (home->nsid == nsid)
				return true;
	return false;
}

static void hear_made(void *userdata, int nsid)
{
	struct pg_homes *homes = userdata;

	if (!is_known(homes, nsid))
		pg_homes_look(homes->host);
}

static struct pg_home *find_in(const struct pg_environment *environment, int nsid)
{
	struct pg_home *home;

	LIST_FOREACH (home, &environment->homes, link)
		if (!home->is_host && home->nsid == nsid)
			return home;
	return NULL;
}

static void hear_gone(void *userdata, int nsid)
{
	const struct pg_homes *homes = userdata;
	struct pg_environment *environment;

	LIST_FOREACH (environment, &homes->host->environments, link) {
		struct pg_home *home = find_in(environment, nsid);

		if (!home)
			continue;
		pg_begun_forget(homes->host->kernel, home->netns);
		pg_home_remove(home);
	}
}

/* Where a workload can change addresses, it can make messages get lost all the time. */
static void read_lost(struct pg_homes *homes)
{
	const uint64_t start = pg_monotonic_ns();
	struct pg_environment *environment;
	struct pg_home *home;

	if (!homes->lost)
		return;
	if (start < homes->read_next) {
		set_timer(homes, homes->read_next);
		return;
	}
	homes->lost = false;
	LIST_FOREACH (environment, &homes->host->environments, link) {
		LIST_FOREACH (home, &environment->homes, link)
			pg_home_read_again(home);
		pg_homes_look_into(environment);
	}
	homes->read_next =
		pg_monotonic_ns() + PAUSE_FIRST_NS + PAUSE_SHARE * (pg_monotonic_ns() - start);
}

/* New addresses wait for a look at who could have made them. */
static void settle_pending(struct pg_homes *homes)
{
	struct pg_environment *environment;

	LIST_FOREACH (environment, &homes->host->environments, link) {
		struct pg_homes_state *state = &environment->homes_state;

		if (!state->pending)
			continue;
		if (pg_monotonic_ns() >= later(homes->look_next, state->looked + PAUSE_NEW_NS))
			look_into(homes, environment);
		else
			look_at(environment, state->looked + PAUSE_NEW_NS);
	}
}

static int process_timer(void *userdata, struct pg_error *err)
{
	struct pg_homes *homes = userdata;
	struct pg_environment *environment = next_due(homes);

	pg_timer_acknowledge(homes->timer_fd);
	homes->set_for = 0;
	if (environment && environment->homes_state.look_at <= pg_monotonic_ns())
		look_into(homes, environment);
	read_lost(homes);
	settle_pending(homes);
	environment = next_due(homes);
	if (environment)
		set_timer(homes, environment->homes_state.look_at);
	return 0;
}

static int process_heard(void *userdata, struct pg_error *err)
{
	struct pg_homes *homes = userdata;
	const struct pg_homes_hears hears = {hear_address, hear_made, hear_gone, homes};
	struct pg_error fault = {};
	int error = pg_homes_netlink_read(&homes->netlink, &hears, &fault);

	if (error == -ENOBUFS)
		homes->lost = true;
	else if (error)
		pg_host_warn(homes->host, "own_address", fault.text);
	read_lost(homes);
	settle_pending(homes);
	return 0;
}

int pg_homes_watch(struct pg_host *host, struct pg_error *err)
{
	struct pg_homes *homes = calloc(1, sizeof(*homes));
	struct pg_error fault = {};
	int error;

	if (!homes)
		return pg_fail(err, -ENOMEM, "not enough memory for own addresses");
	homes->host = host;
	homes->timer_fd = -1;
	homes->heard = (struct pg_source){process_heard, homes};
	homes->timer = (struct pg_source){process_timer, homes};
	host->homes = homes;
	error = pg_homes_netlink_open(&homes->netlink, &fault);
	if (error == -EPERM && homes->netlink.asked)
		pg_host_warn(host, "own_address", fault.text);
	else if (error)
		return pg_fail(err, error, "%s", fault.text);
	if (homes->netlink.heard)
		error = pg_host_add_source(host, mnl_socket_get_fd(homes->netlink.heard), EPOLLIN,
					   &homes->heard, err);
	else
		error = 0;
	return error ? error : pg_host_add_timer(host, &homes->timer, &homes->timer_fd, err);
}

void pg_homes_free(struct pg_host *host)
{
	struct pg_homes *homes = host->homes;

	if (!homes)
		return;
	if (homes->netlink.heard)
		pg_host_remove_source(host, mnl_socket_get_fd(homes->netlink.heard), &homes->heard);
	if (homes->timer_fd >= 0)
		pg_host_remove_source(host, homes->timer_fd, &homes->timer);
	pg_close_fd(&homes->timer_fd);
	pg_homes_netlink_close(&homes->netlink);
	free(homes);
	host->homes = NULL;
}

void pg_homes_host_changed(struct pg_host *host, const struct pg_addr *addr)
{
	struct pg_environment *environment;
	const struct pg_home *home;

	LIST_FOREACH (environment, &host->environments, link)
		LIST_FOREACH (home, &environment->homes, link)
			if (home->is_host)
				pg_homes_publish(environment, addr);
}
