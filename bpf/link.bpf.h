/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The guard at the host's end of a veth: the same facts and the same decision as at the hooks of
 * the cgroup, of everything that comes out. A packet there may have no socket, and its header may
 * be another than the one that the socket's hook has seen.
 */
#pragma once

#include "count.bpf.h"
#include "decide.bpf.h"
#include "flow.bpf.h"
#include "link_packet.bpf.h"
#include "link_peers.bpf.h"
#include "link_reply.bpf.h"
#include "link_table.bpf.h"
#include "neighbour.bpf.h"
#include "packet.bpf.h"
#include "sent.bpf.h"
#include "socket.bpf.h"
#include "verifier.bpf.h"

/* Verdicts of tc: the next filter decides, or nobody any more. */
#define PG_TC_NEXT (-1)
#define PG_TC_DROP 2

/* Whether the kernel may say to its neighbours that it looks for the address. */
static __always_inline bool pg_link_may_ask_for(const struct pg_link *link,
						struct pg_link_table *table,
						const struct pg_link_packet *packet,
						const struct pg_addr *target)
{
	struct pg_own_key key = {.env_id = link->header.env_id, .addr = *target};

	return packet->is_public || !(link->flags & PG_LINK_TARGETS) ||
	       bpf_map_lookup_elem(&pg_own, &key) || bpf_map_lookup_elem(&pg_link_hops, &key) ||
	       (table && pg_link_peer_seen(table, link->header.env_id, target));
}

/*
 * Whether neighbour discovery that goes there stays on the link: a router forwards it as it does
 * all else, and whoever has sent something may be far away.
 */
static __always_inline bool pg_link_is_on_link(const struct pg_link *link,
					       struct pg_link_table *table,
					       const struct pg_addr *addr)
{
	struct pg_own_key key = {.env_id = link->header.env_id, .addr = *addr};
	const __u8 *hop;

	if (pg_addr_is_multicast(addr) || pg_addr_is_link_local(addr) ||
	    (table && pg_link_peer_seen(table, link->header.env_id, addr) & PG_LINK_PEER_NEIGHBOUR))
		return true;
	/* What the host is seen to say is not recorded. */
	hop = bpf_map_lookup_elem(&pg_link_hops, &key);
	return hop && *hop == PG_LINK_HOP_HOST;
}

/* What a frame to more than one station is for. */
static __always_inline bool pg_link_check_group(const struct pg_addr *destination,
						const struct pg_link_packet *packet, bool nd)
{
	pg_station station = 0;

	__builtin_memset(&station, packet->arp ? 0xff : 0x33, PG_STATION_SIZE);
	if (packet->arp)
		return packet->to == station;
	if (nd) /* RFC 2464 section 7 */
		__builtin_memcpy((__u8 *)&station + 2, &destination->word[3], sizeof(__u32));
	return pg_addr_is_multicast(destination) && (!nd || packet->to == station);
}

/*
 * Whether the frame's stations are those that the addresses in it have, so that it says nothing by
 * them, and nobody else on the link gets it. destination: of ARP the target.
 */
static __always_inline bool pg_link_check_stations(const struct pg_link *link,
						   struct pg_link_table *table,
						   const struct pg_addr *destination,
						   const struct pg_link_packet *packet, bool nd)
{
	if (!(link->flags & PG_LINK_STATIONS))
		return true;
	if (packet->from != link->stations.own)
		return false;
	if (*(const __u8 *)&packet->to & 1)
		return pg_link_check_group(destination, packet, nd);
	if (packet->to == link->stations.host || packet->to == link->stations.bridge)
		return true;
	if (!table)
		return false;
	return pg_link_is_gateway(table, packet->to) ||
	       (pg_link_is_near(&link->stations, destination) &&
		pg_link_is_neighbour_at(link->header.env_id, destination, packet->to));
}

/* The target's hardware address: the kernel's questions have none, its replies the station that
 * they go to. */
static __always_inline bool pg_link_is_plain_arp(struct __sk_buff *skb,
						 const struct pg_link_packet *packet)
{
	const __u32 arp = packet->packet.network;
	pg_station target = 0;
	__u8 code = 0;

	if (bpf_skb_load_bytes(skb, arp + 7, &code, sizeof(code)) < 0 ||
	    bpf_skb_load_bytes(skb, arp + 18, &target, PG_STATION_SIZE) < 0)
		return false;
	return target == (code == 1 ? 0 : packet->to);
}

