/* SPDX-License-Identifier: Apache-2.0 */
#include "homes.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/netns.h"
#include "host_internal.h"

/* Of one Environment, for those that an address or a namespace each would cause. */
#define MESSAGES_MAX 10

/* A runtime's first process is in the host's namespace for some milliseconds. */
#define CONFIRM_NS (PG_NSEC_PER_SEC / 2)

/* A runtime's process has another root directory already, and all capabilities still, for some
 * milliseconds; on a busy machine for longer. */
#define BEGIN_NS (3 * PG_NSEC_PER_SEC)

/* How often a member is looked for that has processes, but none that lives until it is looked at.
 */
#define FIND_TRIES    5
#define FIND_PAUSE_NS (10L * 1000 * 1000)

/* Sockets outlive their process for about a minute (net.ipv4.tcp_fin_timeout), and what they still
 * send has an own source. */
#define EMPTY_NS (60 * PG_NSEC_PER_SEC)

void pg_homes_warn(struct pg_environment *environment, const char *code, struct pg_error *err)
{
	struct pg_homes_state *state = &environment->homes_state;

	if (state->told++ >= MESSAGES_MAX)
		return;
	pg_error_prefix(err, "%s%s", environment->record.name,
			state->told == MESSAGES_MAX
				? " (further messages about its addresses are not reported)"
				: "");
	pg_host_warn(environment->host, code, err->text);
}

void pg_homes_tell_refused(struct pg_environment *environment, const struct pg_addr *addr,
			   struct pg_error *err)
{
	const struct pg_host *host = environment->host;

	if (!host->address_refused)
		pg_homes_warn(environment, "own_address_refused", err);
	else if (environment->homes_state.told++ < MESSAGES_MAX)
		host->address_refused(host->userdata, environment, addr, err->text);
}

static struct pg_home *find(const struct pg_environment *environment, ino_t inode)
{
	struct pg_home *home;

	LIST_FOREACH (home, &environment->homes, link)
		if (home->inode == inode)
			return home;
	return NULL;
}

static ino_t own_inode(const char *path)
{
	struct stat status;

	return stat(path, &status) ? 0 : status.st_ino;
}

/* 0 before Linux 5.14. */
static uint64_t read_cookie(int netns_fd)
{
	pg_autoclose int fd = -1;
	struct pg_error unused = {};
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);
	int back;

	if (pg_netns_enter(netns_fd, &back, &unused))
		return 0;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	pg_netns_leave(&back);
	return fd < 0 || getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) ? 0 : cookie;
}

/* *ret_nsid -1: the host gave it to nobody. */
static int number(struct pg_environment *environment, const struct pg_scanned *scanned,
		  int *ret_nsid, struct pg_error *err)
{
	struct pg_homes_netlink *netlink = pg_homes_netlink(environment->host);
	const bool ours = scanned->owner && scanned->owner == own_inode("/proc/self/ns/user");
	bool joined = ours;
	int nsid = -1;
	int error = pg_homes_netlink_id(netlink, scanned->fd, ours, &nsid, err);

	/* One that a veth joins to ours has a number already. */
	if (!error && !ours && nsid >= 0)
		error = pg_homes_netlink_joined(netlink, nsid, &joined, err);
	if (!error)
		*ret_nsid = joined ? nsid : -1;
	return error;
}

struct pg_home *pg_home_insert(struct pg_environment *environment, ino_t inode, int nsid,
			       struct pg_error *err)
{
	struct pg_home *home = NULL;
	size_t count = 0;

	LIST_FOREACH (home, &environment->homes, link)
		count++;
	home = count < PG_HOMES_MAX ? calloc(1, sizeof(*home)) : NULL;
	if (!home) {
		pg_fail(err, -E2BIG,
			"more than %d network namespaces, or no memory for one: what is sent from"
			" the others is denied",
			PG_HOMES_MAX);
		return NULL;
	}
	home->environment = environment;
	home->inode = inode;
	home->nsid = nsid;
	home->found = pg_monotonic_ns();
	LIST_INSERT_HEAD(&environment->homes, home, link);
	return home;
}

/* Before anybody is seen there. */
static struct pg_home *insert_host(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_home *home =
		pg_home_insert(environment, own_inode("/proc/thread-self/ns/net"), -1, err);

	if (!home)
		return NULL;
	home->is_host = true;
	home->netns = read_cookie(-1);
	return home;
}

/* Leaves the kernel's map as it is. */
static void discard(struct pg_home *home, bool keep)
{
	if (home->guarded)
		pg_links_release(home, keep);
	LIST_REMOVE(home, link);
	free(home->addresses);
	free(home->begun);
	free(home);
}

void pg_home_remove(struct pg_home *home)
{
	struct pg_environment *environment = home->environment;
	struct pg_error err = {};

	discard(home, false);
	if (pg_homes_publish_all(environment, &err))
		pg_homes_warn(environment, "own_address", &err);
}

/*
 * What comes while it is not known whether it stays so waits: a runtime's process may be about to
 * begin, without the capability.
 */
