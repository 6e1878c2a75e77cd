/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom a home may ask its neighbours for (PG_LINK_TARGETS): what it routes by. That is the host,
 * and what the home's routes name, as they are when the Environment is made; of one whose workload
 * cannot change them, as they are at each look. A workload that can would else say with each router
 * that it invents as much as an address holds. And what it needs no router for, from the same
 * sources (pg_link_stations.networks).
 */
#include "links.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/netns.h"
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

static void add_network(struct pg_hops *hops, const struct pg_prefix *network)
{
	for (size_t i = 0; i < hops->network_count; i++)
		if (!pg_prefix_compare(&hops->networks[i], network))
			return;
	if (hops->network_count < PG_LINK_NETWORKS)
		hops->networks[hops->network_count++] = *network;
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

static void take_address(void *userdata, const struct pg_device_address *address)
{
	const struct looking *looking = userdata;

	if (!is_at_host_end(looking->home, address->ifindex))
		return;
	add(looking->hops, &address->addr);
	add_network(looking->hops, &address->network);
	looking->hops->hosts = looking->hops->count;
	looking->hops->known |= pg_addr_is_v4(&address->addr);
}

static void take_router(void *userdata, const struct pg_addr *addr)
{
	const struct looking *looking = userdata;

	add(looking->hops, addr);
}

static void take_network(void *userdata, const struct pg_prefix *network)
{
	const struct looking *looking = userdata;

	add_network(looking->hops, network);
}

static int read_routes(struct looking *looking, pid_t pid, struct pg_error *err)
{
	const struct pg_device_routes visits = {take_router, take_network, looking};
	pg_autoclose int fd = pg_netns_open(pid, looking->home->inode);
	int error;

	if (fd < 0)
		return 0;
	error = pg_devices_routes(fd, &visits, err);
	looking->hops->known |= !error;
	looking->hops->routed |= !error;
	return error;
}

static void fill_network(struct pg_link_stations *stations, const struct pg_prefix *prefix)
{
	struct pg_prefix mask = *prefix;

	if (stations->network_count == PG_LINK_NETWORKS)
		return;
	memset(&mask.addr, 0xff, sizeof(mask.addr));
	pg_prefix_mask(&mask);
	stations->networks[stations->network_count++] =
		(struct pg_link_network){.addr = prefix->addr, .mask = mask.addr};
}

/* Where only the host has been looked at, it may have no address of a family that others on the
 * link have: then all may be there. */
static void fill_unknown(struct pg_link_stations *stations, const struct pg_hops *hops)
{
	const struct pg_prefix all[] = {
		{.addr = {.word = {0, 0, htonl(0xffff), 0}}, .v4 = true},
		{.addr = {.word = {htonl(0x20000000)}}, .length = 3},
		{.addr = {.word = {htonl(0xfc000000)}}, .length = 7},
	};
	const struct pg_prefix link_local = {.addr = {.word = {htonl(0xfe800000)}}, .length = 10};
	bool has4 = hops->routed, has6 = has4;

	for (size_t i = 0; i < hops->network_count; i++) {
		const struct pg_prefix *network = &hops->networks[i];

		has4 |= network->v4;
		has6 |= !network->v4 && !pg_prefix_contains(&link_local, &network->addr);
	}
	for (size_t i = 0; i < PG_ARRAY_SIZE(all); i++)
		if (!(all[i].v4 ? has4 : has6))
			fill_network(stations, &all[i]);
}

void pg_veth_set_networks(struct pg_veth *veth, const struct pg_hops *hops)
{
	struct pg_link_stations stations = veth->stations;

	stations.network_count = 0;
	memset(stations.networks, 0, sizeof(stations.networks));
	for (size_t i = 0; i < hops->network_count; i++)
		fill_network(&stations, &hops->networks[i]);
	fill_unknown(&stations, hops);
	veth->unwritten |= memcmp(&stations, &veth->stations, sizeof(stations)) != 0;
	veth->stations = stations;
}

void pg_hops_recall(struct pg_hops *hops, const struct pg_link_stations *stations)
{
	for (size_t i = 0; i < stations->network_count && i < PG_LINK_NETWORKS; i++) {
		const struct pg_link_network *network = &stations->networks[i];
		struct pg_prefix prefix = {.addr = network->addr,
					   .v4 = pg_addr_is_v4(&network->addr)};
		unsigned int ones = 0;

		for (size_t word = 0; word < PG_ARRAY_SIZE(network->mask.word); word++)
			ones += (unsigned int)__builtin_popcount(network->mask.word[word]);
		prefix.length = (uint8_t)(prefix.v4 && ones >= 96 ? ones - 96 : ones);
		add_network(hops, &prefix);
		hops->routed = true;
	}
}

static void keep(struct pg_hops *hops, const struct pg_hops *before)
{
	for (size_t i = 0; i < before->count; i++)
		add(hops, &before->items[i]);
	for (size_t i = 0; i < before->network_count; i++)
		add_network(hops, &before->networks[i]);
	hops->routed |= before->routed;
}

static bool is_anothers(const struct pg_home *home, const struct pg_addr *addr)
{
	const struct pg_home *other;

	LIST_FOREACH (other, &home->environment->homes, link)
		if (other != home && other->links && has(&other->links->hops, addr))
			return true;
	return false;
}

/* What is read of routes while the workload begins may be its doing. */
static int read_routes_of(struct pg_home *home, struct looking *looking, pid_t pid,
			  struct pg_error *err)
{
	const struct pg_hops before = *looking->hops;
	const bool untouched = home->untouched;
	int error = read_routes(looking, pid, err);

	if (untouched && !pg_home_is_untouched(home))
		*looking->hops = before;
	return error;
}

int pg_home_read_hops(struct pg_home *home, const struct pg_who *who, struct pg_hops *hops,
		      struct pg_error *err)
{
	struct pg_host *host = home->environment->host;
	const uint64_t env_id = home->environment->header.env_id;
	struct pg_hops found = {};
	struct looking looking = {home, &found};
	int error = pg_devices_addresses(host->links->query, take_address, &looking, err);

	if (!error && who->pid && (!home->fixed || !pg_environment_is_made(home->environment)))
		error = read_routes_of(home, &looking, who->pid, err);
	else if (hops->known)
		found.known = true;
	/* What routes said before stays where they are not looked at any more. */
	if (home->fixed)
		keep(&found, hops);
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