/*
 * Neighbour discovery of the kernel's. Where it asks for an address that it may not ask for, it is
 * judged as a packet to there would be.
 */
static __always_inline void pg_link_judge_target(const struct pg_link *link,
						 struct pg_link_table *table,
						 struct pg_facts *facts,
						 const struct pg_link_packet *packet,
						 const struct pg_addr *target)
{
	if (pg_link_may_ask_for(link, table, packet, target)) {
		facts->bits |= PG_FACT_KERNEL_ND;
		return;
	}
	facts->bits &= ~PG_FACT_KERNEL_ND;
	facts->bits |= PG_FACT_ESTABLISHED;
	facts->remote = *target;
}

static __always_inline void pg_link_read_arp(struct __sk_buff *skb, const struct pg_link *link,
					     struct pg_link_table *table, struct pg_facts *facts,
					     const struct pg_link_packet *packet)
{
	const struct pg_addr target = facts->remote;

	if (!packet->is_public &&
	    (packet->sender != PG_LINK_NOBODY || !pg_link_is_plain_arp(skb, packet)))
		facts->defect = PG_REASON_FRAME;
	if (facts->defect)
		return;
	facts->protocol = IPPROTO_ICMP;
	if (!packet->is_public && !pg_addr_is_unspecified(&facts->local) &&
	    !pg_is_own(&link->header, &facts->local))
		return;
	facts->bits |= PG_FACT_OWN_SOURCE;
	pg_link_judge_target(link, table, facts, packet, &target);
}

/* Returns whether it is the kernel's neighbour discovery. */
static __always_inline bool pg_link_read_nd(struct __sk_buff *skb, const struct pg_link *link,
					    struct pg_link_table *table, struct pg_facts *facts,
					    const struct pg_link_packet *packet)
{
	const struct pg_addr destination = facts->remote;
	struct pg_addr target;
	bool known = true;

	pg_check_mld(skb, &link->header, facts, &packet->packet);
	if (!(facts->bits & PG_FACT_KERNEL_ND))
		return false;
	facts->bits &= ~PG_FACT_KERNEL_ND;
	if (!pg_read_nd(skb, &link->header, facts, &packet->packet, packet->from, &target))
		return false;
	if (packet->packet.icmp_type == PG_ICMPV6_ADVERT)
		known = pg_link_may_ask_for(link, table, packet, &destination);
	if (!packet->is_public &&
	    (!pg_is_nd_destination(&link->header, &packet->packet, &destination, &target, known) ||
	     !pg_link_is_on_link(link, table, &destination)))
		return false;
	facts->bits |= PG_FACT_KERNEL_ND;
	if (packet->packet.icmp_type == PG_ICMPV6_SOLICIT ||
	    packet->packet.icmp_type == PG_ICMPV6_ADVERT)
		pg_link_judge_target(link, table, facts, packet, &target);
	return true;
}

/* What is judged by besides the header. */
static __always_inline void pg_link_read_facts(struct __sk_buff *skb, const struct pg_link *link,
					       struct pg_link_table *table,
					       const struct pg_view *view, struct pg_facts *facts,
					       struct pg_link_packet *packet)
{
	const struct pg_addr destination = facts->remote;
	bool nd = false;

	if (packet->sender == PG_LINK_FRAMES && !packet->is_public)
		facts->defect = PG_REASON_FRAME;
	if (packet->arp) {
		pg_link_read_arp(skb, link, table, facts, packet);
	} else {
		if (packet->sender != PG_LINK_FRAMES)
			pg_read_socket(skb, &link->header, facts, &packet->packet);
		if (facts->bits & PG_FACT_KERNEL_ND)
			nd = pg_link_read_nd(skb, link, table, facts, packet);
		if (pg_is_own(&link->header, &facts->local))
			facts->bits |= PG_FACT_OWN_SOURCE;
		if (pg_is_member_address(&link->header, &facts->remote))
			facts->bits |= PG_FACT_MEMBER;
	}
	if (!packet->is_public && !pg_link_check_stations(link, table, &destination, packet, nd)) {
		facts->bits &= ~PG_FACT_KERNEL_ND;
		facts->defect = PG_REASON_FRAME;
	}
	if (facts->defect == PG_REASON_FRAME)
		facts->bits |= PG_FACT_OWN_SOURCE; /* so that this is the reason */
	if (!facts->defect && !packet->arp && !(facts->bits & PG_FACT_KERNEL_ND))
		pg_link_read_reply(skb, view, table, facts, packet);
}

