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
#include "link_table.bpf.h"
#include "neighbour.bpf.h"
#include "packet.bpf.h"
#include "socket.bpf.h"

/* Verdicts of tc: the next filter decides, or nobody any more. */
#define PG_TC_NEXT (-1)
#define PG_TC_DROP 2

#define PG_LINK_NETWORK 14 /* behind the Ethernet header */

#define PG_ICMP_ECHO_REPLY    0
#define PG_ICMP_UNREACHABLE   3
#define PG_ICMP_ECHO	      8
#define PG_ICMP_TIME_EXCEEDED 11
#define PG_ICMP_PARAMETER     12
#define PG_ICMPV6_ERROR_MAX   4
#define PG_ICMPV6_ECHO	      128
#define PG_ICMPV6_ECHO_REPLY  129

/* What has made a packet, as far as its socket tells. */
enum pg_link_sender {
	PG_LINK_NOBODY,	 /* no socket of its own: the kernel, or it was forwarded */
	PG_LINK_CONTROL, /* a raw socket that no application made, the kernel's */
	PG_LINK_SOCKET,	 /* an IP socket that is not raw */
	PG_LINK_RAW,	 /* an application's raw socket */
	PG_LINK_FRAMES,	 /* a packet socket, AF_XDP or whatever else */
};

/* What only the guard needs to know besides the facts and the packet. */
struct pg_link_packet {
	struct pg_packet packet;
	enum pg_link_sender sender;
	pg_station from, to;
	bool is_public; /* the phase in force is */
	bool arp;
	bool fragment, later; /* a fragment, and not the first */
	__u32 identification; /* of a fragment */
};

/*
 * Where a run gathers facts. Not on the stack, where the verifier would follow each way by which
 * they came about through the decision. No softirq interrupts a run, so no run another.
 */
struct pg_link_run {
	struct pg_facts facts;
	struct pg_link_packet packet;
};
PG_ASSERT_SIZE(struct pg_link_run, PG_LINK_RUN_BYTES);

static __always_inline struct pg_link_run *pg_link_begin(void)
{
	const __u32 first = 0;
	struct pg_link_run *run = bpf_map_lookup_elem(&pg_link_runs, &first);

	if (run)
		__builtin_memset(run, 0, sizeof(*run));
	return run;
}

static __always_inline enum pg_link_sender pg_link_sender(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return PG_LINK_NOBODY;
	if (sk->family != PG_AF_INET && sk->family != PG_AF_INET6)
		return PG_LINK_FRAMES;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return PG_LINK_NOBODY;
	if (sk->type == PG_SOCK_RAW)
		return bpf_sk_storage_get(&pg_marks, sk, NULL, 0) ? PG_LINK_RAW : PG_LINK_CONTROL;
	/* What a listener sends, the kernel sends for it. */
	return sk->type == PG_SOCK_STREAM && sk->state == PG_TCP_LISTEN ? PG_LINK_NOBODY
									: PG_LINK_SOCKET;
}

/*
 * The kernel fragments behind the cgroup's hook, so here its fragments come past. The first one
 * has the ports; of the others address and protocol are judged. Not what hides behind IPv6's header
 * anything but what an entry opens.
 */
static __always_inline void pg_link_read_fragment(struct __sk_buff *skb, bool egress,
						  struct pg_facts *facts,
						  struct pg_link_packet *link)
{
	const __u32 network = link->packet.network;
	__be16 words[4] = {};

	if (facts->bits & PG_FACT_IPV6) {
		/* Next header, reserved; offset and flags; identification. */
		if (bpf_skb_load_bytes(skb, network + 40, words, 8) < 0)
			return;
		facts->protocol = bpf_ntohs(words[0]) >> 8;
		link->later = words[1] & bpf_htons(0xfff8);
		link->identification = (__u32)words[2] << 16 | words[3];
		link->packet.transport = network + 48;
	} else {
		/* Identification; flags and offset. */
		if (bpf_skb_load_bytes(skb, network + 4, words, 4) < 0)
			return;
		link->later = words[1] & bpf_htons(0x1fff);
		link->identification = words[0];
		link->packet.transport = network + 20;
	}
	if (!pg_protocol_opened(facts->protocol))
		return;
	link->fragment = true;
	facts->defect = 0;
	if (!link->later)
		pg_read_transport(skb, egress, facts, &link->packet);
}

