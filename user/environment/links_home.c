/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways out of a home. A veth whose host end is here gets the guard. What else leads out of it
 * is only named: a macvlan or a device of the host's passes no host end, a tap is as good as
 * whoever holds it, and a veth to a namespace that is neither this one nor a member's is judged by
 * nobody there.
 */
#include "links.h"

#include <errno.h>
#include <string.h>

#include "base/netns.h"
#include "base/vector.h"

struct looking {
	struct pg_home *home;
	struct pg_device *items;
	size_t count, room;
	bool full;
};

static void collect(void *userdata, const struct pg_device *device)
{
	struct looking *looking = userdata;

	if (device->loopback || device->deleted)
		return;
	if (pg_vector_grow(&looking->items, looking->count, &looking->room,
			   sizeof(*looking->items)))
		looking->full = true;
	else
		looking->items[looking->count++] = *device;
}

static int list_devices(struct looking *looking, struct pg_error *err)
{
	struct mnl_socket *query = looking->home->environment->host->links->query;
	enum pg_devices_read how = PG_DEVICES_AGAIN;
	int error = 0;

	for (int i = 0; i < PG_DEVICES_TRIES && !error && how == PG_DEVICES_AGAIN; i++) {
		looking->count = 0;
		error = pg_devices_ask_all(query, looking->home->nsid, err);
		if (!error)
			error = pg_devices_read(query, collect, looking, &how, err);
	}
	/* A workload can make and remove interfaces all the time. */
	if (!error && how == PG_DEVICES_AGAIN)
		return pg_fail(err, -EAGAIN,
			       "its interfaces change faster than they can be listed");
	if (!error && looking->full)
		return pg_fail(err, -ENOMEM, "not enough memory for network interfaces");
	return error;
}

/* The host end of the home's device, if it is one. */
static struct pg_veth *host_end_of(const struct pg_home *home, const struct pg_device *device)
{
	struct pg_veth *veth = pg_veth_find(home->environment->host->links, device->peer);

	return veth && veth->nsid == home->nsid && veth->peer == device->ifindex ? veth : NULL;
}

/* Whether the namespace is another one of the Environment's: its own ways out are looked at. */
static bool is_within(const struct pg_environment *environment, int nsid)
{
	const struct pg_home *home;

	LIST_FOREACH (home, &environment->homes, link)
		if (!home->is_host && home->nsid == nsid)
			return true;
	return false;
}

static void add_open(struct pg_links *links, const char *device, const char *interface,
		     enum pg_unguarded reason)
{
	struct pg_open_link *open;

	if (links->count == PG_OPEN_LINKS_MAX)
		return;
	open = &links->open[links->count++];
	*open = (struct pg_open_link){.reason = reason};
	snprintf(open->device, sizeof(open->device), "%s", device);
	snprintf(open->interface, sizeof(open->interface), "%s", interface);
}

/* Software that works within its namespace, as a bridge does, leads nowhere by itself. */
static bool leads_out(const struct pg_device *device)
{
	static const char *const kinds[] = {"", "tun", "wireguard", "ppp", "slip"};

	if (device->peer_nsid != PG_NSID_NONE)
		return true;
	for (size_t i = 0; i < PG_ARRAY_SIZE(kinds); i++)
		if (pg_device_is(device, kinds[i]))
			return true;
	return false;
}

/* Of one whose workload can change it: as it was before that could, or as it is at first. Whether
 * it can by now is asked after it has been read. */
static void set_own_station(struct pg_home *home, struct pg_veth *veth,
			    const struct pg_device *device)
{
	pg_station station = device->station;

	(void)pg_home_is_untouched(home);
	if (pg_home_began_as(home, device->ifindex, &station) || !veth->stations.own ||
	    !home->fixed)
		pg_veth_set_station(veth, &veth->stations.own, station);
}

static int look_at_veth(struct pg_home *home, const struct pg_device *device,
			struct pg_links *links, struct pg_error *err)
{
	struct pg_link_watch *watch = home->environment->host->links;
	struct pg_veth *veth = host_end_of(home, device);
	int error = 0;

	if (device->peer_nsid == PG_NSID_NONE)
		return 0;
	/* It may have been moved there without a word about its host end. */
	if (!veth && device->peer) {
		error = pg_veths_read_one(watch, device->peer, err);
		veth = error ? NULL : host_end_of(home, device);
	}
	if (error)
		return error;
	if (!veth) {
		if (!is_within(home->environment, device->peer_nsid))
			add_open(links, device->name, "", PG_UNGUARDED_PEER_ELSEWHERE);
		return 0;
	}
	if (veth->master && !veth->stations.bridge) {
		error = pg_veths_read_one(watch, veth->master, err);
		veth = error ? NULL : host_end_of(home, device);
	}
	if (!veth)
		return error;
	set_own_station(home, veth, device);
	veth->inode = home->inode;
	snprintf(veth->device, sizeof(veth->device), "%s", device->name);
	error = pg_veth_guard(home, veth, &links->who, err);
	if (!error && veth->owner != home->environment)
		add_open(links, device->name, veth->name, PG_UNGUARDED_ANOTHERS);
	else if (!error && veth->passable && home->fixed)
		add_open(links, device->name, veth->name, PG_UNGUARDED_PASSABLE);
	return error;
}