/* pg_is_within() of the packet's socket: tc has no helper that tells the cgroup of a socket. */
static __always_inline bool pg_link_is_within(struct __sk_buff *skb, const struct pg_header *header)
{
	if (bpf_skb_ancestor_cgroup_id(skb, header->level) == header->cgroup_id)
		return true;
	if (!(header->flags & PG_HEADER_MEMBERS))
		return false;
	for (__u32 level = 1; level <= PG_MEMBER_LEVEL_MAX; level++) {
		__u64 id = bpf_skb_ancestor_cgroup_id(skb, level);
		const struct pg_member *member;

		if (!id)
			return false;
		member = bpf_map_lookup_elem(&pg_members, &id);
		if (member)
			return member->env_id == header->env_id;
	}
	return false;
}

/* Whether the packet is that of a socket of Phasegate's, or on a shared link of somebody else's.
 * What is in no cgroup but the root may be anybody's. */
static __always_inline bool pg_link_is_others(struct __sk_buff *skb, const struct pg_link *link,
					      const struct pg_facts *facts,
					      const struct pg_link_packet *packet)
{
	struct bpf_sock *sk = skb->sk;
	struct pg_mark *mark;

	if (packet->sender != PG_LINK_SOCKET || !sk)
		return false;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return false;
	mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
	/* They are connected; what rewrites their packets inside sends them elsewhere. */
	if (mark && mark->kind == PG_MARK_AGENT && mark->owner == link->header.env_id)
		return pg_is_peer(sk, facts);
	return link->flags & PG_LINK_SHARED && bpf_skb_ancestor_cgroup_id(skb, 1) &&
	       !pg_link_is_within(skb, &link->header);
}

/* Whether what cannot be read may be of the protocol; the kernel's MLD can be read, and an IPv4
 * header says what it carries. */
static __always_inline bool pg_link_may_be(const struct pg_facts *facts,
					   const struct pg_link_packet *packet, __u8 protocol)
{
	if (facts->bits & PG_FACT_IPV6)
		return !pg_is_icmp_behind_hop(facts, &packet->packet);
	return facts->defect != PG_REASON_IP_OPTIONS || facts->protocol == protocol;
}

/* What comes in may be the answer to something that nothing knows of but this: no new flow becomes
 * inbound until it is too late for one. */
static __always_inline void pg_link_bar_inbound(const struct pg_view *view,
						struct pg_link_table *table)
{
	pg_flow_bar_inbound(view->header->env_id);
	pg_link_bar(table);
}

/* Whether the hook of the cgroup has recorded the datagram as it is here: not what was forwarded or
 * rewritten, or is of a packet socket. */
static __always_inline bool pg_link_is_recorded(struct __sk_buff *skb, const struct pg_view *view,
						struct pg_facts *facts,
						const struct pg_link_packet *packet)
{
	const struct pg_flow *flow;

	if (packet->recorded)
		return true;
	if (packet->sender != PG_LINK_SOCKET && packet->sender != PG_LINK_RAW)
		return false;
	facts->netns = pg_socket_netns(skb->sk);
	flow = pg_flow_lookup(view->header, facts);
	return flow && (flow->direction == PG_FLOW_OUTBOUND || pg_flow_is_inbound(view, flow));
}

/* A datagram that can be read goes out. */
static __always_inline void
pg_link_record_datagram(struct __sk_buff *skb, const struct pg_link *link,
			const struct pg_view *view, struct pg_link_table *table,
			struct pg_facts *facts, const struct pg_link_packet *packet,
			const struct pg_link_flow *tuple)
{
	if (!pg_link_is_recorded(skb, view, facts, packet)) {
		if (pg_link_is_others(skb, link, facts, packet))
			return;
		pg_link_bar_inbound(view, table);
	}
	pg_link_note_sent(view, table, facts, tuple);
}

