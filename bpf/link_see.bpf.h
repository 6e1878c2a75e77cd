/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The other way at the host's end of a veth: what goes in, so that answers to it can be told. */
#pragma once

#include "facts.h"
#include "link_packet.bpf.h"
#include "link_peers.bpf.h"
#include "link_reply.bpf.h"
#include "link_seen.bpf.h"
#include "link_short.bpf.h"
#include "link_table.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "tracked.bpf.h"
#include "view.bpf.h"

/* What completes a connection has ACK, and no RST. */
static __always_inline void pg_link_see_tcp(struct pg_link_table *table,
					    const struct pg_link_flow *key, __u8 flags,
					    __be32 acked)
{
	if ((flags & (PG_TCP_ACK | PG_TCP_RST)) == PG_TCP_ACK)
		pg_link_record_ack(table, key, bpf_ntohl(acked));
}

static __always_inline bool pg_link_is_somebody(const struct pg_addr *addr)
{
	return !pg_addr_is_multicast(addr) && !pg_addr_is_unspecified(addr);
}

/* Whether it is neighbour discovery that no router has forwarded (RFC 4861 section 3.1), so that
 * who has sent it is on the link: PG_LINK_PEER_NEIGHBOUR or 0. */
static __always_inline __u64 pg_link_seen_as(struct __sk_buff *skb, const struct pg_facts *facts,
					     const struct pg_link_packet *packet)
{
	const __u8 type = packet->packet.icmp_type;
	__u8 hops = 0;

	if (!(facts->bits & PG_FACT_IPV6) || facts->protocol != PG_IPPROTO_ICMPV6 ||
	    (type != PG_ICMPV6_SOLICIT && type != PG_ICMPV6_ADVERT))
		return 0;
	bpf_skb_load_bytes(skb, PG_LINK_NETWORK + 7, &hops, sizeof(hops));
	return hops == PG_HOPS_ND ? PG_LINK_PEER_NEIGHBOUR : 0;
}

/* Most of what goes in: a plain segment of TCP that opens nothing. */
static __always_inline void pg_link_see_segment(const struct pg_link_short *link, __u64 word,
						struct pg_link_table *table,
						struct pg_link_plain *plain)
{
	struct pg_link_flow key = {.protocol = IPPROTO_TCP};
	struct pg_link_seen *seen = &plain->seen;
	const __be32 ports = seen->ports;

	if (!pg_link_is_somebody(&seen->remote))
		return;
	pg_link_record_peer(table, link->env_id, &seen->remote, seen->from,
			    seen->from == link->host || seen->from == link->bridge, 0);
	/* What it acknowledges would count for nothing, as it always will. */
	if (pg_link_has_asked(table, &seen->remote)) {
		seen->ports = 0;
		pg_link_seen_remember(link, word, seen);
		return;
	}
	key.remote = seen->remote;
	key.remote_port = ((const __be16 *)&ports)[0];
	key.local_port = ((const __be16 *)&ports)[1];
	key.generation = (__u32)(word >> PG_STATE_GENERATION_SHIFT);
	pg_link_see_tcp(table, &key, plain->flags, plain->number);
	/* Its SYN is evidence enough. Ports of zero would be anybody's. */
	if (ports && pg_link_is_inbound(table, &key))
		pg_link_seen_remember(link, word, seen);
}

/* What goes in: whoever opens something, or is there at all. */
static __always_inline void pg_link_see(struct __sk_buff *skb, const struct pg_link *link,
					const struct pg_view *view, struct pg_link_table *table)
{
	const struct pg_link_stations *stations = &link->stations;
	struct pg_link_run *run = pg_link_begin();
	struct pg_link_packet *packet;
	struct pg_link_flow key = {};
	struct pg_facts *facts;
	__u8 icmp[8] = {};
	__be32 number = 0;

	if (!run)
		return;
	packet = &run->packet;
	facts = &run->facts;
	pg_link_read(skb, false, facts, packet);
	if (facts->defect || packet->later)
		return;
	/* As read from one that goes out, the sender of ARP is the local one. */
	if (packet->arp)
		facts->remote = facts->local;
	if (!pg_link_is_somebody(&facts->remote))
		return;
	pg_link_record_peer(table, view->header->env_id, &facts->remote, packet->from,
			    packet->from == stations->host || packet->from == stations->bridge,
			    pg_link_seen_as(skb, facts, packet));
	if (packet->arp)
		return;
	pg_link_key_fill(&key, view, facts);
	if (facts->protocol == IPPROTO_TCP && !(facts->bits & PG_FACT_SYN)) {
		if (!bpf_skb_load_bytes(skb, packet->packet.transport + 8, &number, sizeof(number)))
			pg_link_see_tcp(table, &key, packet->packet.tcp_flags, number);
		return;
	}
	if (pg_addr_is_multicast(&facts->local))
		return;
	switch (facts->protocol) {
	case IPPROTO_TCP:
		if (pg_tracked_is_answer(skb))
			return;
		break;
	case IPPROTO_UDP:
		pg_link_see_datagram(skb, view, table, facts, &key);
		/* Nor is the kernel's error about an answer one. */
		if (pg_link_has_sent(table, &key))
			return;
		break;
	case IPPROTO_ICMP:
	case PG_IPPROTO_ICMPV6:
		if (bpf_skb_load_bytes(skb, packet->packet.transport, icmp, sizeof(icmp)) < 0 ||
		    icmp[0] != (facts->bits & PG_FACT_IPV6 ? PG_ICMPV6_ECHO : PG_ICMP_ECHO))
			return;
		key.remote_port = bpf_htons(icmp[4] << 8 | icmp[5]);
		break;
	default:
		return;
	}
	pg_link_record_inbound(table, &key);
}

/* All but that. This and the next are global functions as pg_segment_find() is, so that the part of
 * the stack of one is not taken while the other runs. */
__noinline int pg_link_see_other(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	const struct pg_link_short *brief = pg_link_short(ifindex);
	const struct pg_link *link = bpf_map_lookup_elem(&pg_links, &ifindex);
	struct pg_link_plain plain = {};
	struct pg_link_table *table;
	struct pg_view view;
	__u64 env_id, word;

	if (!brief || !link)
		return 0;
	env_id = link->header.env_id;
	table = bpf_map_lookup_elem(&pg_link_tables, &env_id);
	if (!table)
		return 0;
	word = pg_view_word(&link->header);
	pg_view_fill(&view, &link->header, word);
	pg_link_see(skb, link, &view, table);
	if (!pg_link_plain_read(skb, &plain))
		return 0;
	if (plain.seen.protocol == IPPROTO_TCP)
		pg_link_seen_forget(&plain.seen);
	else
		pg_link_seen_remember(brief, word, &plain.seen);
	return 0;
}

/* 1: no more is to be seen of it. */
__noinline int pg_link_see_plain(struct __sk_buff *skb)
{
	struct pg_link_plain plain = {};
	const struct pg_link_short *link;
	struct pg_link_table *table;
	__u64 env_id;

	if (!pg_link_plain_read(skb, &plain) || pg_link_plain_opens(&plain))
		return 0;
	if (pg_link_is_seen(&plain.seen))
		return 1;
	if (plain.seen.protocol != IPPROTO_TCP)
		return 0;
	link = pg_link_short(skb->ifindex);
	if (!link)
		return 1;
	env_id = link->env_id;
	table = bpf_map_lookup_elem(&pg_link_tables, &env_id);
	if (table)
		pg_link_see_segment(link, pg_state_word(link->state), table, &plain);
	return 1;
}
