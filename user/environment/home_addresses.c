/* SPDX-License-Identifier: Apache-2.0 */
#include "homes.h"

#include <errno.h>

#include <phasegate/abi/set.h>

#include "base/vector.h"
#include "host_internal.h"

static struct pg_home_address *find(const struct pg_home *home, unsigned int ifindex,
				    const struct pg_addr *addr)
{
	for (size_t i = 0; i < home->count; i++)
		if (home->addresses[i].ifindex == ifindex &&
		    !pg_addr_compare(&home->addresses[i].addr, addr))
			return &home->addresses[i];
	return NULL;
}

bool pg_home_has(const struct pg_home *home, const struct pg_addr *addr)
{
	if (home->is_host)
		return pg_addresses_have(home->environment->host->addresses, addr);
	for (size_t i = 0; i < home->count; i++)
		if (!home->addresses[i].pending && !pg_addr_compare(&home->addresses[i].addr, addr))
			return true;
	return false;
}

static int publish(struct pg_environment *environment, const struct pg_addr *addr,
		   struct pg_error *err)
{
	struct pg_kernel *kernel = environment->host->kernel;
	const struct pg_home *home;
	uint64_t netns = 0;
	size_t holders = 0;

	LIST_FOREACH (home, &environment->homes, link) {
		if (!pg_home_has(home, addr))
			continue;
		netns = home->netns | (home->is_host ? PG_OWN_HOST : 0);
		holders++;
	}
	if (holders)
		return pg_own_add(kernel, environment->header.env_id, addr,
				  holders == 1 ? netns : 0, err);
	pg_own_remove(kernel, environment->header.env_id, addr);
	return 0;
}

void pg_homes_publish(struct pg_environment *environment, const struct pg_addr *addr)
{
	struct pg_error err = {};

	if (publish(environment, addr, &err))
		pg_homes_warn(environment, "own_address", &err);
}

struct all {
	struct pg_addr *items;
	size_t count, room;
};

static int collect_one(struct all *all, const struct pg_addr *addr)
{
	if (pg_vector_grow(&all->items, all->count, &all->room, sizeof(*all->items)))
		return -ENOMEM;
	all->items[all->count++] = *addr;
	return 0;
}

static int collect(const struct pg_home *home, struct all *all)
{
	size_t count = home->count;
	const struct pg_addr *host =
		home->is_host ? pg_addresses_list(home->environment->host->addresses, &count)
			      : NULL;
	int error = 0;

	for (size_t i = 0; i < count && !error; i++)
		if (home->is_host)
			error = collect_one(all, &host[i]);
		else if (!home->addresses[i].pending)
			error = collect_one(all, &home->addresses[i].addr);
	return error;
}

int pg_homes_publish_all(struct pg_environment *environment, struct pg_error *err)
{
	const struct pg_home *home;
	struct all all = {};
	int error = 0;

	LIST_FOREACH (home, &environment->homes, link)
		error = error ? error : collect(home, &all);
	if (error)
		pg_fail(err, error, "not enough memory for own addresses");
	for (size_t i = 0; i < all.count && !error; i++)
		error = publish(environment, &all.items[i], err);
	/* What an earlier owner knew and is not there any more. */
	if (!error)
		pg_own_retain(environment->host->kernel, environment->header.env_id, all.items,
			      all.count);
	free(all.items);
	return error;
}

static void refuse(struct pg_home *home, const struct pg_addr *addr)
{
	char text[PG_ADDR_TEXT];
	struct pg_error err = {};

	pg_fail(&err, -EPERM,
		"the new address %s is not taken for its own: a process there may have"
		" CAP_NET_ADMIN and could give itself the address of anybody; run it without, or,"
		" if the address is right, create the Environment anew",
		pg_addr_format(addr, text));
	pg_homes_tell_refused(home->environment, addr, &err);
}

