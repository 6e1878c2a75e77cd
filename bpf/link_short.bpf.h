/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What most packets need of their link (struct pg_link_short), without looking it up: a cache line
 * of the CPU's, and one that all share and hardly anybody writes. No softirq interrupts a run, so a
 * place is never half written. That the link is not older than what is read before it is so where
 * loads are in the order of the program (x86: Intel SDM volume 3A, 8.2.2); elsewhere it is looked
 * up.
 */
#pragma once

#include "maps.bpf.h"
#include "view.bpf.h"

static __always_inline __u64 pg_link_changes_read(void)
{
	const __u32 first = 0;
	const __u64 *changes = bpf_map_lookup_elem(&pg_link_changes, &first);
	__u64 value = changes ? *(const volatile __u64 *)changes : 0;

	barrier();
	return value;
}

static __always_inline struct pg_link_short *pg_link_short_place(__u32 ifindex)
{
	const __u32 first = 0;
	struct pg_link_short_places *places = bpf_map_lookup_elem(&pg_link_shorts, &first);
	__u32 hash = ifindex * 0x9e3779b1U >> 24;

	if (!places)
		return NULL;
	hash &= PG_LINK_SHORTS - 1;
	barrier_var(hash);
	return &places->place[hash & (PG_LINK_SHORTS - 1)];
}

static __always_inline bool pg_link_short_holds(const struct pg_link_short *place, __u32 ifindex,
						__u64 changes)
{
#ifdef __TARGET_ARCH_x86
	return place->ifindex == ifindex && place->changes == changes;
#else
	return false;
#endif
}

/* NULL: there is no link, or nothing is in force by its header. */
static __always_inline const struct pg_link_short *pg_link_short(__u32 ifindex)
{
	struct pg_link_short *place = pg_link_short_place(ifindex);
	const __u64 changes = pg_link_changes_read();
	const struct pg_link *link;

	if (!place || pg_link_short_holds(place, ifindex, changes))
		return place;
	link = bpf_map_lookup_elem(&pg_links, &ifindex);
	if (!link || !pg_header_valid(&link->header))
		return NULL;
	place->changes = changes;
	place->ifindex = ifindex;
	place->flags = link->flags;
	place->env_id = link->header.env_id;
	place->epoch = link->header.epoch;
	place->own = link->stations.own;
	place->host = link->stations.host;
	place->bridge = link->stations.bridge;
	place->state = link->header.state;
	return place;
}
