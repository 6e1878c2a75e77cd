/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who has sent something by a veth, and from which station (abi/link.h). */
#pragma once

#include "link_table.bpf.h"
#include "maps.bpf.h"

static __always_inline struct pg_link_peer *pg_link_peer_place(struct pg_link_peer *peers,
							       __u32 count, __u32 hash, __u32 way)
{
	__u32 index = (hash * PG_LINK_PEER_WAYS + way) & (count - 1);

	barrier_var(index);
	return &peers[index & (count - 1)];
}

#define PG_LINK_PEER_KNOWN (1ULL << 63)

/* The place's station and flags, with PG_LINK_PEER_KNOWN; 0: the address is not among them. */
static __always_inline __u64 pg_link_peer_find(struct pg_link_peer *peers, __u32 count,
					       const struct pg_addr *addr)
{
	const __u32 hash = pg_link_hash(addr, 0);
	__u64 station = 0;

#pragma unroll
	for (__u32 way = 0; way < PG_LINK_PEER_WAYS; way++) {
		const struct pg_link_peer *place = pg_link_peer_place(peers, count, hash, way);
		const __u64 same = pg_is_zero(pg_addr_difference(&place->addr, addr));

		station |= (place->station | PG_LINK_PEER_KNOWN) & -same;
	}
	return station;
}

static __always_inline struct pg_link_neighbours *pg_link_neighbours_of(__u64 env_id)
{
	return bpf_map_lookup_elem(&pg_link_neighbours, &env_id);
}

/* Not 0: the address was seen, as a neighbour or behind the host. Of its flags one is enough. */
static __always_inline __u64 pg_link_peer_seen(struct pg_link_table *table, __u64 env_id,
					       const struct pg_addr *addr)
{
	struct pg_link_neighbours *neighbours = pg_link_neighbours_of(env_id);

	if (!neighbours)
		return 0;
	return pg_link_peer_find(neighbours->peers, PG_LINK_NEIGHBOURS, addr) |
	       pg_link_peer_find(table->peers, PG_LINK_PEERS, addr);
}

/* Whether the address was seen at this station, of a neighbour. */
static __always_inline bool pg_link_is_neighbour_at(__u64 env_id, const struct pg_addr *addr,
						    pg_station station)
{
	struct pg_link_neighbours *neighbours = pg_link_neighbours_of(env_id);

	return neighbours && (pg_link_peer_find(neighbours->peers, PG_LINK_NEIGHBOURS, addr) &
			      ~PG_LINK_PEER_NEIGHBOUR) == (station | PG_LINK_PEER_KNOWN);
}

static __always_inline pg_station *pg_link_gateway_place(struct pg_link_table *table,
							 const struct pg_addr *addr)
{
	__u32 index = pg_link_hash(addr, 0) & (PG_LINK_GATEWAYS - 1);

	barrier_var(index);
	return &table->gateways[index & (PG_LINK_GATEWAYS - 1)];
}

static __always_inline bool pg_link_is_gateway(const struct pg_link_table *table,
					       pg_station station)
{
	__u64 found = 0;

#pragma unroll
	for (__u32 i = 0; i < PG_LINK_GATEWAYS; i++)
		found |= pg_is_zero(table->gateways[i] ^ station);
	return found;
}

/* The address' place, else an empty one that it may have, else another's. */
static __always_inline struct pg_link_peer *
pg_link_peer_choose(struct pg_link_peer *peers, __u32 count, const struct pg_addr *addr)
{
	const struct pg_addr nobody = {};
	const __u32 hash = pg_link_hash(addr, 0);
	__u32 way = bpf_get_prandom_u32() % PG_LINK_PEER_WAYS;

#pragma unroll
	for (__u32 i = 0; i < PG_LINK_PEER_WAYS; i++) {
		const struct pg_link_peer *place = pg_link_peer_place(peers, count, hash, i);

		way ^= (way ^ i) & -(__u32)pg_is_zero(pg_addr_difference(&place->addr, &nobody));
	}

#pragma unroll
	for (__u32 i = 0; i < PG_LINK_PEER_WAYS; i++) {
		const struct pg_link_peer *place = pg_link_peer_place(peers, count, hash, i);

		way ^= (way ^ i) & -(__u32)pg_is_zero(pg_addr_difference(&place->addr, addr));
	}
	return pg_link_peer_place(peers, count, hash, way);
}

/*
 * behind: the station is the host's or its bridge's. neighbour: PG_LINK_PEER_NEIGHBOUR if it has
 * just shown to be one, or 0.
 */
static __always_inline void pg_link_record_peer(struct pg_link_table *table, __u64 env_id,
						const struct pg_addr *addr, pg_station station,
						bool behind, __u64 neighbour)
{
	struct pg_own_key key = {.env_id = env_id, .addr = *addr};
	struct pg_link_neighbours *neighbours = pg_link_neighbours_of(env_id);
	struct pg_link_peer *place;
	const __u8 *hop;
	__u64 found = 0, difference;

	if (neighbours) {
		found = pg_link_peer_find(neighbours->peers, PG_LINK_NEIGHBOURS, addr);
		/* Who was a neighbour keeps the place, wherever it is now. */
		if (!found && (behind || pg_link_is_gateway(table, station)))
			neighbours = NULL;
	}
	if (!neighbours)
		found = pg_link_peer_find(table->peers, PG_LINK_PEERS, addr);
	difference = found ^ station;
	/* Nothing new; it stays a neighbour. */
	if (difference == (PG_LINK_PEER_KNOWN | PG_LINK_PEER_NEIGHBOUR) ||
	    (difference | neighbour) == PG_LINK_PEER_KNOWN)
		return;
	/* Where the host is, is known; a neighbour may say that it is there. */
	hop = bpf_map_lookup_elem(&pg_link_hops, &key);
	if (hop && *hop == PG_LINK_HOP_HOST)
		return;
	place = neighbours ? pg_link_peer_choose(neighbours->peers, PG_LINK_NEIGHBOURS, addr)
			   : pg_link_peer_choose(table->peers, PG_LINK_PEERS, addr);
	place->addr = *addr;
	place->station = station | neighbour;
	if (hop)
		*pg_link_gateway_place(table, addr) = station;
}