/* A fragment may be a part of a SYN, and of what cannot be read nobody knows to whom it goes. */
static __always_inline void pg_link_record_segment(struct pg_link_table *table,
						   const struct pg_facts *facts,
						   const struct pg_link_packet *packet,
						   const struct pg_link_flow *tuple)
{
	if (facts->defect) {
		if (pg_link_may_be(facts, packet, IPPROTO_TCP))
			table->asked_any = 1;
	} else if (facts->protocol == IPPROTO_TCP) {
		if (packet->fragment)
			pg_link_record_asked(table, &facts->remote);
		else
			pg_link_record_stream(table, tuple, facts->bits & PG_FACT_SYN);
	}
}

/* What went out, so that its answers are not taken for something that came first. */
static __always_inline void pg_link_record(struct __sk_buff *skb, const struct pg_link *link,
					   const struct pg_view *view, struct pg_link_table *table,
					   struct pg_facts *facts,
					   const struct pg_link_packet *packet)
{
	struct pg_link_flow key = {};

	if (!table || packet->arp)
		return;
	pg_link_key_fill(&key, view, facts);
	if (facts->bits & (PG_FACT_INBOUND | PG_FACT_ACCEPTED)) {
		if (!packet->fragment || packet->later)
			return;
		pg_link_key_fragment(&key, packet);
		pg_link_record_inbound(table, &key);
		return;
	}
	pg_link_record_segment(table, facts, packet, &key);
	if (facts->defect) {
		if (pg_link_may_be(facts, packet, IPPROTO_UDP)) {
			pg_link_bar_inbound(view, table);
			table->sent_any = 1;
		}
	} else if (facts->protocol == IPPROTO_UDP && !packet->later) {
		pg_link_record_outbound(table, &key);
		pg_link_record_datagram(skb, link, view, table, facts, packet, &key);
	}
}

static __always_inline int pg_link_deny(const struct pg_view *view, const struct pg_facts *facts,
					enum pg_reason reason)
{
	__u64 env_id = view->header->env_id;
	struct pg_counters *counters = bpf_map_lookup_elem(&pg_link_counts, &env_id);

	if (!counters)
		return PG_TC_DROP;
	pg_count(counters, PG_COUNT_LINK, reason);
	pg_report_denied(view, facts, PG_COUNT_LINK, reason, counters);
	if (reason == PG_REASON_SOURCE)
		pg_report_source(view, facts, counters);
	return PG_TC_DROP;
}

/* Reads what comes out: before anything else is known, see struct pg_link_run. */
static __always_inline void pg_link_take(struct __sk_buff *skb, enum pg_link_sender sender,
					 struct pg_link_run *run)
{
	run->packet.sender = sender;
	barrier();
	pg_link_read(skb, true, &run->facts, &run->packet);
	barrier();
}

static __always_inline void pg_link_confirm(struct __sk_buff *skb, const struct pg_view *view,
					    __u8 protocol, enum pg_reason reason)
{
	/* Of TCP only what was accepted is remembered by its socket. */
	if (protocol == IPPROTO_UDP ||
	    (protocol == IPPROTO_TCP && pg_may_be_accepted(view->header->state)))
		pg_sent_confirm(skb, view->header->env_id, view->header->epoch, view->generation,
				pg_sent_where(view, protocol, reason, skb->ifindex));
}

static __always_inline int pg_link_judge(struct __sk_buff *skb, struct pg_link_run *run,
					 const struct pg_link *link, struct pg_link_table *table,
					 const struct pg_view *view)
{
	enum pg_reason reason;

	/* It is there as long as the link is; without it nothing could be recorded. */
	if (!table)
		return PG_TC_DROP;
	run->packet.is_public = view->slot && view->slot->mode == PG_MODE_PUBLIC;
	/* Public needs the header only, but for what comes before it in the order; and without a
	 * phase no fact counts. */
	if (view->valid && view->slot &&
	    (!run->packet.is_public || link->header.ceiling_tables ||
	     view->slot->flags & PG_PHASE_DNS_REDIRECT))
		pg_link_read_facts(skb, link, table, view, &run->facts, &run->packet);
	barrier();
	reason = pg_decide(view, &run->facts) ^ pg_unknown_zero(skb->len);
	if (pg_reason_verdict(reason) != PG_ALLOW &&
	    !pg_link_is_others(skb, link, &run->facts, &run->packet))
		return pg_link_deny(view, &run->facts, reason);
	pg_link_record(skb, link, view, table, &run->facts, &run->packet);
	pg_link_confirm(skb, view, run->facts.protocol, reason);
	return PG_TC_NEXT;
}