static void adjust_fixed(struct pg_home *home, bool fixed, bool for_good)
{
	const uint64_t now = pg_monotonic_ns();

	if (fixed && !home->fixed)
		home->fixed_since = now;
	home->fixed_for_good |= fixed && (for_good || now - home->fixed_since >= BEGIN_NS);
	home->stale_links |= home->fixed && !fixed && !home->fixed_for_good;
	home->fixed = fixed || home->fixed_for_good;
}

/* Whether what is there may be the workload's doing. A process that has executed something
 * elsewhere has been moved there. */
static bool could_change(struct pg_home *home, const struct pg_scanned *scanned)
{
	const bool untouched = pg_home_is_untouched(home);

	home->poised = untouched && scanned->admin && scanned->started;
	return scanned->admin && scanned->started && (!untouched || scanned->executed);
}

static void adjust(struct pg_home *home, const struct pg_scanned *scanned, enum pg_homes_look why)
{
	const uint64_t now = pg_monotonic_ns();

	/* Somebody else may be there by now. */
	if (!home->members)
		home->found = now;
	home->members = scanned->members;
	home->empty_since = 0;
	if (home->is_host)
		home->confirmed |= why != PG_HOMES_LATER || now - home->found >= CONFIRM_NS;
	else
		adjust_fixed(home, could_change(home, scanned), why != PG_HOMES_LATER);
}

/* *ret_home NULL: it is none. */
static int add(struct pg_environment *environment, const struct pg_scanned *scanned,
	       enum pg_homes_look why, struct pg_home **ret_home, struct pg_error *err)
{
	const bool is_host = scanned->inode == own_inode("/proc/thread-self/ns/net");
	struct pg_home *home;
	int nsid = -1;
	int error = is_host ? 0 : number(environment, scanned, &nsid, err);

	*ret_home = NULL;
	if (error || (!is_host && nsid < 0))
		return error;
	home = pg_home_insert(environment, scanned->inode, nsid, err);
	if (!home)
		return -E2BIG;
	home->is_host = is_host;
	home->confirmed = !is_host;
	home->netns = read_cookie(is_host ? -1 : scanned->fd);
	pg_home_begin(home, why, scanned->owner);
	adjust(home, scanned, why);
	error = pg_home_read(home, why, err);
	pg_home_doubt(home);
	if (error) {
		discard(home, false);
		return error;
	}
	*ret_home = home;
	return 0;
}

/* The number of a namespace that has gone may be another's by now, and so may its inode. */
static int is_still(const struct pg_home *home, const struct pg_scanned *scanned, bool *ret_same,
		    struct pg_error *err)
{
	int nsid = home->nsid;
	int error = home->is_host ? 0
				  : pg_homes_netlink_id(pg_homes_netlink(home->environment->host),
							scanned->fd, false, &nsid, err);

	*ret_same = nsid == home->nsid;
	return error;
}

static int take_scanned(struct pg_environment *environment, const struct pg_scanned *scanned,
			enum pg_homes_look why, bool *changed, struct pg_error *err)
{
	struct pg_home *home = find(environment, scanned->inode);
	bool same = true;
	int error = home ? is_still(home, scanned, &same, err) : 0;

	/* Of which that cannot be told is looked at again. */
	if (error)
		return error;
	/* Of a hidden one hardly anything is known. */
	if (!same || (home && home->hidden)) {
		discard(home, false);
		*changed = true;
		home = NULL;
	}
	if (home) {
		adjust(home, scanned, why);
		return 0;
	}
	error = add(environment, scanned, why, &home, err);
	*changed |= home != NULL;
	return error;
}

/* Who was waited for has come. */
static void end_waiting(const struct pg_environment *environment, const struct pg_scan *scan)
{
	struct pg_home *home;

	LIST_FOREACH (home, &environment->homes, link)
		if (home->waiting && scan->count)
			home->waiting = home->permanent = false;
}

/* What nobody of the Environment is in any more. */
static bool end_empty(struct pg_environment *environment, const struct pg_scan *scan)
{
	struct pg_home *home, *next;
	bool changed = false;

	for (home = LIST_FIRST(&environment->homes); home; home = next) {
		const uint64_t now = pg_monotonic_ns();
		bool there = false;

		next = LIST_NEXT(home, link);
		for (size_t i = 0; i < scan->count && !there; i++)
			there = scan->items[i].inode == home->inode && scan->items[i].members;
		if (there)
			continue;
		home->members = 0;
		if (home->permanent)
			continue;
		if (!home->empty_since)
			home->empty_since = now;
		if (home->confirmed && now - home->empty_since < EMPTY_NS)
			continue;
		discard(home, false);
		changed = true;
	}
	return changed;
}

static int guard_all(struct pg_environment *environment, enum pg_homes_look why,
		     struct pg_error *err)
{
	struct pg_home *home;

