/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who opened a UDP flow: the record of inbound and outbound tuples (abi/flow.h). */
#pragma once

#include "decide.bpf.h"
#include "facts.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "view.bpf.h"

/* How stale .seen may be: refreshing it for every packet would bounce a cache line. */
#define PG_FLOW_REFRESH_NS 1000000000ULL

#define PG_ENOSPC 28

static __always_inline void pg_flow_key_fill(struct pg_flow_key *key,
					     const struct pg_header *header,
					     const struct pg_facts *facts)
{
	key->env_id = header->env_id;
	key->netns = facts->netns;
	key->local = facts->local;
	key->remote = facts->remote;
	key->local_port = facts->local_port;
	key->remote_port = facts->remote_port;
	key->protocol = facts->protocol;
}

/* The same without the source address, which connect and sendmsg do not know. */
static __always_inline void pg_flow_key_hint(struct pg_flow_key *key)
{
	__builtin_memset(&key->local, 0, sizeof(key->local));
	key->kind = PG_FLOW_HINT;
}

static __always_inline struct pg_flow *pg_flow_find(const struct pg_flow_key *key)
{
	struct pg_flow *flow = bpf_map_lookup_elem(&pg_flows, key);
	__u64 now;

	if (!flow)
		return NULL;
	now = bpf_ktime_get_boot_ns();
	if (now - flow->seen > PG_FLOW_REFRESH_NS)
		flow->seen = now;
	return flow;
}

static __always_inline struct pg_flow *pg_flow_lookup(const struct pg_header *header,
						      const struct pg_facts *facts)
{
	struct pg_flow_key key = {};

	pg_flow_key_fill(&key, header, facts);
	return pg_flow_find(&key);
}

/* Whether the Environment has flows that were opened from outside; mostly it has none. */
static __always_inline bool pg_flow_has_hints(const struct pg_header *header)
{
	__u32 index = header->state;
	const struct pg_flow_count *count = bpf_map_lookup_elem(&pg_flow_counts, &index);

	return !count || count->hints;
}

/* For connect and sendmsg. Of a socket from before the attach the packets do not always tell the
 * namespace; they are judged by themselves. */
static __always_inline struct pg_flow *pg_flow_lookup_hint(const struct pg_header *header,
							   const struct pg_facts *facts)
{
	struct pg_flow_key key = {};
	struct pg_flow *flow;

	if (!pg_flow_has_hints(header))
		return NULL;
	pg_flow_key_fill(&key, header, facts);
	pg_flow_key_hint(&key);
	flow = pg_flow_find(&key);
	if (flow || !(header->flags & PG_HEADER_ATTACHED))
		return flow;
	key.netns = 0;
	return pg_flow_find(&key);
}

/* Whether the flow was opened from outside, and something came in since the last switch. */
static __always_inline bool pg_flow_is_inbound(const struct pg_view *view,
					       const struct pg_flow *flow)
{
	return flow && flow->direction == PG_FLOW_INBOUND &&
	       flow->generation == (__u32)view->generation;
}

/* From now on, what comes in may be the answer to something that could not be recorded. */
static __always_inline void pg_flow_bar_inbound(__u64 env_id)
{
	pg_flow_bar *until = bpf_map_lookup_elem(&pg_flow_bars, &env_id);

	if (until)
		*until = bpf_ktime_get_boot_ns() + PG_FLOW_IDLE_NS;
}

static __always_inline bool pg_flow_inbound_barred(__u64 env_id)
{
	const pg_flow_bar *until = bpf_map_lookup_elem(&pg_flow_bars, &env_id);

	return !until || bpf_ktime_get_boot_ns() < *until;
}

static __always_inline void pg_flow_count(const struct pg_header *header, enum pg_flow_kind kind,
					  __s64 change)
{
	__u32 own = header->state, all = PG_FLOW_ALL;
	struct pg_flow_count *count;

	count = bpf_map_lookup_elem(&pg_flow_counts, &own);
	if (count && kind == PG_FLOW_HINT)
		__sync_fetch_and_add(&count->hints, change);
	if (count)
		__sync_fetch_and_add(&count->live, change);
	count = bpf_map_lookup_elem(&pg_flow_counts, &all);
	if (count)
		__sync_fetch_and_add(&count->live, change);
}

/* CPUs that ask at once may each have one more. */
static __always_inline bool pg_flow_has_room(const struct pg_header *header)
{
	__u32 own_index = header->state, all_index = PG_FLOW_ALL;
	const struct pg_flow_count *own = bpf_map_lookup_elem(&pg_flow_counts, &own_index);
	const struct pg_flow_count *all = bpf_map_lookup_elem(&pg_flow_counts, &all_index);

	return own && all && own->live + all->live < PG_FLOW_MAX;
}

