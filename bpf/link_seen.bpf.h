/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What goes in past the guard of a veth and says nothing new: another packet of the same kind was
 * recorded a moment ago on this CPU (struct pg_link_seen), and this one would be recorded as it
 * was. What is not recorded opens nothing, so a place that is wrongly there allows nothing.
 */
#pragma once

#include "addr.bpf.h"
#include "link_table.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "view.bpf.h"

/* At most a tenth of a second, whatever CONFIG_HZ is. */
#define PG_LINK_SEEN_JIFFIES 10

/* What of a plain packet of TCP or UDP is looked at. */
struct pg_link_plain {
	struct pg_link_seen seen;
	__u8 flags;    /* of TCP */
	__be32 number; /* which it acknowledges */
};

/* Addresses, and what follows the IP header; NULL: neither is plain, or it is not in one piece. */
static __always_inline const pg_word *
pg_link_plain_read_ip(struct __sk_buff *skb, const pg_word *ip, struct pg_link_seen *seen)
{
	const void *end = (const void *)(long)skb->data_end;

	if (skb->protocol == bpf_htons(PG_ETH_P_IP)) {
		if ((const void *)(ip + 7) > end || bpf_ntohl(ip[0]) >> 24 != 0x45 ||
		    bpf_ntohl(ip[1]) & PG_IP_MORE_OR_OFFSET)
			return NULL;
		seen->protocol = bpf_ntohl(ip[2]) >> 16 & 0xff;
		pg_addr_set_v4(&seen->remote, ip[3]);
		pg_addr_set_v4(&seen->local, ip[4]);
		return ip + 5;
	}
	if (skb->protocol != bpf_htons(PG_ETH_P_IPV6) || (const void *)(ip + 12) > end ||
	    bpf_ntohl(ip[0]) >> 28 != 6)
		return NULL;
	seen->protocol = bpf_ntohl(ip[1]) >> 8 & 0xff;
	__builtin_memcpy(&seen->remote, ip + 2, sizeof(seen->remote));
	__builtin_memcpy(&seen->local, ip + 6, sizeof(seen->local));
	return ip + 10;
}

/* Returns whether it is a plain one; other functions read the others. */
static __always_inline bool pg_link_plain_read(struct __sk_buff *skb, struct pg_link_plain *plain)
{
	const void *end = (const void *)(long)skb->data_end;
	const void *frame = (const void *)(long)skb->data;
	struct pg_link_seen *seen = &plain->seen;
	const pg_word *transport;

	if (skb->vlan_present)
		return false;
	transport = pg_link_plain_read_ip(skb, frame + PG_LINK_NETWORK, seen);
	if (!transport)
		return false;
	if (seen->protocol == IPPROTO_TCP) {
		if ((const void *)(transport + 4) > end)
			return false;
		plain->flags = bpf_ntohl(transport[3]) >> 16;
		plain->number = transport[2];
	} else if (seen->protocol != IPPROTO_UDP) {
		return false;
	}
	seen->ports = transport[0];
	__builtin_memcpy(&seen->from, frame + PG_STATION_SIZE, PG_STATION_SIZE);
	seen->ifindex = skb->ifindex;
	return true;
}

static __always_inline bool pg_link_plain_opens(const struct pg_link_plain *plain)
{
	return plain->seen.protocol == IPPROTO_TCP &&
	       (plain->flags & (PG_TCP_SYN | PG_TCP_ACK)) == PG_TCP_SYN;
}

/* ports: 0 of the place for all segments from the address. */
static __always_inline struct pg_link_seen *pg_link_seen_place(const struct pg_link_seen *seen,
							       __u32 ports)
{
	const __u32 first = 0;
	struct pg_link_seen_places *places = bpf_map_lookup_elem(&pg_link_seens, &first);
	__u32 hash = (seen->remote.word[3] ^ seen->ifindex ^ ports) * 0x9e3779b1U >> 24;

	if (!places)
		return NULL;
	hash &= PG_LINK_SEEN - 1;
	barrier_var(hash);
	return &places->place[hash & (PG_LINK_SEEN - 1)];
}

/* Whether the packet is of the place, which is of this generation and not over. */
static __always_inline bool pg_link_seen_holds(const struct pg_link_seen *place,
					       const struct pg_link_seen *seen, bool any)
{
	__u64 difference = pg_addr_difference(&place->remote, &seen->remote);

	if (any)
		difference |= place->ports;
	else
		difference |= pg_addr_difference(&place->local, &seen->local) |
			      (place->ports ^ seen->ports);
	difference |= (place->ifindex ^ seen->ifindex) | (place->protocol ^ seen->protocol);
	difference |= place->from ^ seen->from;
	return !difference && (__u32)bpf_jiffies64() - place->since < PG_LINK_SEEN_JIFFIES &&
	       pg_state_word(place->state) == place->word;
}

/* Whether nothing of the packet is to be recorded. */
static __always_inline bool pg_link_is_seen(const struct pg_link_seen *seen)
{
	const struct pg_link_seen *place;

	if (seen->protocol == IPPROTO_TCP) {
		place = pg_link_seen_place(seen, 0);
		if (place && pg_link_seen_holds(place, seen, true))
			return true;
	}
	place = pg_link_seen_place(seen, seen->ports);
	return place && pg_link_seen_holds(place, seen, false);
}

/*
 * The packet has been recorded, by this word of the state. What somebody else than the host has
 * forwarded is recorded each time: the peer's station is needed for each frame that goes there.
 */
static __always_inline void pg_link_seen_remember(const struct pg_link_short *link, __u64 word,
						  const struct pg_link_seen *seen)
{
	struct pg_link_seen *place;

	if (!word || (link->flags & (PG_LINK_STATIONS | PG_LINK_TARGETS) &&
		      seen->from != link->host && seen->from != link->bridge))
		return;
	place = pg_link_seen_place(seen, seen->ports);
	if (!place)
		return;
	*place = *seen;
	place->word = word;
	place->state = link->state;
	place->since = bpf_jiffies64();
}

/* The connection is opened anew. */
static __always_inline void pg_link_seen_forget(const struct pg_link_seen *seen)
{
	struct pg_link_seen *place = pg_link_seen_place(seen, seen->ports);

	if (place)
		place->ifindex = 0;
}