static int look_at_all(struct pg_home *home, struct pg_links *links, struct pg_error *err)
{
	PG_CLEANUP(pg_free_ptr) struct pg_device *items = NULL;
	struct looking looking = {.home = home};
	int error = list_devices(&looking, err);

	items = looking.items;
	for (size_t i = 0; i < looking.count && !error; i++) {
		if (pg_device_is(&items[i], "veth"))
			error = look_at_veth(home, &items[i], links, err);
		else if (leads_out(&items[i]))
			add_open(links, items[i].name, "", PG_UNGUARDED_NO_VETH);
	}
	return error;
}

static int look_at_hops(struct pg_home *home, struct pg_links *links, struct pg_error *err)
{
	int error = pg_home_read_hops(home, &links->who, &links->hops, err);

	links->who.targets = links->hops.known;
	return error;
}

/* A list that could not be had (the namespace is about to go) has none of them; and what is known
 * by now goes to all. */
static int guard_listed(struct pg_home *home, const struct pg_links *links, struct pg_error *err)
{
	struct pg_link_watch *watch = home->environment->host->links;
	struct pg_veth *veth;
	int error = 0;

	PG_VETH_FOREACH (watch, i, veth)
		if (!error && veth->nsid == home->nsid) {
			pg_veth_set_networks(veth, &links->hops);
			error = pg_veth_guard(home, veth, &links->who, err);
		}
	return error;
}

/*
 * What the kernel inside knows of its neighbours it has from before the guard, which lets frames go
 * only to stations that it has seen the address of: so it is to ask once more.
 */
static void ask_anew(const struct pg_home *home, const struct pg_links *links)
{
	struct pg_host *host = home->environment->host;
	pg_autoclose int fd = links->who.pid ? pg_netns_open(links->who.pid, home->inode) : -1;
	struct pg_veth *veth;

	if (fd < 0)
		return;
	PG_VETH_FOREACH (host->links, i, veth) {
		struct pg_error err = {};

		if (!veth->fresh || veth->owner != home->environment || veth->nsid != home->nsid)
			continue;
		veth->fresh = false;
		if (pg_devices_forget_neighbours(fd, veth->peer, &err))
			pg_host_warn(host, "link", err.text);
	}
}

static bool was_told(const struct pg_links *before, const struct pg_open_link *open)
{
	for (size_t i = 0; before && i < before->count; i++)
		if (!strcmp(before->open[i].device, open->device) &&
		    before->open[i].reason == open->reason)
			return true;
	return false;
}

static void tell(struct pg_home *home, const struct pg_links *before)
{
	const struct pg_host *host = home->environment->host;

	for (size_t i = 0; i < home->links->count; i++) {
		const struct pg_open_link *open = &home->links->open[i];
		const struct pg_link_view view = {
			.network_namespace = home->inode,
			.interface = open->interface[0] ? open->interface : NULL,
			.device = open->device[0] ? open->device : NULL,
			.guard = PG_LINK_GUARD_NONE,
			.reason = open->reason,
		};

		if (host->unguarded && !home->is_host && !was_told(before, open))
			host->unguarded(host->userdata, home->environment, &view);
	}
}

/* Of an Environment that has been adopted: what its last owner knew. */
static void recall(const struct pg_home *home, struct pg_links *links)
{
	const struct pg_veth *veth;

	PG_VETH_FOREACH (home->environment->host->links, i, veth) {
		if (veth->owner != home->environment || veth->nsid != home->nsid)
			continue;
		links->who.shared |= veth->shared;
		links->who.targets |= veth->targets;
		pg_hops_recall(&links->hops, &veth->stations);
	}
	links->hops.known = links->who.targets;
}

/* In what order: who was there before is not to be disturbed, but who starts is not to be faster.
 */
static int look_at_home(struct pg_home *home, struct pg_links *links, struct pg_error *err)
{
	const bool first = !home->links && pg_environment_is_made(home->environment);
	int error = first ? 0 : pg_home_look_who(home, &links->who, err);

	if (!error)
		error = look_at_all(home, links, err);
	if (!error && first)
		error = pg_home_look_who(home, &links->who, err);
	if (!error)
		error = look_at_hops(home, links, err);
	if (!error)
		error = guard_listed(home, links, err);
	if (!error)
		ask_anew(home, links);
	return error;
}

int pg_links_look(struct pg_home *home, struct pg_error *err)
{
	pg_autofree struct pg_links *before = NULL, *links = calloc(1, sizeof(*links));
	int error = 0;

	if (!links)
		return pg_fail(err, -ENOMEM, "not enough memory for the links of a namespace");
	if (home->links) {
		links->who = home->links->who;
		links->hops = home->links->hops;
		links->young = home->links->young;
	} else {
		recall(home, links);
	}
	if (home->is_host)
		add_open(links, "", "", PG_UNGUARDED_HOST_NETWORK);
	else
		error = look_at_home(home, links, err);
	if (error)
		return pg_error_prefix(err, "guarding the links of the network namespace %ju",
				       (uintmax_t)home->inode);
	before = home->links;
	home->links = PG_TAKE_PTR(links);
	tell(home, before);
	return 0;
}
