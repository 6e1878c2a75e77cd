/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What comes in to an Environment's sockets. */
#pragma once

#include "count.bpf.h"
#include "flow.bpf.h"
#include "hook.bpf.h"
#include "loopback.bpf.h"
#include "packet.bpf.h"
#include "sent.bpf.h"
#include "socket.bpf.h"
#include "view.bpf.h"

static __always_inline void pg_see_datagram(struct __sk_buff *skb, const struct pg_view *view,
					    struct pg_facts *facts, struct pg_counters *counters)
{
	if (!pg_may_answer(view->header, skb->sk))
		return;
	facts->netns = pg_socket_netns(skb->sk);
	pg_flow_record_inbound(view, facts, counters);
}

/* A packet that may open a UDP flow. */
static __always_inline void pg_see_packet(struct __sk_buff *skb, const struct pg_header *header,
					  __u64 word, struct pg_counters *counters)
{
	struct pg_facts facts = {};
	struct pg_packet packet = {};
	struct pg_view view;

	pg_read_packet(skb, false, 0, &facts, &packet);
	if (facts.protocol != IPPROTO_UDP || facts.defect)
		return;
	pg_view_fill(&view, header, word);
	pg_see_datagram(skb, &view, &facts, counters);
}

/* Nothing that comes in is judged, but who opened a UDP flow is remembered. */
static __always_inline int pg_see_ingress(struct __sk_buff *skb, const struct pg_header *header,
					  __u64 word, struct pg_counters *counters)
{
	if (!pg_view_is_valid(header, word)) {
		pg_count(counters, PG_COUNT_INGRESS, PG_REASON_NO_POLICY);
		return PG_HOOK_DENY;
	}
	/* An answer to what the socket has just sent is one whose flow is known. */
	if (skb->ifindex != PG_IFINDEX_LOOPBACK && pg_ip_protocol(skb, 0) != IPPROTO_TCP &&
	    pg_sent_find_own(skb, header->env_id, header->epoch, word >> PG_STATE_GENERATION_SHIFT,
			     PG_SENT_IN) < 0)
		pg_see_packet(skb, header, word, counters);
	pg_count(counters, PG_COUNT_INGRESS, PG_REASON_INGRESS);
	return PG_HOOK_ALLOW;
}
