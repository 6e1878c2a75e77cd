/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the guard of a veth lets out without judging it, since the same was let out a while ago. */
#pragma once

#include "checksum.bpf.h"
#include "link_packet.bpf.h"
#include "link_short.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "segment.bpf.h"
#include "sent.bpf.h"
#include "stream.bpf.h"
#include "view.bpf.h"

/* Whether the frame is from the Environment's station to the host's, or stations do not count. */
static __always_inline bool pg_link_goes_by_host(struct __sk_buff *skb,
						 const struct pg_link_short *link)
{
	struct pg_link_packet packet = {};

	if (!(link->flags & PG_LINK_STATIONS))
		return true;
	pg_link_read_stations(skb, &packet);
	return packet.from == link->own && (packet.to == link->host || packet.to == link->bridge);
}

/* Whether a segment may leave by few facts (stream.bpf.h), of a socket without a mark. */
static __always_inline bool pg_link_passes_segment(struct __sk_buff *skb, __u32 ifindex, int state)
{
	const struct pg_link *link;
	struct bpf_sock *sk = skb->sk;
	struct pg_view view;

	if (!sk || bpf_sk_storage_get(&pg_marks, sk, NULL, 0))
		return false;
	link = bpf_map_lookup_elem(&pg_links, &ifindex);
	if (!link)
		return false;
	pg_view_read(&view, &link->header);
	return view.valid && pg_stream_passes(skb, &view, state);
}

/* Whether the guard has let out a segment of the same tuple, or the same addresses, or may. */
static __always_inline bool pg_link_knows_segment(struct __sk_buff *skb,
						  const struct pg_link_short *link, __u64 word)
{
	int state;

	if (!pg_stream_read_socket(skb, &state))
		return false;
	return pg_segment_find(skb, link->env_id, link->epoch, word >> PG_STATE_GENERATION_SHIFT,
			       skb->ifindex | (__u64)link->state << PG_SENT_STATE) >= 0 ||
	       pg_link_passes_segment(skb, skb->ifindex, state);
}

/* The same of a datagram of the same tuple and socket. */
static __always_inline bool pg_link_knows_datagram(struct __sk_buff *skb,
						   const struct pg_link_short *link, __u64 word)
{
	return pg_sent_find_own(skb, link->env_id, link->epoch, word >> PG_STATE_GENERATION_SHIFT,
				skb->ifindex) >= 0;
}

/* 1: the packet needs no more to be judged, and goes by the host. A global function as
 * pg_segment_find() is. */
__noinline int pg_link_knows(struct __sk_buff *skb)
{
	const struct pg_link_short *link = pg_link_short(skb->ifindex);
	int protocol, header;
	__u64 word;

	if (!link || skb->vlan_present)
		return 0;
	protocol = pg_ip_protocol(skb, PG_LINK_NETWORK);
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return 0;
	header = skb->protocol == bpf_htons(PG_ETH_P_IPV6) ? sizeof(struct ipv6hdr)
							   : sizeof(struct iphdr);
	if (!pg_link_is_whole(skb, PG_LINK_NETWORK + header + (protocol == IPPROTO_TCP ? 16 : 8)) ||
	    !pg_checksum_is_fit(skb, protocol, header))
		return 0;
	word = pg_state_word(link->state);
	if (!(word & PG_STATE_PHASE_MASK) || !pg_link_goes_by_host(skb, link))
		return 0;
	return protocol == IPPROTO_TCP ? pg_link_knows_segment(skb, link, word)
				       : pg_link_knows_datagram(skb, link, word);
}
