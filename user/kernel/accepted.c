/* SPDX-License-Identifier: Apache-2.0 */
/* Accepted connections that have a place in pg_accepted (abi/flow.h): what user space reads of
 * them, and takes out when their Environment has ended. */
#include "kernel_internal.h"

#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>

#include "base/cleanup.h"
#include "net/addr.h"

/* Places that are read at once. */
#define BATCH 1024

static int places_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_accepted);
}

static uint32_t state_of(const struct pg_accepted *place)
{
	return place->cookie ? place->owner & PG_ACCEPTED_STATE : PG_FLOW_ALL;
}

bool pg_accepted_has(const struct pg_kernel *kernel, uint32_t state, uint64_t cookie,
		     const struct pg_endpoint *remote)
{
	const uint32_t index = pg_accepted_index(cookie);
	struct pg_accepted place;

	return !bpf_map_lookup_elem_flags(places_fd(kernel), &index, &place, BPF_F_LOCK) &&
	       place.cookie == cookie && state_of(&place) == state &&
	       place.remote_port == remote->port && !pg_addr_compare(&place.remote, &remote->addr);
}

static bool has_accepted(const struct pg_kernel *kernel, uint32_t state)
{
	return __atomic_load_n(&kernel->flow_counts[state].has_accepted, __ATOMIC_RELAXED);
}

/* A place that was left can become another's at any time, so that it is looked at once more just
 * before it is cleared; of the state nobody puts anything there: the hooks are off. */
static int forget_one(struct pg_kernel *kernel, uint32_t state, uint32_t index)
{
	const struct pg_accepted none = {};
	struct pg_accepted place;

	if (bpf_map_lookup_elem_flags(places_fd(kernel), &index, &place, BPF_F_LOCK))
		return -errno;
	if (state_of(&place) == state &&
	    bpf_map_update_elem(places_fd(kernel), &index, &none, BPF_F_LOCK))
		return -errno;
	return 0;
}

static int forget_some(struct pg_kernel *kernel, uint32_t state, const uint32_t *index,
		       const struct pg_accepted *places, uint32_t count)
{
	int error = 0;

	for (uint32_t i = 0; i < count && !error; i++)
		if (state_of(&places[i]) == state)
			error = forget_one(kernel, state, index[i]);
	return error;
}

static int forget_all(struct pg_kernel *kernel, uint32_t state)
{
	LIBBPF_OPTS(bpf_map_batch_opts, options, .elem_flags = BPF_F_LOCK);
	pg_autofree struct pg_accepted *places = calloc(BATCH, sizeof(*places));
	pg_autofree uint32_t *index = calloc(BATCH, sizeof(*index));
	uint32_t *from = NULL, next;
	int error = places && index ? 0 : -ENOMEM;

	for (uint32_t seen = 0; !error && seen < PG_ACCEPTED_MAX; from = &next) {
		uint32_t count = BATCH;

		if (bpf_map_lookup_batch(places_fd(kernel), from, &next, index, places, &count,
					 &options) &&
		    errno != ENOENT) /* that was the end */
			return -errno;
		if (!count)
			break;
		seen += count;
		error = forget_some(kernel, state, index, places, count);
	}
	return error;
}

void pg_accepted_forget(struct pg_kernel *kernel, uint32_t state)
{
	/* What could not be taken out is looked for by the hooks, as it is while in use: a socket
	 * that connects leaves its place. */
	if (has_accepted(kernel, state) && !forget_all(kernel, state))
		__atomic_store_n(&kernel->flow_counts[state].has_accepted, 0, __ATOMIC_RELAXED);
}

void pg_accepted_sweep(struct pg_kernel *kernel)
{
	for (uint32_t i = 1; i < PG_ENVIRONMENT_MAX; i++)
		if (!pg_slot_is_used(&kernel->state_slots, i))
			pg_accepted_forget(kernel, i);
}