/* 0, or a negative errno. */
static __always_inline long pg_flow_put(const struct pg_view *view, struct pg_flow_key *key,
					enum pg_direction direction)
{
	struct pg_flow flow = {.seen = bpf_ktime_get_boot_ns(), .direction = direction};
	long error;

	if (!pg_flow_has_room(view->header))
		return -PG_ENOSPC;
	flow.owner = view->header->state;
	flow.generation = (__u32)view->generation;
	pg_flow_count(view->header, key->kind, 1);
	error = bpf_map_update_elem(&pg_flows, key, &flow, BPF_NOEXIST);
	if (error)
		pg_flow_count(view->header, key->kind, -1);
	return error;
}

PG_APART void pg_flow_insert(const struct pg_view *view, struct pg_flow_key *key,
			     enum pg_direction direction, struct pg_counters *counters)
{
	const long error = pg_flow_put(view, key, direction);

	if (!error || error == -PG_EEXIST) /* another CPU was first */
		return;
	__sync_fetch_and_add(&counters->flows_refused, 1);
	if (direction == PG_FLOW_OUTBOUND)
		pg_flow_bar_inbound(key->env_id);
}

/* The Environment sends, and not as a reply: what comes back is an answer from now on. */
static __always_inline void pg_flow_record_outbound(const struct pg_view *view,
						    const struct pg_facts *facts,
						    struct pg_flow *flow,
						    struct pg_counters *counters)
{
	struct pg_flow_key key = {};

	if (flow) {
		flow->direction = PG_FLOW_OUTBOUND;
		return;
	}
	pg_flow_key_fill(&key, view->header, facts);
	pg_flow_insert(view, &key, PG_FLOW_OUTBOUND, counters);
}

/*
 * The key for a packet whose tuple cannot be read: what comes back must not pass for something
 * that came first. It bars new inbound flows from its destination, or from everywhere if the packet
 * hides that too.
 */
static __always_inline void pg_flow_key_hidden(struct pg_flow_key *key,
					       const struct pg_header *header,
					       const struct pg_addr *remote)
{
	key->env_id = header->env_id;
	key->protocol = IPPROTO_UDP;
	key->kind = PG_FLOW_HIDDEN;
	if (remote)
		key->remote = *remote;
}

PG_APART void pg_flow_record_hidden(const struct pg_view *view, const struct pg_facts *facts,
				    const struct pg_packet *packet, struct pg_counters *counters)
{
	struct pg_flow_key key = {};
	struct pg_flow *flow;

	/* An IPv4 header says what it carries, whatever its options; and so does the kernel's MLD.
	 */
	if (facts->bits & PG_FACT_IPV6 ? pg_is_icmp_behind_hop(facts, packet)
				       : facts->protocol != IPPROTO_UDP)
		return;
	pg_flow_key_hidden(&key, view->header, pg_hides_destination(facts) ? NULL : &facts->remote);
	flow = bpf_map_lookup_elem(&pg_flows, &key);
	if (flow)
		flow->seen = bpf_ktime_get_boot_ns();
	else
		pg_flow_insert(view, &key, PG_FLOW_OUTBOUND, counters);
}

static __always_inline bool pg_flow_is_barred(const struct pg_header *header,
					      const struct pg_facts *facts)
{
	struct pg_flow_key key = {};

	pg_flow_key_hidden(&key, header, NULL);
	if (bpf_map_lookup_elem(&pg_flows, &key))
		return true;
	pg_flow_key_hidden(&key, header, &facts->remote);
	return bpf_map_lookup_elem(&pg_flows, &key);
}

/* The flow is inbound, in this generation. */
static __always_inline void pg_flow_open_inbound(const struct pg_view *view,
						 struct pg_flow_key *key, struct pg_flow *flow,
						 struct pg_counters *counters)
{
	if (flow)
		flow->generation = (__u32)view->generation;
	else
		pg_flow_insert(view, key, PG_FLOW_INBOUND, counters);
}

/* A datagram came in: unless the Environment spoke first, the flow is inbound. */
PG_APART void pg_flow_record_inbound(const struct pg_view *view, struct pg_facts *facts,
				     struct pg_counters *counters)
{
	struct pg_flow_key key = {};
	struct pg_flow *flow;

	pg_flow_key_fill(&key, view->header, facts);
	flow = pg_flow_find(&key);
	/* Nothing can be sent back to port 0. */
	if (!facts->remote_port || (flow && flow->direction == PG_FLOW_OUTBOUND))
		return;
	if (pg_flow_is_barred(view->header, facts))
		return;
	if (!flow && pg_flow_inbound_barred(view->header->env_id)) {
		__sync_fetch_and_add(&counters->flows_refused, 1);
		return;
	}
	pg_flow_open_inbound(view, &key, flow, counters);
	pg_flow_key_hint(&key);
	pg_flow_open_inbound(view, &key, pg_flow_find(&key), counters);
}