static __always_inline void pg_link_read(struct __sk_buff *skb, bool egress, struct pg_facts *facts,
					 struct pg_link_packet *link)
{
	link->packet.network = PG_LINK_NETWORK;
	bpf_skb_load_bytes(skb, 0, &link->to, PG_STATION_SIZE);
	bpf_skb_load_bytes(skb, PG_STATION_SIZE, &link->from, PG_STATION_SIZE);
	facts->bits = PG_FACT_PACKET | PG_FACT_LINK;
	if (skb->vlan_present) {
		facts->defect = PG_REASON_FRAME;
		return;
	}
	if (skb->protocol == bpf_htons(PG_ETH_P_ARP)) {
		link->arp = true;
		if (!pg_read_arp(skb, facts, &link->packet, link->from))
			facts->defect = PG_REASON_FRAME;
		return;
	}
	if (skb->protocol != bpf_htons(PG_ETH_P_IP) && skb->protocol != bpf_htons(PG_ETH_P_IPV6)) {
		facts->defect = PG_REASON_FRAME;
		return;
	}
	pg_read_packet(skb, egress, facts, &link->packet);
	if (facts->defect == PG_REASON_FRAGMENT)
		pg_link_read_fragment(skb, egress, facts, link);
}

/* Whether the kernel may say to its neighbours that it looks for the address. */
static __always_inline bool pg_link_may_ask_for(const struct pg_link *link,
						struct pg_link_table *table,
						const struct pg_link_packet *packet,
						const struct pg_addr *target)
{
	struct pg_own_key key = {.env_id = link->header.env_id, .addr = *target};

	return packet->is_public || !(link->flags & PG_LINK_TARGETS) ||
	       bpf_map_lookup_elem(&pg_own, &key) || bpf_map_lookup_elem(&pg_link_hops, &key) ||
	       (table && pg_link_peer_station(table, target));
}

/*
 * Whether the frame's stations are those that the addresses in it have, so that it says nothing by
 * them, and nobody else on the link gets it.
 */
static __always_inline bool pg_link_check_stations(const struct pg_link *link,
						   struct pg_link_table *table,
						   const struct pg_facts *facts,
						   const struct pg_link_packet *packet)
{
	if (!(link->flags & PG_LINK_STATIONS))
		return true;
	if (packet->from != link->stations.own)
		return false;
	/* Questions to neighbours are judged by whom they ask for. */
	if (packet->arp || facts->bits & PG_FACT_KERNEL_ND)
		return true;
	if (*(const __u8 *)&packet->to & 1)
		return pg_addr_is_multicast(&facts->remote);
	if (packet->to == link->stations.host || packet->to == link->stations.bridge)
		return true;
	if (!table)
		return false;
	return pg_link_peer_station(table, &facts->remote) == (packet->to | PG_LINK_PEER_KNOWN) ||
	       pg_link_is_gateway(table, packet->to);
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

static __always_inline void pg_link_read_arp(const struct pg_link *link,
					     struct pg_link_table *table, struct pg_facts *facts,
					     const struct pg_link_packet *packet)
{
	const struct pg_addr target = facts->remote;

	if (packet->sender != PG_LINK_NOBODY && !packet->is_public)
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

static __always_inline void pg_link_read_nd(struct __sk_buff *skb, const struct pg_link *link,
					    struct pg_link_table *table, struct pg_facts *facts,
					    const struct pg_link_packet *packet)
{
	struct pg_addr target;

	pg_check_mld(skb, &link->header, facts, &packet->packet);
	if (!(facts->bits & PG_FACT_KERNEL_ND))
		return;
	facts->bits &= ~PG_FACT_KERNEL_ND;
	if (!pg_read_nd(skb, &link->header, facts, &packet->packet, packet->from, &target))
		return;
	facts->bits |= PG_FACT_KERNEL_ND;
	if (packet->packet.icmp_type == PG_ICMPV6_SOLICIT ||
	    packet->packet.icmp_type == PG_ICMPV6_ADVERT)
		pg_link_judge_target(link, table, facts, packet, &target);
}

/* What the kernel sends for a connection that has no socket any more, or not yet. */
static __always_inline bool pg_link_is_tcp_answer(const struct pg_packet *packet)
{
	if (packet->tcp_payload)
		return false;
	switch (packet->tcp_flags & (PG_TCP_FIN | PG_TCP_SYN | PG_TCP_RST | PG_TCP_ACK)) {
	case PG_TCP_SYN | PG_TCP_ACK:
	case PG_TCP_ACK:
	case PG_TCP_RST:
	case PG_TCP_RST | PG_TCP_ACK:
		return true;
	}
	return false;
}

/* The tuple of the packet that an ICMP error quotes: it came from where the error goes. */
static __always_inline bool pg_link_read_quoted(struct __sk_buff *skb, const struct pg_facts *facts,
						__u32 offset, struct pg_link_flow *key)
{
	struct pg_addr remote = {};
	__be16 ports[2] = {};

	if (facts->bits & PG_FACT_IPV6) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) < 0 || ip.version != 6)
			return false;
		__builtin_memcpy(&remote, &ip.saddr, sizeof(remote));
		key->protocol = ip.nexthdr;
		offset += sizeof(ip);
	} else {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) < 0 || ip.version != 4 ||
		    ip.ihl != 5 || ip.frag_off & bpf_htons(0x1fff))
			return false;
		pg_addr_set_v4(&remote, ip.saddr);
		key->protocol = ip.protocol;
		offset += sizeof(ip);
	}
	if ((key->protocol != IPPROTO_TCP && key->protocol != IPPROTO_UDP) ||
	    !pg_addr_equal(&remote, &facts->remote) ||
	    bpf_skb_load_bytes(skb, offset, ports, sizeof(ports)) < 0)
		return false;
	key->remote_port = ports[0];
	key->local_port = ports[1];
	return true;
}

