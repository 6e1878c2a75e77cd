/* SPDX-License-Identifier: Apache-2.0 */
/* Aging of UDP flows, and the Environments' own addresses: hash maps that user space prunes. */
#include "kernel_internal.h"

#include <errno.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "net/addr.h"

static int flows_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_flows);
}

static int bars_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_flow_bars);
}

#define COUNTS_BYTES (PG_ENVIRONMENT_MAX * sizeof(struct pg_flow_count))

int pg_flow_counts_map(struct pg_kernel *kernel, struct pg_error *err)
{
	void *counts = mmap(NULL, COUNTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			    bpf_map__fd(kernel->skeleton->maps.pg_flow_counts), 0);

	if (counts == MAP_FAILED)
		return pg_fail_errno(err, -errno, "mapping the counts of flows");
	kernel->flow_counts = counts;
	return 0;
}

void pg_flow_counts_unmap(struct pg_kernel *kernel)
{
	if (kernel->flow_counts)
		munmap(kernel->flow_counts, COUNTS_BYTES);
	kernel->flow_counts = NULL;
}

/* Hooks add to the same counts. */
static void uncount(struct pg_kernel *kernel, uint8_t kind, uint32_t owner)
{
	if (owner < PG_ENVIRONMENT_MAX && kind == PG_FLOW_HINT)
		__atomic_fetch_sub(&kernel->flow_counts[owner].hints, 1, __ATOMIC_RELAXED);
	if (owner < PG_ENVIRONMENT_MAX)
		__atomic_fetch_sub(&kernel->flow_counts[owner].live, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&kernel->flow_counts[PG_FLOW_ALL].live, 1, __ATOMIC_RELAXED);
}

uint64_t pg_flow_count(const struct pg_kernel *kernel, uint32_t state)
{
	return state < PG_ENVIRONMENT_MAX
		       ? __atomic_load_n(&kernel->flow_counts[state].live, __ATOMIC_RELAXED)
		       : 0;
}

/* Of a whole walk over the table. */
static void count_all(struct pg_kernel *kernel,
		      struct pg_flow_count counts[static PG_ENVIRONMENT_MAX])
{
	struct pg_flow_key key, next, *previous = NULL;
	struct pg_flow flow;

	for (size_t i = 0; i < 2UL * PG_FLOW_MAX; i++) {
		if (bpf_map_get_next_key(flows_fd(kernel), previous, &next))
			break;
		key = next;
		previous = &key;
		if (bpf_map_lookup_elem(flows_fd(kernel), &key, &flow))
			continue;
		counts[PG_FLOW_ALL].live++;
		if (flow.owner == PG_FLOW_ALL || flow.owner >= PG_ENVIRONMENT_MAX)
			continue;
		counts[flow.owner].live++;
		counts[flow.owner].hints += key.kind == PG_FLOW_HINT;
	}
}

static void correct(struct pg_flow_count *count, struct pg_flow_count before,
		    const struct pg_flow_count *counted)
{
	if (before.live != counted->live)
		__atomic_compare_exchange_n(&count->live, &before.live, counted->live, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	if (before.hints != counted->hints)
		__atomic_compare_exchange_n(&count->hints, &before.hints, counted->hints, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

int pg_flows_recount(struct pg_kernel *kernel, struct pg_error *err)
{
	pg_autofree struct pg_flow_count *before = calloc(PG_ENVIRONMENT_MAX, sizeof(*before));
	pg_autofree struct pg_flow_count *counts = calloc(PG_ENVIRONMENT_MAX, sizeof(*counts));

	if (!before || !counts)
		return pg_fail(err, -ENOMEM, "not enough memory for counting flows");
	for (uint32_t i = 0; i < PG_ENVIRONMENT_MAX; i++) {
		before[i].live = pg_flow_count(kernel, i);
		before[i].hints = __atomic_load_n(&kernel->flow_counts[i].hints, __ATOMIC_RELAXED);
	}
	count_all(kernel, counts);
	for (uint32_t i = 0; i < PG_ENVIRONMENT_MAX; i++)
		correct(&kernel->flow_counts[i], before[i], &counts[i]);
	return 0;
}

static int set_bar(struct pg_kernel *kernel, uint64_t env_id, pg_flow_bar until,
		   struct pg_error *err)
{
	if (bpf_map_update_elem(bars_fd(kernel), &env_id, &until, BPF_ANY))
		return pg_fail_errno(err, -errno,
				     "making room for the flows of one of at most %d"
				     " Environments",
				     PG_ENVIRONMENT_MAX);
	return 0;
}

int pg_flows_allow(struct pg_kernel *kernel, uint64_t env_id, struct pg_error *err)
{
	return set_bar(kernel, env_id, 0, err);
}

int pg_flows_bar(struct pg_kernel *kernel, uint64_t env_id, struct pg_error *err)
{
	return set_bar(kernel, env_id, pg_boottime_ns() + PG_FLOW_IDLE_NS, err);
}

enum pg_direction pg_flow_find(struct pg_kernel *kernel, const struct pg_flow_key *key)
{
	struct pg_flow flow;

	if (bpf_map_lookup_elem(flows_fd(kernel), key, &flow))
		return 0;
	return (enum pg_direction)flow.direction;
}

static bool is_idle(const struct pg_flow *flow, uint64_t now)
{
	return now > flow->seen && now - flow->seen > PG_FLOW_IDLE_NS;
}

size_t pg_flows_expire(struct pg_kernel *kernel, uint64_t env_id)
{
	const uint64_t now = pg_boottime_ns();
	struct pg_flow_key key, next, *previous = NULL;
	struct pg_flow flow;
	size_t removed = 0;

	if (env_id)
		bpf_map_delete_elem(bars_fd(kernel), &env_id);
	/* A key deleted meanwhile makes the walk start again; the table's size bounds it. */
	for (size_t i = 0; i < 2UL * PG_FLOW_MAX; i++) {
		bool expired = false;

		if (bpf_map_get_next_key(flows_fd(kernel), previous, &next))
			break;
		if ((!env_id || next.env_id == env_id) &&
		    !bpf_map_lookup_elem(flows_fd(kernel), &next, &flow))
			expired = env_id || is_idle(&flow, now);
		if (expired && !bpf_map_delete_elem(flows_fd(kernel), &next)) {
			uncount(kernel, next.kind, flow.owner);
			removed++;
			continue;
		}
		key = next;
		previous = &key;
	}
	return removed;
}
