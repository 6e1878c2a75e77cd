/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Homes that nobody is seen in. A home is found where processes are, but all of them can have left
 * it for namespaces of their own before it is looked at, and keep it by a socket that is on its way
 * from one to another. What was executed there the kernel has noted (kernel/host_end.h), and so its
 * links get the guard even so. No address of it is own until somebody is seen there.
 */
#include "homes.h"

#include <errno.h>

#include "kernel/host_end.h"
#include "links.h"

/* Nobody is left who may have hidden it. */
static bool forget_if_left(struct pg_environment *environment, const struct pg_host_end_key *key,
			   const struct pg_host_end *end)
{
	struct pg_kernel *kernel = environment->host->kernel;
	bool populated = true;

	if (pg_environment_populated(environment, &populated, NULL) || populated)
		return false;
	pg_host_end_forget(kernel, key);
	/* Somebody may have come before that, and executed something. */
	if (!pg_environment_populated(environment, &populated, NULL) && !populated)
		return true;
	pg_host_end_restore(kernel, key, end);
	return false;
}

static int take(struct pg_environment *environment, const struct pg_veth *veth,
		const struct pg_host_end *end, struct pg_error *err)
{
	struct pg_home *home = pg_home_insert(environment, end->inode, veth->nsid, err);

	if (!home)
		return -E2BIG;
	home->netns = end->netns;
	home->hidden = home->confirmed = true;
	/* Whoever has left it may have had any right there. */
	home->fixed = home->fixed_for_good = true;
	return 0;
}

int pg_homes_take_hidden(struct pg_environment *environment, bool *changed, struct pg_error *err)
{
	const struct pg_host *host = environment->host;
	struct pg_host_end_key key = {
		.env_id = environment->header.env_id,
		.host = (uint32_t)pg_links_namespace(),
	};
	const struct pg_veth *veth;
	struct pg_host_end end;
	int error = 0;

	PG_VETH_FOREACH (host->links, i, veth) {
		key.ifindex = veth->ifindex;
		if (error || veth->owner || veth->nsid == PG_NSID_NONE ||
		    !pg_host_end_read(host->kernel, &key, &end) ||
		    pg_home_of(host, veth->nsid, NULL) || forget_if_left(environment, &key, &end))
			continue;
		error = take(environment, veth, &end, err);
		*changed |= !error;
	}
	return error;
}

void pg_homes_forget_end(struct pg_host *host, unsigned int ifindex)
{
	const struct pg_environment *environment;
	struct pg_host_end_key key = {
		.host = (uint32_t)pg_links_namespace(),
		.ifindex = ifindex,
	};

	LIST_FOREACH (environment, &host->environments, link) {
		key.env_id = environment->header.env_id;
		pg_host_end_forget(host->kernel, &key);
	}
}

static bool is_there(void *userdata, const struct pg_host_end_key *key)
{
	const struct pg_host *host = userdata;

	return key->host == (uint32_t)pg_links_namespace() &&
	       pg_veth_find(host->links, key->ifindex);
}

void pg_homes_sweep_ends(struct pg_host *host)
{
	pg_host_ends_sweep(host->kernel, is_there, host);
}