/* Echo replies, and errors about what came in. Fills the key of what they answer. */
static __always_inline bool pg_link_is_icmp_answer(struct __sk_buff *skb,
						   const struct pg_facts *facts,
						   const struct pg_packet *packet,
						   struct pg_link_flow *key)
{
	const bool v6 = facts->bits & PG_FACT_IPV6;
	__u8 icmp[8] = {}; /* type, code, checksum, identifier, sequence number */

	if (facts->protocol != (v6 ? PG_IPPROTO_ICMPV6 : IPPROTO_ICMP) ||
	    bpf_skb_load_bytes(skb, packet->transport, icmp, sizeof(icmp)) < 0)
		return false;
	if (icmp[0] == (v6 ? PG_ICMPV6_ECHO_REPLY : PG_ICMP_ECHO_REPLY)) {
		key->local_port = 0;
		key->remote_port = bpf_htons(icmp[4] << 8 | icmp[5]);
		return true;
	}
	if (v6 ? !icmp[0] || icmp[0] > PG_ICMPV6_ERROR_MAX
	       : icmp[0] != PG_ICMP_UNREACHABLE && icmp[0] != PG_ICMP_TIME_EXCEEDED &&
			    icmp[0] != PG_ICMP_PARAMETER)
		return false;
	return pg_link_read_quoted(skb, facts, packet->transport + 8, key);
}

static __always_inline void pg_link_key_fragment(struct pg_link_flow *key,
						 const struct pg_link_packet *packet)
{
	key->protocol = PG_LINK_FRAGMENTS;
	key->local_port = packet->identification >> 16;
	key->remote_port = (__u16)packet->identification;
}

/* Answers of the kernel's, to what was opened from outside. */
static __always_inline bool pg_link_is_answer(struct __sk_buff *skb, const struct pg_view *view,
					      struct pg_link_table *table,
					      const struct pg_facts *facts,
					      const struct pg_link_packet *packet)
{
	struct pg_link_flow key = {};

	if (!table)
		return false;
	pg_link_key_fill(&key, view, facts);
	if (packet->later) {
		/* Not of what was forwarded or built by an application. */
		if (packet->sender != PG_LINK_CONTROL && packet->sender != PG_LINK_SOCKET)
			return false;
		pg_link_key_fragment(&key, packet);
	} else if (facts->protocol == IPPROTO_TCP) {
		if ((packet->sender != PG_LINK_NOBODY && packet->sender != PG_LINK_CONTROL) ||
		    !pg_link_is_tcp_answer(&packet->packet))
			return false;
	} else if (packet->sender != PG_LINK_CONTROL ||
		   !pg_link_is_icmp_answer(skb, facts, &packet->packet, &key)) {
		return false;
	}
	return pg_link_is_inbound(table, &key);
}

