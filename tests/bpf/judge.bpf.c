// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The production code with its header and state in a plain array: under a test run cgroup storage
 * is always zero, so that the production programs themselves can only deny.
 */
#include <vmlinux.h>

#include <bpf/bpf_helpers.h>

#include "count.bpf.h"
#include "decide.bpf.h"
#include "egress.bpf.h"
#include "flow.bpf.h"
#include "hook.bpf.h"
#include "ingress.bpf.h"
#include "link.bpf.h"
#include "link_see.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "set.bpf.h"
#include "view.bpf.h"

#include "judge.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, JUDGE_BATCH);
	__type(key, __u32);
	__type(value, struct judge_case);
} judge_cases SEC(".maps");

__u32 judge_next;

struct pg_counters judge_counters;

static __always_inline struct judge_case *judge_take(void)
{
	__u32 index = judge_next;

	judge_next = index + 1;
	return bpf_map_lookup_elem(&judge_cases, &index);
}

static __always_inline void judge_put(struct judge_case *taken, const struct pg_facts *facts,
				      const struct pg_packet *packet)
{
	taken->facts = *facts;
	taken->tcp_flags = packet->tcp_flags;
	taken->icmp_type = packet->icmp_type;
	taken->tcp_payload = packet->tcp_payload;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, JUDGE_BATCH *JUDGE_LOOKUPS);
	__type(key, __u32);
	__type(value, struct judge_lookup);
} judge_lookups SEC(".maps");

__u32 judge_set_slot;

/* Addresses to membership, in one set. */
SEC("cgroup_skb/egress")
int judge_set(struct __sk_buff *skb)
{
	const __u8 tables = (1U << PG_TABLE_COUNT) - 1;
	__u32 first = judge_next;

	judge_next = first + JUDGE_LOOKUPS;
	for (__u32 i = 0; i < JUDGE_LOOKUPS; i++) {
		__u32 index = first + i;
		struct judge_lookup *lookup = bpf_map_lookup_elem(&judge_lookups, &index);

		if (!lookup)
			return PG_HOOK_DENY;
		lookup->found = pg_set_lookup(judge_set_slot, tables, &lookup->addr);
	}
	return PG_HOOK_ALLOW;
}

/* Facts to reason. */
SEC("cgroup_skb/egress")
int judge_decide(struct __sk_buff *skb)
{
	struct judge_case *taken = judge_take();
	struct pg_view view;

	if (!taken)
		return PG_HOOK_ALLOW;
	pg_view_fill(&view, &taken->header, taken->word);
	taken->reason = pg_decide(&view, &taken->facts);
	return PG_HOOK_ALLOW;
}

/* Packet to facts, as the Environment's socket receives it. */
SEC("cgroup_skb/ingress")
int judge_parse_ingress(struct __sk_buff *skb)
{
	struct judge_case *taken = judge_take();
	struct pg_facts facts = {};
	struct pg_packet packet = {};

	if (!taken)
		return PG_HOOK_ALLOW;
	pg_read_packet(skb, false, 0, &facts, &packet);
	judge_put(taken, &facts, &packet);
	return PG_HOOK_ALLOW;
}

/* Packet to facts, as it leaves. */
SEC("cgroup_skb/egress")
int judge_parse_egress(struct __sk_buff *skb)
{
	struct judge_case *taken = judge_take();
	struct pg_facts facts = {};
	struct pg_packet packet = {};

	if (!taken)
		return PG_HOOK_ALLOW;
	pg_read_packet(skb, true, 0, &facts, &packet);
	judge_put(taken, &facts, &packet);
	return PG_HOOK_ALLOW;
}

/* Packet to reason, with the sender's and the receiver's socket. */
SEC("cgroup_skb/egress")
int judge_path(struct __sk_buff *skb)
{
	struct judge_case *taken = judge_take();
	struct pg_facts facts = {};
	struct pg_packet packet = {};
	struct pg_view view;

	if (!taken)
		return PG_HOOK_ALLOW;
	pg_view_fill(&view, &taken->header, taken->word);
	pg_read_packet(skb, true, 0, &facts, &packet);
	pg_read_egress_facts(skb, &taken->header, &facts, &packet);
	judge_put(taken, &facts, &packet);
	taken->reason = pg_decide(&view, &facts);
	return PG_HOOK_ALLOW;
}

