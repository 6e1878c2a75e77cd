/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which host ends have the guard of which Environment. What exists after each step, and what the
 * next start does with it:
 *
 *   1. record's file   has the interface                              takes off what is there
 *   2. pg_links        has a header; without a filter it has no use   the same
 *   3. filters         in force                                       the same; K: adopts it
 *
 * and backwards when a guard goes: filters, pg_links, file. K: kept Environments. An owner that is
 * killed leaves the guard as it is; the next one writes the header and puts its own filters in
 * place of those that are there, without a moment between them.
 */
#include "links.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include <libmnl/libmnl.h>

#include "base/clock.h"
#include "base/log.h"
#include "homes.h"
#include "kernel/link.h"
#include "steps.h"

/* While others live in a home, or a guarded link leads where no home is: how long until that is
 * looked at again. */
#define SOON_NS	    (PG_NSEC_PER_SEC / 4)
/* A runtime sets the hardware address, then addresses, then routes, and begins some milliseconds
 * after that: what the first program sends goes by what is known of them then. */
#define AT_ONCE_NS  PG_NSEC_PER_MSEC
/* What fails again and again is tried less often. */
#define SELDOM_NS   (16 * PG_NSEC_PER_SEC)
/* A runtime is at work on a new link; its addresses and routes come after it. */
#define YOUNG_LOOKS 2

int pg_links_again(struct pg_host *host, uint64_t after_ns, struct pg_error *err)
{
	struct pg_link_watch *watch = host->links;
	const uint64_t at = pg_monotonic_ns() + after_ns;

	if (watch->again_at && watch->again_at <= at)
		return 0;
	watch->again_at = at;
	return pg_timer_set(watch->timer_fd, after_ns, 0, err);
}

static void warn(const struct pg_host *host, const struct pg_error *err)
{
	pg_host_warn(host, "link", err->text);
}

int pg_veth_write(const struct pg_veth *veth, struct pg_error *err)
{
	const struct pg_environment *environment = veth->owner;
	uint32_t flags = veth->shared ? PG_LINK_SHARED : 0;
	struct pg_link_stations stations = veth->stations;
	struct pg_header header;

	pg_place_header(environment, veth->member, &header);
	/* Nobody can tell whose question it is. */
	if (veth->targets && !veth->shared)
		flags |= PG_LINK_TARGETS;
	if (stations.own && stations.host && (stations.bridge || !veth->master))
		flags |= PG_LINK_STATIONS;
	if (!stations.bridge)
		stations.bridge = stations.host;
	return pg_link_put(environment->host->kernel, veth->ifindex, &header, flags, &stations,
			   err);
}

int pg_links_write(struct pg_environment *environment, struct pg_error *err)
{
	const struct pg_veth *veth;
	int error = 0;

	PG_VETH_FOREACH (environment->host->links, i, veth)
		if (!error && veth->owner == environment)
			error = pg_veth_write(veth, err);
	return error;
}

/* Whoever left it there is not known; another process's, or one of this one's that could not be
 * taken off, stays. */
static int is_anothers(const struct pg_environment *environment, const struct pg_veth *veth,
		       bool *ret_anothers, struct pg_error *err)
{
	int attached = pg_link_attached(environment->host->kernel, veth->ifindex, err);

	if (attached < 0)
		return attached;
	*ret_anothers = false;
	return attached ? pg_links_file_elsewhere(environment->record.name, veth->ifindex,
						  ret_anothers, err)
			: 0;
}

/* Filters first: without them the entry has no use, without it they deny everything. What links
 * without a guard have is on it before that. */
int pg_veth_take_off(struct pg_veth *veth, struct pg_error *err)
{
	struct pg_environment *environment = veth->owner;
	int error;

	pg_veth_hold(environment->host->links, veth);
	error = pg_link_detach(veth->ifindex, err);
	if (error)
		return pg_error_prefix(err, "taking the guard off the interface %s", veth->name);
	pg_step(PG_STEP_LINK_DETACHED);
	pg_link_forget(environment->host->kernel, veth->ifindex);
	pg_veth_open_inner(environment->host->links, veth);
	veth->owner = NULL;
	veth->shared = false;
	return 0;
}

static int put_on(struct pg_veth *veth, struct pg_error *err)
{
	int error = pg_links_file_write(veth->owner, err);

	if (error)
		return error;
	pg_step(PG_STEP_LINK_RECORDED);
	error = pg_veth_write(veth, err);
	if (error)
		return error;
	pg_step(PG_STEP_LINK_WRITTEN);
	error = pg_link_attach(veth->owner->host->kernel, veth->ifindex, err);
	if (!error)
		pg_step(PG_STEP_LINK_ATTACHED);
	return error;
}