/*
 * Whether a reply of a TCP socket may go: on a connection that the guard saw being opened, or, a
 * reset, on one that the socket has opened itself. Nothing that rewrote the packet since counts.
 */
static __always_inline void pg_link_check_stream(struct __sk_buff *skb, const struct pg_view *view,
						 struct pg_link_table *table,
						 struct pg_facts *facts)
{
	struct bpf_sock *sk = skb->sk;
	struct pg_link_flow key = {};
	struct pg_mark *mark;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return;
	if (!pg_is_peer(sk, facts))
		facts->bits &= ~PG_FACT_RESET;
	mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
	if (!mark || mark->kind != PG_MARK_ACCEPTED || mark->confirmed)
		return;
	pg_link_key_fill(&key, view, facts);
	if (table && facts->bits & PG_FACT_ACCEPTED && pg_link_is_inbound(table, &key))
		mark->confirmed = 1;
	else
		facts->bits &= ~(PG_FACT_ACCEPTED | PG_FACT_RESET);
}

static __always_inline void pg_link_key_datagram(struct pg_flow_key *key,
						 const struct pg_header *header,
						 const struct pg_facts *facts)
{
	pg_flow_key_fill(key, header, facts);
	key->netns = 0;
	key->kind = PG_FLOW_LINK;
}

/* Whether a UDP socket answers what came in by a veth, in this generation. */
static __always_inline bool pg_link_is_reply(const struct pg_view *view,
					     const struct pg_facts *facts)
{
	struct pg_flow_key key = {};

	if (!pg_flow_is_inbound(view, pg_flow_lookup(view->header, facts)))
		return false;
	pg_link_key_datagram(&key, view->header, facts);
	return pg_flow_is_inbound(view, pg_flow_find(&key));
}

/* A datagram comes in outside public, where it may become a flow that is opened from outside. */
static __always_inline void pg_link_see_datagram(const struct pg_view *view,
						 const struct pg_facts *facts)
{
	__u64 env_id = view->header->env_id;
	struct pg_flow_key key = {};
	struct pg_counters *counters;
	struct pg_flow *flow;

	if (!view->slot || view->slot->mode == PG_MODE_PUBLIC)
		return;
	pg_link_key_datagram(&key, view->header, facts);
	flow = pg_flow_find(&key);
	if (flow) {
		if (flow->generation != (__u32)view->generation)
			flow->generation = (__u32)view->generation;
		return;
	}
	counters = bpf_map_lookup_elem(&pg_link_counts, &env_id);
	if (counters)
		pg_flow_insert(view, &key, PG_FLOW_INBOUND, counters);
}

/* Replies to what was opened from outside. */
static __always_inline void pg_link_read_reply(struct __sk_buff *skb, const struct pg_view *view,
					       struct pg_link_table *table, struct pg_facts *facts,
					       const struct pg_link_packet *packet)
{
	if (packet->sender != PG_LINK_SOCKET)
		facts->bits &= ~(PG_FACT_ACCEPTED | PG_FACT_RESET);
	else if (facts->bits & (PG_FACT_ACCEPTED | PG_FACT_RESET))
		pg_link_check_stream(skb, view, table, facts);
	if (packet->sender == PG_LINK_SOCKET && facts->protocol == IPPROTO_UDP && !packet->later) {
		if (pg_link_is_reply(view, facts))
			facts->bits |= PG_FACT_INBOUND;
	} else if (!(facts->bits & PG_FACT_ACCEPTED) &&
		   pg_link_is_answer(skb, view, table, facts, packet)) {
		facts->bits |= PG_FACT_INBOUND;
	}
}

