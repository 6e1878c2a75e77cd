/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * At the guard of a veth: plain segments of a TCP connection that its own end has opened, judged by
 * few facts in little code. What is not one, or would not be let out by these facts alone, is
 * judged as everything is.
 */
#pragma once

#include "decide.bpf.h"
#include "facts.h"
#include "loopback.bpf.h"
#include "maps.bpf.h"
#include "neighbour.bpf.h"
#include "packet.bpf.h"
#include "sent.bpf.h"
#include "socket.bpf.h"
#include "view.bpf.h"

/* It has to be judged as everything is. */
#define PG_STREAM_UNKNOWN (-1)

/* What counts of the socket. */
struct pg_stream {
	struct pg_mark *mark; /* NULL: none */
	int state;
};

/* Whether the packet is that of a TCP socket which does not listen. */
static __always_inline bool pg_stream_read_socket(struct __sk_buff *skb, struct pg_stream *ret)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk || (sk->family != PG_AF_INET && sk->family != PG_AF_INET6))
		return false;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->type != PG_SOCK_STREAM || sk->protocol != IPPROTO_TCP ||
	    sk->state == PG_TCP_LISTEN || sk->state == PG_TCP_CLOSE)
		return false;
	ret->state = sk->state;
	ret->mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
	return true;
}

/* Whether a plain segment asks for a connection, or may; of other packets it says nothing. */
static __always_inline bool pg_stream_asks(struct __sk_buff *skb)
{
	pg_word word = 0;

	if (skb->protocol == bpf_htons(PG_ETH_P_IP)
		    ? pg_load(skb, PG_LINK_NETWORK + 20 + 12, &word, 1) < 0
		    : pg_load(skb, PG_LINK_NETWORK + 40 + 12, &word, 1) < 0)
		return true;
	return (bpf_ntohl(word) >> 16 & (PG_TCP_SYN | PG_TCP_ACK)) == PG_TCP_SYN;
}

/* Fills the facts of a plain segment. ret_acked: the number in network order. */
static __always_inline bool pg_stream_read(struct __sk_buff *skb, bool in, struct pg_facts *facts,
					   __u8 *ret_flags, __be32 *ret_acked)
{
	pg_word tcp[4];

	if (!pg_read_plain(skb, PG_LINK_NETWORK, in, IPPROTO_TCP, facts, tcp, 4))
		return false;
	*ret_flags = bpf_ntohl(tcp[3]) >> 16;
	*ret_acked = tcp[2];
	if ((*ret_flags & (PG_TCP_SYN | PG_TCP_ACK)) == PG_TCP_SYN)
		facts->bits |= PG_FACT_SYN;
	return true;
}

/* The reason for which the guard lets the segment out, or PG_STREAM_UNKNOWN: what was accepted, and
 * a reset that the destination does not allow, may go by what the guard has seen of the connection.
 */
static __always_inline int pg_stream_decide(struct __sk_buff *skb, const struct pg_view *view,
					    const struct pg_stream *stream)
{
	struct pg_facts facts = {.bits = PG_FACT_PACKET | PG_FACT_LINK};
	enum pg_reason reason;
	__be32 acked;
	__u8 flags;

	if ((stream->mark && stream->mark->kind != PG_MARK_STREAM) ||
	    !pg_stream_read(skb, false, &facts, &flags, &acked))
		return PG_STREAM_UNKNOWN;
	if (stream->state != PG_TCP_SYN_SENT)
		facts.bits |= PG_FACT_ESTABLISHED;
	if (pg_is_own(view->header, &facts.local))
		facts.bits |= PG_FACT_OWN_SOURCE;
	if (pg_is_member_address(view->header, &facts.remote))
		facts.bits |= PG_FACT_MEMBER;
	reason = pg_decide(view, &facts);
	return pg_reason_verdict(reason) == PG_ALLOW ? (int)reason : PG_STREAM_UNKNOWN;
}
