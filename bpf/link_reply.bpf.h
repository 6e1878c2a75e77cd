/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What passes the guard of a veth because something was opened from outside: replies of sockets,
 * and answers of the kernel's. A process inside can make packets from anybody arrive, so it counts
 * only if it was seen coming in by the veth.
 */
#pragma once

#include "flow.bpf.h"
#include "link_packet.bpf.h"
#include "link_table.bpf.h"
#include "tracked.bpf.h"

#define PG_ICMP_ECHO_REPLY    0
#define PG_ICMP_UNREACHABLE   3
#define PG_ICMP_ECHO	      8
#define PG_ICMP_TIME_EXCEEDED 11
#define PG_ICMP_PARAMETER     12
#define PG_ICMPV6_ERROR_MAX   4
#define PG_ICMPV6_ECHO	      128
#define PG_ICMPV6_ECHO_REPLY  129

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
 * Whether a reply of a TCP socket counts: on a connection that the guard saw being opened. Nothing
 * that rewrote the packet since counts.
 */
static __always_inline void pg_link_check_stream(struct __sk_buff *skb, const struct pg_view *view,
						 struct pg_link_table *table,
						 struct pg_facts *facts)
{
	struct bpf_sock *sk = skb->sk;
	struct pg_link_flow key = {};
	struct pg_mark *mark;
	bool confirmed;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return;
	/* Meanwhile another CPU may make the place a mark, which is there before the place is left,
	 * or the socket may be closed: of what is in neither any more nobody knows how it was
	 * opened.
	 */
	confirmed = pg_accepted_of(skb, view->header, facts) & PG_ACCEPTED_CONFIRMED;
	mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
	if (mark && mark->kind == PG_MARK_ACCEPTED)
		confirmed = mark->confirmed;
	else
		mark = NULL;
	if (confirmed)
		return;
	pg_link_key_fill(&key, view, facts);
	if (!table || !pg_link_is_inbound(table, &key))
		facts->bits &= ~PG_FACT_ACCEPTED;
	else if (mark)
		mark->confirmed = 1;
	else
		pg_accepted_confirm(skb, view->header->state);
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
					     const struct pg_facts *facts,
					     struct pg_link_packet *packet)
{
	const struct pg_flow *flow = pg_flow_lookup(view->header, facts);
	struct pg_flow_key key = {};

	packet->recorded = flow && flow->direction == PG_FLOW_OUTBOUND;
	if (!pg_flow_is_inbound(view, flow))
		return false;
	pg_link_key_datagram(&key, view->header, facts);
	return pg_flow_is_inbound(view, pg_flow_find(&key));
}

/*
 * A datagram goes out. It is a reply if something came in by a veth on its tuple, in this
 * generation; otherwise what comes back is an answer, and nothing that does opens a flow any more.
 * The hooks of the cgroup forget, and believe what was made inside.
 */
PG_APART void pg_link_note_sent(const struct pg_view *view, struct pg_link_table *table,
				const struct pg_facts *facts, const struct pg_link_flow *tuple)
{
	struct pg_flow_key key = {};
	struct pg_flow *flow;

	pg_link_key_datagram(&key, view->header, facts);
	flow = pg_flow_find(&key);
	if (pg_flow_is_inbound(view, flow))
		return;
	if (flow)
		flow->direction = PG_FLOW_OUTBOUND;
	pg_link_record_sent(table, tuple);
}

/* A datagram comes in. Unless one has gone out first, it opens a flow; while none may be opened, it
 * may be an answer, and goes on being one. So does one that the host knows to be an answer. */
static __always_inline void pg_link_see_datagram(struct __sk_buff *skb, const struct pg_view *view,
						 struct pg_link_table *table,
						 const struct pg_facts *facts,
						 const struct pg_link_flow *tuple)
{
	__u64 env_id = view->header->env_id;
	struct pg_flow_key key = {};
	struct pg_counters *counters;
	struct pg_flow *flow;

	pg_link_key_datagram(&key, view->header, facts);
	flow = pg_flow_find(&key);
	if (flow) {
		if (flow->generation != (__u32)view->generation)
			flow->generation = (__u32)view->generation;
		return;
	}
	if (pg_link_has_sent(table, tuple))
		return;
	if (pg_flow_inbound_barred(env_id) || pg_tracked_is_answer(skb)) {
		pg_link_record_sent(table, tuple);
		return;
	}
	counters = bpf_map_lookup_elem(&pg_link_counts, &env_id);
	if (counters)
		pg_flow_insert(view, &key, PG_FLOW_INBOUND, counters);
}

/* Replies to what was opened from outside. */
static __always_inline void pg_link_read_reply(struct __sk_buff *skb, const struct pg_view *view,
					       struct pg_link_table *table, struct pg_facts *facts,
					       struct pg_link_packet *packet)
{
	if (packet->sender != PG_LINK_SOCKET)
		facts->bits &= ~PG_FACT_ACCEPTED;
	else if (facts->bits & PG_FACT_ACCEPTED)
		pg_link_check_stream(skb, view, table, facts);
	if (packet->sender == PG_LINK_SOCKET && facts->protocol == IPPROTO_UDP && !packet->later) {
		if (pg_link_is_reply(view, facts, packet))
			facts->bits |= PG_FACT_INBOUND;
	} else if (!(facts->bits & PG_FACT_ACCEPTED) &&
		   pg_link_is_answer(skb, view, table, facts, packet)) {
		facts->bits |= PG_FACT_INBOUND;
	}
}
