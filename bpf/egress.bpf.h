/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What leaves by a hook of a cgroup: what a packet is judged by, and what is kept of it. */
#pragma once

#include "accepted.bpf.h"
#include "count.bpf.h"
#include "decide.bpf.h"
#include "dns.bpf.h"
#include "facts.h"
#include "flow.bpf.h"
#include "hook.bpf.h"
#include "loopback.bpf.h"
#include "maps.bpf.h"
#include "neighbour.bpf.h"
#include "packet.bpf.h"
#include "recent.bpf.h"
#include "sent.bpf.h"
#include "socket.bpf.h"
#include "verifier.bpf.h"
#include "view.bpf.h"

/*
 * Whether the source is the Environment's own, as far as the header asks for it. On lo pg_own does
 * not count: it has the addresses of one namespace, and the packet may be in another.
 */
static __always_inline bool pg_source_is_own(struct __sk_buff *skb, const struct pg_header *header,
					     const struct pg_facts *facts)
{
	struct pg_own_key key = {.env_id = header->env_id, .addr = facts->local};
	pg_own_value *own;

	if (pg_addr_is_loopback(&facts->local))
		return true;
	if (skb->ifindex == PG_IFINDEX_LOOPBACK)
		return !(header->flags & (PG_HEADER_CHECK_SOURCE | PG_HEADER_CHECK_LO_SOURCE)) ||
		       (!pg_addr_is_unspecified(&facts->local) &&
			pg_addr_equal(&facts->local, &facts->remote));
	if (!(header->flags & PG_HEADER_CHECK_SOURCE))
		return true;
	own = bpf_map_lookup_elem(&pg_own, &key);
	return own && pg_is_own_in(own, facts->netns);
}

/* Who receives what goes to lo. */
static __always_inline void pg_read_receiver(struct __sk_buff *skb, const struct pg_header *header,
					     struct pg_facts *facts)
{
	switch (pg_find_receiver(skb, header, facts)) {
	case PG_RECEIVER_NONE:
		facts->bits |= pg_dns_is_unserved(skb, header, facts)
				       ? PG_FACT_LISTENER | PG_FACT_UNSERVED
				       : PG_FACT_LOOPBACK;
		break;
	case PG_RECEIVER_OWN:
		facts->bits |= PG_FACT_LOOPBACK;
		break;
	case PG_RECEIVER_LISTENER:
		facts->bits |= pg_dns_reaches_listener(skb, header, facts) ? PG_FACT_LISTENER
									   : PG_FACT_HIDDEN;
		break;
	case PG_RECEIVER_HIDDEN:
		facts->bits |= PG_FACT_HIDDEN;
		break;
	case PG_RECEIVER_OTHER:
		break;
	}
}

/* What the packet alone does not tell. */
static __always_inline void pg_read_egress_facts(struct __sk_buff *skb,
						 const struct pg_header *header,
						 struct pg_facts *facts,
						 const struct pg_packet *packet)
{
	pg_read_socket(skb, header, facts, packet);
	pg_check_mld(skb, header, facts, packet);
	if (pg_source_is_own(skb, header, facts))
		facts->bits |= PG_FACT_OWN_SOURCE;
	if (skb->ifindex != PG_IFINDEX_LOOPBACK) {
		if (pg_is_member_address(header, &facts->remote))
			facts->bits |= PG_FACT_MEMBER;
		return;
	}
	facts->bits |= PG_FACT_TO_LO;
	if (!facts->defect)
		pg_read_receiver(skb, header, facts);
}

/* A query for the listener that user space is about to open. */
static __always_inline int pg_dns_wait(struct __sk_buff *skb, const struct pg_view *view,
				       const struct pg_facts *facts, struct pg_counters *counters)
{
	if (facts->protocol == IPPROTO_UDP) {
		pg_count(counters, PG_COUNT_PACKET, PG_REASON_LISTENER);
		pg_dns_park(skb, view, facts, counters);
		return PG_HOOK_TAKE;
	}
	/* The kernel sends the SYN again in a second, and the second one is counted. */
	pg_report(view, facts, PG_EVENT_UNSERVED, PG_REASON_LISTENER, counters);
	return PG_HOOK_DENY;
}

static __always_inline void pg_remember(struct __sk_buff *skb, const struct pg_view *view,
					__u8 protocol, enum pg_reason reason)
{
	pg_sent_remember(skb, view->header->env_id, view->header->epoch, view->generation,
			 pg_sent_where(view, protocol, reason, 0));
}