/* The whole of a hook, with its counters and flows; the program's return value is the verdict. */
SEC("cgroup_skb/egress")
int judge_egress(struct __sk_buff *skb)
{
	struct judge_case *taken = judge_take();
	struct pg_view view;

	if (!taken)
		return PG_HOOK_DENY;
	pg_view_fill(&view, &taken->header, taken->word);
	return pg_judge_egress(skb, &view, &judge_counters);
}

SEC("cgroup_skb/ingress")
int judge_ingress(struct __sk_buff *skb)
{
	struct judge_case *taken = judge_take();

	if (!taken)
		return PG_HOOK_DENY;
	return pg_see_ingress(skb, &taken->header, taken->word, &judge_counters);
}

/*
 * The guard at the veth, with the header of pg_links. The socket of a test run is of no family, so
 * that a packet would always be of a packet socket: who sends it is part of the case.
 */
SEC("tc")
int judge_link_from(struct __sk_buff *skb)
{
	struct judge_case *taken = judge_take();
	struct pg_link_run *run = pg_link_begin();
	__u32 ifindex = skb->ifindex;
	const struct pg_link *link;
	struct pg_view view;
	__u64 env_id;

	if (!taken || !run)
		return PG_DENY;
	pg_link_take(skb, taken->sender, run);
	link = bpf_map_lookup_elem(&pg_links, &ifindex);
	if (!link)
		return PG_DENY;
	env_id = link->header.env_id;
	pg_view_fill(&view, &link->header, taken->word);
	return pg_link_judge(skb, run, link, bpf_map_lookup_elem(&pg_link_tables, &env_id),
			     &view) == PG_TC_NEXT
		       ? PG_ALLOW
		       : PG_DENY;
}

/* What is left of a reply's facts, of the socket of a test run, which has neither mark nor place.
 */
SEC("tc")
int judge_stream(struct __sk_buff *skb)
{
	struct judge_case *taken = judge_take();
	struct pg_facts facts;
	struct pg_view view;

	if (!taken)
		return PG_DENY;
	facts = taken->facts;
	pg_view_fill(&view, &taken->header, taken->word);
	pg_link_check_stream(skb, &view, NULL, &facts);
	taken->facts = facts;
	return PG_ALLOW;
}

SEC("tc")
int judge_link_to(struct __sk_buff *skb)
{
	struct judge_case *taken = judge_take();
	__u32 ifindex = skb->ifindex;
	const struct pg_link *link = bpf_map_lookup_elem(&pg_links, &ifindex);
	struct pg_link_table *table;
	struct pg_view view;
	__u64 env_id;

	if (!taken || !link)
		return PG_DENY;
	env_id = link->header.env_id;
	table = bpf_map_lookup_elem(&pg_link_tables, &env_id);
	pg_view_fill(&view, &link->header, taken->word);
	if (table)
		pg_link_see(skb, link, &view, table);
	return PG_ALLOW;
}

/* What judge_watch has seen, on all members together. */
__u64 judge_generation; /* the highest */
__u64 judge_runs, judge_backwards, judge_mixed;

/*
 * On members of one Environment that is switched all the time: no run may see an older generation
 * than one that another run, of whichever member, has seen before it, nor another policy or phase
 * than the generation's.
 */
SEC("cgroup_skb/egress")
int judge_watch(struct __sk_buff *skb)
{
	const volatile __u64 *highest = &judge_generation;
	const struct pg_header *header;
	const __u64 before = *highest;
	struct pg_view view;

	header = bpf_get_local_storage(&pg_headers, 0);
	/* Time for a switch between the two reads. */
	for (int i = 0; i < JUDGE_WATCH_DELAY; i++)
		(void)*highest;
	pg_view_read(&view, header);
	if (!view.valid)
		return PG_HOOK_ALLOW;
	__sync_fetch_and_add(&judge_runs, 1);
	if (view.generation < before)
		__sync_fetch_and_add(&judge_backwards, 1);
	if (view.generation > before)
		*(volatile __u64 *)&judge_generation = view.generation;
	if (!view.slot || view.phase - 1 != view.generation % PG_PHASE_COUNT ||
	    view.slot->set != JUDGE_WATCH_SET(view.generation))
		__sync_fetch_and_add(&judge_mixed, 1);
	return PG_HOOK_ALLOW;
}