/* What is judged by besides the header. */
static __always_inline void pg_link_read_facts(struct __sk_buff *skb, const struct pg_link *link,
					       struct pg_link_table *table,
					       const struct pg_view *view, struct pg_facts *facts,
					       const struct pg_link_packet *packet)
{
	if (packet->sender == PG_LINK_FRAMES && !packet->is_public)
		facts->defect = PG_REASON_FRAME;
	if (packet->arp) {
		pg_link_read_arp(link, table, facts, packet);
	} else {
		if (packet->sender != PG_LINK_FRAMES)
			pg_read_socket(skb, facts, &packet->packet);
		if (facts->bits & PG_FACT_KERNEL_ND)
			pg_link_read_nd(skb, link, table, facts, packet);
		if (pg_is_own(&link->header, &facts->local))
			facts->bits |= PG_FACT_OWN_SOURCE;
		if (pg_is_member_address(&link->header, &facts->remote))
			facts->bits |= PG_FACT_MEMBER;
	}
	if (!packet->is_public && !pg_link_check_stations(link, table, facts, packet)) {
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
	if (mark && mark->kind == PG_MARK_AGENT && mark->owner == link->header.env_id)
		return true;
	return link->flags & PG_LINK_SHARED && bpf_skb_ancestor_cgroup_id(skb, 1) &&
	       !pg_link_is_within(skb, &link->header);
}

/* Of what cannot be read; the kernel's MLD can, and an IPv4 header says what it carries. */
static __always_inline bool pg_link_may_be_datagram(const struct pg_facts *facts,
						    const struct pg_link_packet *packet)
{
	if (facts->bits & PG_FACT_IPV6)
		return facts->protocol != PG_NEXT_HOP_BY_HOP || !packet->packet.icmp_type;
	return facts->defect != PG_REASON_IP_OPTIONS || facts->protocol == IPPROTO_UDP;
}

/* What went out, so that its answers are not taken for something that came first. */
static __always_inline void pg_link_record(const struct pg_view *view, struct pg_link_table *table,
					   const struct pg_facts *facts,
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
	} else if (facts->defect) {
		if (pg_link_may_be_datagram(facts, packet))
			pg_link_bar(table);
	} else if (facts->protocol == IPPROTO_UDP && !packet->later) {
		pg_link_record_outbound(table, &key);
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

static __always_inline int pg_link_judge(struct __sk_buff *skb, struct pg_link_run *run,
					 const struct pg_link *link, struct pg_link_table *table,
					 const struct pg_view *view)
{
	enum pg_reason reason;

	run->packet.is_public = view->slot && view->slot->mode == PG_MODE_PUBLIC;
	/* Public needs the header only, but for what comes before it in the order. */
	if (!run->packet.is_public || link->header.ceiling_tables ||
	    view->slot->flags & PG_PHASE_DNS_REDIRECT)
		pg_link_read_facts(skb, link, table, view, &run->facts, &run->packet);
	barrier();
	reason = pg_decide(view, &run->facts);
	if (pg_reason_verdict(reason) != PG_ALLOW && !pg_link_is_others(skb, link, &run->packet))
		return pg_link_deny(view, &run->facts, reason);
	pg_link_record(view, table, &run->facts, &run->packet);
	return PG_TC_NEXT;
}

/* What goes in: whoever opens something, or is there at all. */
static __always_inline void pg_link_see(struct __sk_buff *skb, const struct pg_view *view,
					struct pg_link_table *table)
{
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
	if (pg_addr_is_multicast(&facts->remote) || pg_addr_is_unspecified(&facts->remote))
		return;
	pg_link_record_peer(table, view->header, &facts->remote, packet->from);
	if (packet->arp)
		return;
	if (facts->protocol == IPPROTO_TCP && !(facts->bits & PG_FACT_SYN)) {
		/* What completes a connection has ACK, and no RST. */
		if ((packet->packet.tcp_flags & (PG_TCP_ACK | PG_TCP_RST)) == PG_TCP_ACK &&
		    !bpf_skb_load_bytes(skb, packet->packet.transport + 8, &number, sizeof(number)))
			pg_link_record_ack(table, facts, bpf_ntohl(number));
		return;
	}
	if (pg_addr_is_multicast(&facts->local))
		return;
	pg_link_key_fill(&key, view, facts);
	switch (facts->protocol) {
	case IPPROTO_TCP:
		break;
	case IPPROTO_UDP:
		pg_link_see_datagram(view, facts);
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