static int adjust(struct pg_veth *veth, const struct pg_who *who, struct pg_error *err)
{
	int error;

	if (veth->shared == who->shared && veth->member == who->member &&
	    veth->targets == who->targets && !veth->unwritten)
		return 0;
	veth->shared = who->shared;
	veth->targets = who->targets;
	veth->member = who->member;
	error = pg_veth_write(veth, err);
	veth->unwritten = error != 0;
	return error;
}

static int try_to_guard(struct pg_home *home, struct pg_veth *veth, const struct pg_who *who,
			struct pg_error *err)
{
	struct pg_environment *environment = home->environment;
	bool anothers;
	int error = is_anothers(environment, veth, &anothers, err);

	if (error || anothers)
		return error;
	veth->owner = environment;
	veth->member = who->member;
	veth->shared = who->shared;
	veth->targets = who->targets;
	veth->inode = home->inode;
	veth->unwritten = false;
	error = put_on(veth, err);
	if (!error) {
		pg_veth_let_go(environment->host->links, veth);
		veth->fresh = true;
		pg_log_debug("%s: guards the interface %s", environment->record.name, veth->name);
		return 0;
	}
	/* It may have gone meanwhile, and is dropped when the kernel says so. */
	(void)!pg_veth_take_off(veth, NULL);
	veth->owner = NULL;
	(void)!pg_links_file_write(environment, NULL);
	return pg_error_prefix(err, "guarding the interface %s", veth->name);
}

int pg_veth_guard(struct pg_home *home, struct pg_veth *veth, const struct pg_who *who,
		  struct pg_error *err)
{
	int error;

	if (veth->owner && veth->owner != home->environment)
		return 0;
	error = veth->owner ? adjust(veth, who, err) : try_to_guard(home, veth, who, err);
	if (!error && veth->owner == home->environment)
		error = pg_veth_close_inner(home, veth, who, err);
	veth->failed = error;
	return error;
}

void pg_veth_lost(struct pg_link_watch *watch, const struct pg_veth *veth)
{
	struct pg_error err = {};

	pg_link_forget(watch->host->kernel, veth->ifindex);
	if (veth->owner->record_fd >= 0 && pg_links_file_write(veth->owner, &err))
		warn(watch->host, &err);
}

struct pg_home *pg_home_of(const struct pg_host *host, int nsid, const struct pg_environment *but)
{
	const struct pg_environment *environment;
	struct pg_home *home;

	if (nsid == PG_NSID_NONE)
		return NULL;
	LIST_FOREACH (environment, &host->environments, link) {
		if (environment == but)
			continue;
		LIST_FOREACH (home, &environment->homes, link)
			if (!home->is_host && home->nsid == nsid)
				return home;
	}
	return NULL;
}

/* What was seen there is not for good. */
static bool is_unsettled(const struct pg_home *home)
{
	return home->links && (home->links->who.since || home->links->young);
}

static void failed_soon(const struct pg_link_watch *watch)
{
	struct pg_error err = {};

	if (pg_links_again(watch->host, watch->pause, &err))
		warn(watch->host, &err);
}

/* A new link, or one that leads somewhere else now. */
static void settle(struct pg_link_watch *watch, struct pg_veth *veth, bool *unknown)
{
	struct pg_home *home = pg_home_of(watch->host, veth->nsid, NULL);
	struct pg_error err = {};
	bool is_new;
	int error = 0;

	veth->touched = false;
	if (!home) {
		*unknown |= !veth->owner && veth->nsid != PG_NSID_NONE;
		return;
	}
	is_new = !veth->owner;
	/* At once; who lives there, and what else leads out of it, is looked at then. */
	if (home->links)
		error = pg_veth_guard(home, veth, &home->links->who, &err);
	if (!error)
		error = pg_links_look(home, &err);
	if (error && !veth->told)
		warn(watch->host, &err);
	veth->failed = veth->told = error;
	if (error)
		failed_soon(watch);
	else if (is_new)
		home->links->young = YOUNG_LOOKS;
	else if (home->links->young)
		home->links->young--;
	if (!error && is_unsettled(home) && pg_links_again(watch->host, SOON_NS, &err))
		warn(watch->host, &err);
}

static int process_events(void *userdata, struct pg_error *err)
{
	struct pg_link_watch *watch = userdata;
	int error = pg_veths_read(watch, err);
	struct pg_veth *veth;
	bool unknown = false;

	while ((veth = pg_veth_touched(watch)))
		settle(watch, veth, &unknown);
	if (unknown)
		pg_homes_look(watch->host);
	return error;
}

/* It leads to no home any more; until nobody is left of those who may have moved it. */
static void end_stray(struct pg_veth *veth)
{
	struct pg_environment *environment = veth->owner;
	struct pg_error err = {};
	bool populated = true;

	if (pg_environment_populated(environment, &populated, &err) || populated)
		return;
	if (pg_veth_take_off(veth, &err) || pg_links_file_write(environment, &err))
		warn(environment->host, &err);
}

static bool needs_look(const struct pg_home *home)
{
	return is_unsettled(home) &&
	       (home->links->young || !home->links->who.shared || !pg_home_has_other(home));
}

