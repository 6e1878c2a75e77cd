/* SPDX-License-Identifier: Apache-2.0 */
/* How a guard ends with its Environment, or goes to another one, or to the next owner. */
#include "links.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "kernel/link.h"
#include "steps.h"

/* Another Environment that lives in the namespace: its own from now on, without a moment between.
 */
static int hand_over(struct pg_veth *veth, const struct pg_home *home, struct pg_error *err)
{
	struct pg_who who = home->links ? home->links->who : (struct pg_who){};
	int error = pg_home_look_who(home, &who, err);

	if (error)
		return error;
	veth->owner = home->environment;
	veth->member = who.member;
	veth->shared = who.shared;
	veth->targets = who.targets;
	error = pg_links_file_write(veth->owner, err);
	return error ? error : pg_veth_write(veth, err);
}

static int end_link(struct pg_veth *veth, struct pg_error *err)
{
	struct pg_environment *environment = veth->owner;
	struct pg_home *home = pg_home_of(environment->host, veth->nsid, environment);
	struct pg_error unused = {};

	if (!home || hand_over(veth, home, &unused)) {
		veth->owner = environment;
		return pg_veth_take_off(veth, err);
	}
	/* It is guarded; what else the new owner has to know of it may be late. */
	if (pg_links_look(home, &unused))
		pg_host_warn(environment->host, "link", unused.text);
	return 0;
}

static struct pg_veth *find_owned(const struct pg_environment *environment)
{
	struct pg_veth *veth;

	PG_VETH_FOREACH (environment->host->links, i, veth)
		if (veth->owner == environment)
			return veth;
	return NULL;
}

int pg_links_end(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_link_watch *watch = environment->host->links;
	struct pg_veth *veth;
	bool any = false;
	int error = 0;

	while (!error && (veth = find_owned(environment))) {
		const unsigned int ifindex = veth->ifindex;

		/* Where it leads now: nobody says when the other end has been moved. */
		error = pg_veths_read_one(watch, ifindex, err);
		veth = pg_veth_find(watch, ifindex);
		if (!error && veth && veth->owner == environment)
			error = end_link(veth, err);
		any = true;
	}
	return error || !any ? error : pg_links_file_write(environment, err);
}

void pg_links_leave(struct pg_environment *environment)
{
	struct pg_veth *veth;

	if (!environment->host->links)
		return;
	PG_VETH_FOREACH (environment->host->links, i, veth)
		if (veth->owner == environment)
			veth->owner = NULL;
}

static int read_record(const char *name, unsigned int **ret_items, size_t *ret_count,
		       struct pg_error *err)
{
	pg_autoclose int records_fd = open(PG_RECORD_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pg_autoclose int fd =
		openat(records_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	*ret_items = NULL;
	*ret_count = 0;
	if (fd < 0)
		return errno == ENOENT
			       ? 0
			       : pg_fail_errno(err, -errno, "opening the record of %s", name);
	return pg_links_file_read(fd, ret_items, ret_count, err);
}

int pg_links_remains_remove(struct pg_host *host, const char *name, struct pg_error *err)
{
	pg_autofree unsigned int *items = NULL;
	size_t count;
	int error = read_record(name, &items, &count, err);

	for (size_t i = 0; i < count && !error; i++) {
		bool anothers;

		/* The index may have been given to a link that another one guards. */
		error = pg_links_file_elsewhere(name, items[i], &anothers, err);
		if (!error && anothers)
			continue;
		if (!error)
			error = pg_link_detach(items[i], err);
		if (!error && host->kernel)
			pg_link_forget(host->kernel, items[i]);
	}
	if (!error && count)
		pg_step(PG_STEP_LINK_DETACHED);
	return error;
}

void pg_links_shut(struct pg_host *host, const char *name)
{
	pg_autofree unsigned int *items = NULL;
	size_t count;

	if (read_record(name, &items, &count, NULL))
		return;
	for (size_t i = 0; i < count; i++)
		pg_link_forget(host->kernel, items[i]);
}

static bool is_kept(const struct pg_host *host, unsigned int ifindex)
{
	const struct pg_kept *kept;

	LIST_FOREACH (kept, &host->kept, link) {
		pg_autofree unsigned int *items = NULL;
		size_t count;

		/* In doubt it is. */
		if (read_record(kept->name, &items, &count, NULL))
			return true;
		for (size_t i = 0; i < count; i++)
			if (items[i] == ifindex)
				return true;
	}
	return false;
}

void pg_links_sweep(struct pg_host *host)
{
	for (unsigned int ifindex = 0; pg_link_next(host->kernel, &ifindex);)
		if (!is_kept(host, ifindex))
			pg_link_forget(host->kernel, ifindex);
}

int pg_links_recall(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_host *host = environment->host;
	pg_autofree unsigned int *items = NULL;
	size_t count;
	int error = pg_links_file_read(environment->record_fd, &items, &count, err);

	for (size_t i = 0; i < count && !error; i++) {
		struct pg_veth *veth = pg_veth_find(host->links, items[i]);
		struct pg_link link;

		if (!veth || veth->owner) {
			pg_link_forget(host->kernel, items[i]);
			continue;
		}
		veth->owner = environment;
		pg_veth_let_go(host->links, veth);
		if (pg_link_read(host->kernel, items[i], &link, NULL))
			continue;
		veth->shared = link.flags & PG_LINK_SHARED;
		veth->targets = link.flags & PG_LINK_TARGETS;
		if (!(link.flags & PG_LINK_STATIONS))
			continue;
		veth->stations.own = link.stations.own;
		veth->stations.network_count = link.stations.network_count;
		memcpy(veth->stations.networks, link.stations.networks,
		       sizeof(veth->stations.networks));
	}
	return error;
}

/* One that has gone meanwhile needs no filters; one that was just guarded when its owner was killed
 * has that of links without a guard too (links_new.c). */
static int renew(struct pg_host *host, unsigned int ifindex, struct pg_error *err)
{
	int error = pg_link_attach(host->kernel, ifindex, err);

	if (!error)
		(void)pg_link_new_detach(host->kernel, ifindex);
	if (!error || pg_veths_read_one(host->links, ifindex, NULL))
		return error;
	return pg_veth_find(host->links, ifindex) ? error : 0;
}

int pg_links_renew(struct pg_environment *environment, struct pg_error *err)
{
	pg_autofree unsigned int *items = NULL;
	size_t count = 0;
	int error = pg_links_file_write(environment, err);

	if (!error)
		error = pg_links_file_read(environment->record_fd, &items, &count, err);
	for (size_t i = 0; i < count && !error; i++)
		error = renew(environment->host, items[i], err);
	if (error || !count)
		return error;
	pg_step(PG_STEP_ADOPT_LINKED);
	/* Who lives there, and what it leads to, is seen then. */
	return pg_links_again(environment->host, 1, err);
}