/* A datagram is remembered if its flow is known already: who sends one to each of many gains
 * nothing by it. Of a socket that was made before the hooks nobody knows where flows belong to. */
static __always_inline void pg_record_datagram(struct __sk_buff *skb, const struct pg_view *view,
					       const struct pg_facts *facts, struct pg_flow *flow,
					       enum pg_reason reason, struct pg_counters *counters)
{
	if (!(facts->bits & PG_FACT_INBOUND))
		pg_flow_record_outbound(view, facts, flow, counters);
	if (flow && pg_is_marked(skb->sk, PG_MARK_DATAGRAM))
		pg_remember(skb, view, IPPROTO_UDP, reason);
}

/* A packet that is not to lo was let out. */
static __always_inline void pg_record_egress(struct __sk_buff *skb, const struct pg_view *view,
					     const struct pg_facts *facts,
					     const struct pg_packet *packet, struct pg_flow *flow,
					     enum pg_reason reason, struct pg_counters *counters)
{
	if (facts->defect) {
		if (reason == PG_REASON_PUBLIC)
			pg_flow_record_hidden(view, facts, packet, counters);
		return;
	}
	if (facts->protocol == IPPROTO_UDP)
		pg_record_datagram(skb, view, facts, flow, reason, counters);
	if (facts->protocol == IPPROTO_TCP)
		pg_recent_record(view, view->header->env_id, facts, reason);
	/* Public has its own reason. */
	if (facts->bits & PG_FACT_ACCEPTED)
		pg_remember(skb, view, IPPROTO_TCP, reason);
}

static __always_inline void pg_forget_addr(struct pg_addr *addr, __u64 zero)
{
	addr->word[0] ^= zero;
	addr->word[1] ^= zero;
	addr->word[2] ^= zero;
	addr->word[3] ^= zero;
}

/* How the packet was read is nothing that the verifier has to follow through the decision. The
 * guard has its facts in a map for that (struct pg_link_run), but hooks of a cgroup are interrupted
 * by softirqs with hooks of theirs. */
static __always_inline void pg_forget_ways(struct __sk_buff *skb, struct pg_facts *facts,
					   struct pg_packet *packet)
{
	const __u64 zero = pg_unknown_zero(skb->len);

	packet->icmp_type ^= zero;
	packet->tcp_flags ^= zero;
	packet->tcp_payload ^= zero & 1;
	pg_forget_addr(&facts->local, zero);
	pg_forget_addr(&facts->remote, zero);
}

static __always_inline int pg_judge_egress(struct __sk_buff *skb, const struct pg_view *view,
					   struct pg_counters *counters)
{
	/* A forged source on lo could open a flow, so lo has none. */
	bool flows = skb->ifindex != PG_IFINDEX_LOOPBACK, udp;
	struct pg_facts facts = {};
	struct pg_packet packet = {};
	struct pg_flow *flow = NULL;
	enum pg_reason reason;

	pg_read_packet(skb, true, 0, &facts, &packet);
	pg_forget_ways(skb, &facts, &packet);
	if (!view->valid) {
		pg_count(counters, PG_COUNT_PACKET, PG_REASON_NO_POLICY);
		pg_report_denied(view, &facts, PG_COUNT_PACKET, PG_REASON_NO_POLICY, counters);
		return PG_HOOK_DENY;
	}
	pg_read_egress_facts(skb, view->header, &facts, &packet);
	udp = facts.protocol == IPPROTO_UDP && !facts.defect;
	if (flows && udp) {
		flow = pg_flow_lookup(view->header, &facts);
		if (pg_flow_is_inbound(view, flow))
			facts.bits |= PG_FACT_INBOUND;
	}
	reason = pg_decide(view, &facts);
	if (reason == PG_REASON_LISTENER && facts.bits & PG_FACT_UNSERVED)
		return pg_dns_wait(skb, view, &facts, counters);
	if (pg_count(counters, PG_COUNT_PACKET, reason) == PG_ALLOW) {
		if (flows)
			pg_record_egress(skb, view, &facts, &packet, flow, reason, counters);
		return PG_HOOK_ALLOW;
	}
	pg_report_denied(view, &facts, PG_COUNT_PACKET, reason, counters);
	if (reason == PG_REASON_SOURCE && flows)
		pg_report_source(view, &facts, counters);
	if (pg_is_stranded(skb, &facts))
		pg_report(view, &facts, PG_EVENT_STRANDED, reason, counters);
	return PG_HOOK_DENY;
}