	LIST_FOREACH (home, &environment->homes, link) {
		struct pg_error fault = {};

		if (home->guarded || !home->confirmed)
			continue;
		home->guarded = true;
		if (!pg_links_guard(home, &fault))
			continue;
		if (why == PG_HOMES_CREATE)
			return pg_fail(err, fault.number, "%s", fault.text);
		pg_homes_warn(environment, "link_unguarded", &fault);
	}
	return 0;
}

/* What a runtime has changed of its links while nobody knew that it was the runtime. */
static void look_at_stale(struct pg_home *home)
{
	struct pg_error err = {};

	if (!home->stale_links)
		return;
	home->stale_links = false;
	if (home->guarded && pg_links_guard(home, &err))
		pg_homes_warn(home->environment, "link_unguarded", &err);
}

/* One whose processes cannot be seen is looked at again later; others are not kept waiting. */
static int take_all(struct pg_environment *environment, enum pg_homes_look why, bool *changed,
		    struct pg_error *err)
{
	struct pg_scan scan = {};
	int error = pg_scan_make(environment, &scan, err);

	for (size_t i = 0; i < scan.count && !error; i++)
		error = take_scanned(environment, &scan.items[i], why, changed, err);
	if (!error)
		error = pg_homes_take_hidden(environment, changed, err);
	if (!error) {
		end_waiting(environment, &scan);
		*changed |= end_empty(environment, &scan);
		if (why == PG_HOMES_CREATE && environment->settings.attached)
			error = pg_scan_refuse_hidden(environment, &scan, err);
	}
	pg_scan_clear(&scan);
	return error;
}

static int renew(struct pg_environment *environment, enum pg_homes_look why, bool changed,
		 struct pg_error *err)
{
	struct pg_homes_state *state = &environment->homes_state;
	struct pg_home *home;
	int failed, error = take_all(environment, why, &changed, err);

	if (error && why != PG_HOMES_LATER)
		return error;
	/* What was found is in force, whatever else could not be looked at. */
	if (changed) {
		failed = pg_homes_publish_all(environment, error ? NULL : err);
		error = error ? error : failed;
	}
	failed = guard_all(environment, why, error ? NULL : err);
	error = error ? error : failed;
	if (error)
		return error;
	state->pending = false;
	LIST_FOREACH (home, &environment->homes, link) {
		pg_home_settle(home);
		look_at_stale(home);
	}
	pg_environment_find_addresses(environment);
	state->pause = changed ? 0 : state->pause;
	return 0;
}

int pg_homes_renew(struct pg_environment *environment, enum pg_homes_look why, struct pg_error *err)
{
	return renew(environment, why, false, err);
}

/* Who is still to come may send at once. Commands of `run` are started from here; a container that
 * is attached to before it is started may be of the host's namespace, or not. */
static int wait_in_host(struct pg_environment *environment, struct pg_error *err)
{
	const bool attached = environment->settings.attached;
	struct pg_home *home;
	bool populated = false;
	int error = attached ? pg_environment_populated(environment, &populated, err) : 0;

	if (error || populated)
		return error;
	home = insert_host(environment, err);
	if (!home)
		return -ENOMEM;
	home->permanent = true;
	home->waiting = attached;
	home->confirmed = environment->record.made && !environment->record.kept;
	return 0;
}

/* Who was there when the list was made may have ended, and somebody else have come. */
static int find_first(struct pg_environment *environment, enum pg_homes_look why,
		      struct pg_error *err)
{
	const struct timespec pause = {.tv_nsec = FIND_PAUSE_NS};
	int error = renew(environment, why, true, err);

	for (int i = 1; i < FIND_TRIES && error == -EAGAIN; i++) {
		(void)!nanosleep(&pause, NULL);
		error = renew(environment, why, true, err);
	}
	if (error != -EAGAIN)
		return error;
	if (err)
		err->number = -EINVAL;
	return -EINVAL;
}

int pg_homes_start(struct pg_environment *environment, enum pg_homes_look why, struct pg_error *err)
{
	int error;

	pg_links_hold(environment->host);
	error = wait_in_host(environment, err);
	if (!error)
		error = find_first(environment, why, err);
	/* Its runtime may have made us attach to it before it begins. */
	if (environment->settings.attached)
		pg_homes_follow(environment);
	return error;
}

static struct pg_home *find_host(const struct pg_environment *environment)
{
	struct pg_home *home;

	LIST_FOREACH (home, &environment->homes, link)
		if (home->is_host)
			return home;
	return NULL;
}

int pg_homes_visit(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_home *home = find_host(environment);

	if (!home)
		home = insert_host(environment, err);
	if (!home)
		return -ENOMEM;
	home->permanent = true;
	return pg_homes_publish_all(environment, err);
}

void pg_homes_end_visit(struct pg_environment *environment)
{
	struct pg_home *home = find_host(environment);

	if (!home || !environment->settings.attached)
		return;
	home->permanent = home->waiting;
	pg_homes_follow(environment);
}

void pg_homes_end(struct pg_environment *environment, bool keep)
{
	while (!LIST_EMPTY(&environment->homes))
		discard(LIST_FIRST(&environment->homes), keep);
}
