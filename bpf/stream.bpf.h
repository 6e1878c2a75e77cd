/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * At the guard of a veth: plain segments of a TCP connection that its own end has opened, judged by
 * few facts in little code. What is not one, or would not be let out by these facts alone, is
 * judged as everything is.
 */
#pragma once

#include "accepted.bpf.h"
#include "decide.bpf.h"
#include "facts.h"
#include "link_table.bpf.h"
#include "loopback.bpf.h"
#include "maps.bpf.h"
#include "neighbour.bpf.h"
#include "packet.bpf.h"
#include "recent.bpf.h"
#include "sent.bpf.h"
#include "socket.bpf.h"
#include "view.bpf.h"

/* Whether the packet is that of a TCP socket which does not listen, and in which state that is. */
static __always_inline bool pg_stream_read_socket(struct __sk_buff *skb, int *ret_state)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk || (sk->family != PG_AF_INET && sk->family != PG_AF_INET6))
		return false;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->type != PG_SOCK_STREAM || sk->protocol != IPPROTO_TCP ||
	    sk->state == PG_TCP_LISTEN || sk->state == PG_TCP_CLOSE)
		return false;
	*ret_state = sk->state;
	return true;
}

/* Fills the facts of a plain segment. */
static __always_inline bool pg_stream_read(struct __sk_buff *skb, struct pg_facts *facts)
{
	pg_word tcp[4];

	if (!pg_read_plain(skb, PG_LINK_NETWORK, false, IPPROTO_TCP, facts, tcp, 4))
		return false;
	if ((bpf_ntohl(tcp[3]) >> 16 & (PG_TCP_SYN | PG_TCP_ACK)) == PG_TCP_SYN)
		facts->bits |= PG_FACT_SYN;
	return true;
}

/*
 * Whether the guard lets the segment out by few facts, of a socket without a mark; what was
 * accepted may go by what the guard has seen of the connection.
 */
static __always_inline bool pg_stream_passes(struct __sk_buff *skb, const struct pg_view *view,
					     int state)
{
	struct pg_facts facts = {.bits = PG_FACT_PACKET | PG_FACT_LINK};
	__u64 env_id = view->header->env_id;
	struct pg_link_table *table = bpf_map_lookup_elem(&pg_link_tables, &env_id);
	struct pg_link_flow tuple = {};
	enum pg_reason reason;

	if (!table || !pg_stream_read(skb, &facts))
		return false;
	if (state != PG_TCP_SYN_SENT)
		facts.bits |= PG_FACT_ESTABLISHED;
	if (pg_is_own(view->header, &facts.local))
		facts.bits |= PG_FACT_OWN_SOURCE;
	if (pg_is_member_address(view->header, &facts.remote))
		facts.bits |= PG_FACT_MEMBER;
	reason = pg_decide(view, &facts);
	if (pg_reason_verdict(reason) != PG_ALLOW)
		return false;
	pg_link_key_fill(&tuple, view, &facts);
	if (pg_link_record_stream(table, &tuple, facts.bits & PG_FACT_SYN))
		pg_recent_record(view, env_id | PG_SENT_OF_LINK, &facts, reason);
	/* What was accepted is remembered by its socket. */
	if (pg_may_be_accepted(view->header->state))
		pg_sent_confirm(skb, env_id, view->header->epoch, view->generation,
				pg_sent_where(view, IPPROTO_TCP, reason, skb->ifindex));
	return true;
}
