/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom a home may ask its neighbours for (PG_LINK_TARGETS): what it routes by. That is the host,
 * and what the home's routes name, as they are when the Environment is made; of one whose workload
 * cannot change them, as they are at each look. A workload that can would else say with each router
 * that it invents as much as an address holds.
 */
#include "links.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "kernel/link.h"

struct looking {
	const struct pg_home *home;
	struct pg_hops *hops;
};

static bool has(const struct pg_hops *hops, const struct pg_addr *addr)
{
	for (size_t i = 0; i < hops->count; i++)
		if (!pg_addr_compare(&hops->items[i], addr))
			return true;
	return false;
}

static void add(struct pg_hops *hops, const struct pg_addr *addr)
{
	if (hops->count < PG_HOPS_MAX && !has(hops, addr))
		hops->items[hops->count++] = *addr;
}

static bool is_at_host_end(const struct pg_home *home, unsigned int ifindex)
{
	const struct pg_veth *veth;
	bool found = false;

	PG_VETH_FOREACH (home->environment->host->links, i, veth)
		found |= veth->nsid == home->nsid &&
			 (veth->ifindex == ifindex || veth->master == ifindex);
	return found;
}

static void take_address(void *userdata, unsigned int ifindex, const struct pg_addr *addr)
{
	const struct looking *looking = userdata;

	if (!is_at_host_end(looking->home, ifindex))
		return;
	add(looking->hops, addr);
	looking->hops->hosts = looking->hops->count;
	looking->hops->known |= pg_addr_is_v4(addr);
}

static void take_router(void *userdata, const struct pg_addr *addr)
{
	const struct looking *looking = userdata;

	add(looking->hops, addr);
}

static int read_routers(struct looking *looking, pid_t pid, struct pg_error *err)
{
	pg_autoclose int fd = -1;
	struct stat status;
	char path[64];
	int error;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* It has gone since it was seen there. */
	if (fd < 0 || fstat(fd, &status) || status.st_ino != looking->home->inode)
		return 0;
	error = pg_devices_routers(fd, take_router, looking, err);
	looking->hops->known |= !error;
	return error;
}

static bool is_anothers(const struct pg_home *home, const struct pg_addr *addr)
{
	const struct pg_home *other;

	LIST_FOREACH (other, &home->environment->homes, link)
		if (other != home && other->links && has(&other->links->hops, addr))
			return true;
	return false;
}

int pg_home_read_hops(const struct pg_home *home, const struct pg_who *who, struct pg_hops *hops,
		      struct pg_error *err)
{
	struct pg_host *host = home->environment->host;
	const uint64_t env_id = home->environment->header.env_id;
	struct pg_hops found = {};
	struct looking looking = {home, &found};
	int error = pg_devices_addresses(host->links->query, take_address, &looking, err);

	if (!error && who->pid && (!home->fixed || !pg_environment_is_made(home->environment)))
		error = read_routers(&looking, who->pid, err);
	else if (hops->known)
		found.known = true;
	/* What routes said before stays where they are not looked at any more. */
	for (size_t i = 0; i < hops->count && home->fixed; i++)
		add(&found, &hops->items[i]);
	for (size_t i = 0; i < found.count && !error; i++)
		error = pg_link_hop_add(host->kernel, env_id, &found.items[i],
					i < found.hosts ? PG_LINK_HOP_HOST : PG_LINK_HOP_ROUTER,
					err);
	for (size_t i = 0; i < hops->count && !error; i++)
		if (!has(&found, &hops->items[i]) && !is_anothers(home, &hops->items[i]))
			pg_link_hop_remove(host->kernel, env_id, &hops->items[i]);
	if (!error)
		*hops = found;
	return error;
}