/* NULL: there is no room. */
static struct pg_home_address *append(struct pg_home *home, unsigned int ifindex,
				      const struct pg_addr *addr)
{
	struct pg_error err = {};

	if (home->count == PG_HOME_ADDRESSES_MAX ||
	    pg_vector_grow(&home->addresses, home->count, &home->room, sizeof(*home->addresses))) {
		pg_fail(&err, -E2BIG,
			"a network namespace has more than %d addresses: what is sent from the"
			" others is denied",
			PG_HOME_ADDRESSES_MAX);
		pg_homes_warn(home->environment, "own_address", &err);
		return NULL;
	}
	home->addresses[home->count] = (struct pg_home_address){.ifindex = ifindex, .addr = *addr};
	return &home->addresses[home->count++];
}

static void drop(struct pg_home *home, struct pg_home_address *item)
{
	const struct pg_addr addr = item->addr;

	*item = home->addresses[--home->count];
	pg_homes_publish(home->environment, &addr);
}

/* By its runtime, or given to it before the workload began. */
static bool is_named(const struct pg_home *home, const struct pg_addr *addr)
{
	return pg_member_addresses_have(home->environment, addr) || pg_home_began_with(home, addr);
}

struct reading {
	struct pg_home *home;
	bool only_known;
};

static int take(void *userdata, unsigned int ifindex, const struct pg_addr *addr)
{
	const struct reading *reading = userdata;
	struct pg_home *home = reading->home;
	struct pg_home_address *item = find(home, ifindex, addr);

	if (!item && reading->only_known && !is_named(home, addr) &&
	    !pg_own_has(home->environment->host->kernel, home->environment->header.env_id, addr)) {
		refuse(home, addr);
		return 0;
	}
	if (!item)
		item = append(home, ifindex, addr);
	if (item)
		item->seen = true;
	return 0;
}

int pg_home_read(struct pg_home *home, enum pg_homes_look why, struct pg_error *err)
{
	struct reading reading = {home, home->fixed && why == PG_HOMES_ADOPT};

	return home->is_host ? 0
			     : pg_homes_netlink_addresses(pg_homes_netlink(home->environment->host),
							  home->nsid, take, &reading, err);
}

static int hear_again(void *userdata, unsigned int ifindex, const struct pg_addr *addr)
{
	struct pg_home *home = userdata;
	struct pg_home_address *item;

	pg_home_hear(home, ifindex, addr, true);
	item = find(home, ifindex, addr);
	if (item)
		item->seen = true;
	return 0;
}

void pg_home_read_again(struct pg_home *home)
{
	struct pg_error err = {};

	if (home->is_host)
		return;
	for (size_t i = 0; i < home->count; i++)
		home->addresses[i].seen = false;
	if (pg_homes_netlink_addresses(pg_homes_netlink(home->environment->host), home->nsid,
				       hear_again, home, &err)) {
		pg_homes_warn(home->environment, "own_address", &err);
		return;
	}
	for (size_t i = home->count; i-- > 0;)
		if (!home->addresses[i].seen)
			drop(home, &home->addresses[i]);
}

void pg_home_hear(struct pg_home *home, unsigned int ifindex, const struct pg_addr *addr,
		  bool there)
{
	struct pg_home_address *item = find(home, ifindex, addr);

	if (!there && item)
		drop(home, item);
	if (!there || item)
		return;
	if (home->fixed_for_good && !is_named(home, addr)) {
		refuse(home, addr);
		return;
	}
	item = append(home, ifindex, addr);
	if (!item)
		return;
	item->pending = true;
	home->environment->homes_state.pending = true;
	/* A runtime sets up the device before it. */
	pg_links_look_soon(home);
}

void pg_home_doubt(struct pg_home *home)
{
	if (!home->untouched || pg_home_is_untouched(home))
		return;
	for (size_t i = home->count; i-- > 0;) {
		struct pg_home_address *item = &home->addresses[i];

		if (is_named(home, &item->addr))
			continue;
		refuse(home, &item->addr);
		drop(home, item);
	}
}

void pg_home_settle(struct pg_home *home)
{
	for (size_t i = home->count; i-- > 0;) {
		struct pg_home_address *item = &home->addresses[i];

		if (!item->pending || (home->fixed && !home->fixed_for_good))
			continue;
		if (home->fixed && !is_named(home, &item->addr)) {
			refuse(home, &item->addr);
			drop(home, item);
			continue;
		}
		item->pending = false;
		pg_homes_publish(home->environment, &item->addr);
	}
}