/* Who lives where may have changed. */
static void look_again_at(struct pg_veth *veth)
{
	const struct pg_home *home = pg_home_of(veth->owner->host, veth->nsid, NULL);

	if (!home || home->environment != veth->owner)
		end_stray(veth);
	else
		veth->touched |= needs_look(home);
}

static bool is_worth_another_look(const struct pg_link_watch *watch, const struct pg_veth *veth)
{
	const struct pg_home *home;

	if (!veth->owner || veth->failed)
		return false;
	home = pg_home_of(watch->host, veth->nsid, NULL);
	return !home || home->environment != veth->owner || is_unsettled(home);
}

/* Those that could not be looked at when they were found; returns whether one still cannot. */
static bool look_at_missed(const struct pg_host *host)
{
	struct pg_environment *environment;
	struct pg_home *home;
	bool missed = false;

	LIST_FOREACH (environment, &host->environments, link)
		LIST_FOREACH (home, &environment->homes, link)
			if (home->guarded && !home->links)
				missed |= pg_links_look(home, NULL) != 0;
	return missed;
}

static int process_timer(void *userdata, struct pg_error *err)
{
	struct pg_link_watch *watch = userdata;
	struct pg_veth *veth;
	bool again = false, failed = false;
	int error;

	pg_timer_acknowledge(watch->timer_fd);
	watch->again_at = 0;
	PG_VETH_FOREACH (watch, i, veth) {
		if (veth->owner)
			look_again_at(veth);
		veth->touched |= veth->failed;
		failed |= veth->failed;
	}
	failed |= watch->missed || watch->incomplete;
	watch->pause = !failed ? SOON_NS : watch->pause < SELDOM_NS ? 2 * watch->pause : SELDOM_NS;
	error = process_events(watch, err);
	watch->missed = look_at_missed(watch->host);
	if (watch->missed || watch->incomplete)
		failed_soon(watch);
	PG_VETH_FOREACH (watch, i, veth)
		again |= is_worth_another_look(watch, veth);
	return error || !again ? error : pg_links_again(watch->host, SOON_NS, err);
}

int pg_links_guard(struct pg_home *home, struct pg_error *err)
{
	struct pg_link_watch *watch = home->environment->host->links;
	const bool first = !home->links;
	int failed, error = pg_veths_read(watch, err);

	if (!error)
		error = pg_links_look(home, err);
	/* What else has happened is not this one's; and a runtime's helper may have been there. */
	if (!error && pg_veth_touched(watch))
		return pg_links_again(home->environment->host, 1, err);
	if (!error && (first || pg_environment_is_made(home->environment)))
		home->links->young = YOUNG_LOOKS;
	if (!error && !is_unsettled(home))
		return 0;
	failed = pg_links_again(home->environment->host, SOON_NS, error ? NULL : err);
	return error ? error : failed;
}

void pg_links_look_soon(struct pg_home *home)
{
	struct pg_error err = {};

	if (!home->links)
		return;
	home->links->young = YOUNG_LOOKS + 1;
	if (pg_links_again(home->environment->host, AT_ONCE_NS, &err))
		warn(home->environment->host, &err);
}

void pg_links_release(struct pg_home *home, bool keep)
{
	struct pg_error err = {};

	free(PG_TAKE_PTR(home->links));
	/* Its guards stay until nobody is left who may have moved their other ends. */
	if (!keep && !home->is_host && pg_links_again(home->environment->host, 1, &err))
		warn(home->environment->host, &err);
}

int pg_links_watch(struct pg_host *host, struct pg_error *err)
{
	struct pg_link_watch *watch = calloc(1, sizeof(*watch));
	int error;

	if (!watch)
		return pg_fail(err, -ENOMEM, "not enough memory for network interfaces");
	host->links = watch;
	watch->host = host;
	watch->timer_fd = -1;
	watch->pause = SOON_NS;
	watch->events_source = (struct pg_source){process_events, watch};
	watch->timer_source = (struct pg_source){process_timer, watch};
	error = pg_veths_open(watch, err);
	if (!error && !watch->incomplete)
		pg_homes_sweep_ends(host);
	if (!error)
		error = pg_host_add_source(host, mnl_socket_get_fd(watch->events), EPOLLIN,
					   &watch->events_source, err);
	if (!error)
		error = pg_host_add_timer(host, &watch->timer_source, &watch->timer_fd, err);
	return error;
}

void pg_links_free(struct pg_link_watch *watch)
{
	if (!watch)
		return;
	if (watch->events)
		pg_host_remove_source(watch->host, mnl_socket_get_fd(watch->events),
				      &watch->events_source);
	if (watch->timer_fd >= 0)
		pg_host_remove_source(watch->host, watch->timer_fd, &watch->timer_source);
	pg_close_fd(&watch->timer_fd);
	pg_links_unhold(watch);
	pg_veths_close(watch);
	free(watch);
}
