/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Marks on sockets (abi/flow.h) and what a packet's own socket tells. */
#pragma once

#include "accepted.bpf.h"
#include "facts.h"
#include "link_table.bpf.h"
#include "loopback.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"

#define PG_SOCK_RAW 3

/* Of enum sock states in include/net/tcp_states.h. */
#define PG_TCP_ESTABLISHED 1
#define PG_TCP_SYN_SENT	   2
#define PG_TCP_CLOSE	   7
#define PG_TCP_LISTEN	   10

#define PG_ICMPV6_MLD_REPORT	 131
#define PG_ICMPV6_MLD_DONE	 132
#define PG_ICMPV6_ROUTER_SOLICIT 133
#define PG_ICMPV6_SOLICIT	 135
#define PG_ICMPV6_ADVERT	 136
#define PG_ICMPV6_MLD2_REPORT	 143

/* Not a redirect, which quotes what somebody else has sent, nor what only routers say. */
static __always_inline bool pg_is_nd_type(__u8 type)
{
	switch (type) {
	case PG_ICMPV6_MLD_REPORT:
	case PG_ICMPV6_MLD_DONE:
	case PG_ICMPV6_ROUTER_SOLICIT:
	case PG_ICMPV6_SOLICIT:
	case PG_ICMPV6_ADVERT:
	case PG_ICMPV6_MLD2_REPORT:
		return true;
	}
	return false;
}

/* A reply on a connection that the other end opened. */
static __always_inline bool pg_is_accepted(struct __sk_buff *skb, struct bpf_sock *sk,
					   const struct pg_header *header,
					   const struct pg_facts *facts,
					   const struct pg_packet *packet)
{
	const __u8 syn_ack = PG_TCP_SYN | PG_TCP_ACK;
	struct pg_mark *mark;

	if (sk->state == PG_TCP_LISTEN)
		return (packet->tcp_flags & syn_ack) == syn_ack && !packet->tcp_payload;
	if (pg_accepted_of(skb, header, facts))
		return true;
	mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
	return mark && mark->kind == PG_MARK_ACCEPTED && mark->remote_port == facts->remote_port &&
	       pg_addr_equal(&mark->remote, &facts->remote);
}

static __always_inline void pg_read_tcp_socket(struct __sk_buff *skb, struct bpf_sock *sk,
					       const struct pg_header *header,
					       struct pg_facts *facts,
					       const struct pg_packet *packet)
{
	if (facts->defect || facts->protocol != IPPROTO_TCP)
		return;
	if (pg_is_accepted(skb, sk, header, facts, packet))
		facts->bits |= PG_FACT_ACCEPTED;
	if (!(facts->bits & PG_FACT_SYN) && sk->state != PG_TCP_SYN_SENT &&
	    sk->state != PG_TCP_CLOSE)
		facts->bits |= PG_FACT_ESTABLISHED;
}

/* The kernel's own ICMPv6 sockets are raw, and no application made them. */
static __always_inline void pg_read_raw_socket(struct bpf_sock *sk, struct pg_facts *facts,
					       const struct pg_packet *packet)
{
	if (sk->family == PG_AF_INET6 && sk->protocol == PG_IPPROTO_ICMPV6 &&
	    facts->bits & PG_FACT_IPV6 && pg_is_nd_type(packet->icmp_type) &&
	    !bpf_sk_storage_get(&pg_marks, sk, NULL, 0))
		facts->bits |= PG_FACT_KERNEL_ND;
}

static __always_inline bool pg_is_marked(struct bpf_sock *sk, __u32 kind)
{
	struct pg_mark *mark = sk ? bpf_sk_storage_get(&pg_marks, sk, NULL, 0) : NULL;

	return mark && mark->kind == kind;
}

/* The namespace that a UDP or raw socket was made in; 0 if it has no mark. */
static __always_inline __u64 pg_socket_netns(struct bpf_sock *sk)
{
	struct pg_mark *mark;

	if (!sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 0;
	mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
	return mark ? mark->netns : 0;
}

/* Whether the packet goes to the other end that the socket has, or had last. */
static __always_inline bool pg_is_peer(struct bpf_sock *sk, const struct pg_facts *facts)
{
	/* All loads before the branch, see pg_note_accepted(). A socket for IPv6 has an IPv4 peer
	 * in its mapped form, as the facts have it. */
	__be32 dst4 = sk->dst_ip4;
	struct pg_addr dst;

	dst.word[0] = sk->dst_ip6[0];
	dst.word[1] = sk->dst_ip6[1];
	dst.word[2] = sk->dst_ip6[2];
	dst.word[3] = sk->dst_ip6[3];
	if (sk->dst_port != facts->remote_port)
		return false;
	if (sk->family == PG_AF_INET)
		pg_addr_set_v4(&dst, dst4);
	return pg_addr_equal(&dst, &facts->remote);
}

/*
 * Whether a UDP socket may answer what comes in. One without a mark was not found when its cgroup
 * was attached, so nobody knows in which namespace it has got what it seems to answer.
 */
static __always_inline bool pg_may_answer(const struct pg_header *header, struct bpf_sock *sk)
{
	if (!(header->flags & PG_HEADER_ATTACHED))
		return true;
	if (!sk)
		return false;
	sk = bpf_sk_fullsock(sk);
	return sk && bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
}

/* Whether the socket is connected to where the packet goes. */
static __always_inline bool pg_is_connected_to(struct bpf_sock *sk, const struct pg_facts *facts)
{
	return sk->state == PG_TCP_ESTABLISHED && pg_is_peer(sk, facts);
}

/*
 * Whether a sockaddr is that of the peer of a socket for IPv6 that is connected to an IPv4 address:
 * the kernel runs sendmsg4 for each send on such a one, as if it had been given.
 */
static __always_inline bool pg_is_mapped_peer(struct bpf_sock *sk, const struct pg_facts *facts)
{
	return sk->family == PG_AF_INET6 && pg_addr_is_v4(&facts->remote) &&
	       pg_is_connected_to(sk, facts);
}

/* Facts from the socket that sends the packet. */
static __always_inline void pg_read_socket(struct __sk_buff *skb, const struct pg_header *header,
					   struct pg_facts *facts, const struct pg_packet *packet)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return;
	if (facts->protocol == IPPROTO_UDP || sk->type == PG_SOCK_RAW)
		facts->netns = pg_socket_netns(sk);
	if (sk->type == PG_SOCK_STREAM && sk->protocol == IPPROTO_TCP)
		pg_read_tcp_socket(skb, sk, header, facts, packet);
	else if (sk->type == PG_SOCK_RAW)
		pg_read_raw_socket(sk, facts, packet);
	else if (facts->protocol == IPPROTO_UDP && sk->protocol == IPPROTO_UDP &&
		 pg_is_connected_to(sk, facts))
		facts->bits |= PG_FACT_ESTABLISHED;
}

/* Whether the SYN that is about to be dropped is that of a socket whose connect() has returned. */
static __always_inline bool pg_is_stranded(struct __sk_buff *skb, const struct pg_facts *facts)
{
	struct bpf_sock *sk = skb->sk;

	if (!(facts->bits & PG_FACT_SYN) || !sk)
		return false;
	sk = bpf_sk_fullsock(sk);
	return sk && sk->type == PG_SOCK_STREAM && sk->state == PG_TCP_SYN_SENT;
}

static __always_inline void pg_note_accepted(struct bpf_sock_ops *ctx,
					     const struct pg_header *header)
{
	const __u64 env_id = header->env_id;
	struct pg_link_table *table = bpf_map_lookup_elem(&pg_link_tables, &env_id);
	struct pg_mark mark = {.kind = PG_MARK_ACCEPTED};
	__be16 local_port = bpf_htons(ctx->local_port);
	__u32 next = ctx->snd_nxt;
	/* Of a socket that has connected, too, if the other end opens the same at once; it has sent
	 * a SYN. For one that a listener has made, the listener has answered. */
	const bool has_sent = ctx->segs_out;
	struct bpf_sock *sk = ctx->sk;
	/* Both forms are read before the branch: the verifier wants context loads at fixed offsets,
	 * and the compiler would merge the last load of the two branches. */
	__be32 remote4 = ctx->remote_ip4;

	mark.remote.word[0] = ctx->remote_ip6[0];
	mark.remote.word[1] = ctx->remote_ip6[1];
	mark.remote.word[2] = ctx->remote_ip6[2];
	mark.remote.word[3] = ctx->remote_ip6[3];
	if (!sk || has_sent)
		return;
	if (ctx->family == PG_AF_INET)
		pg_addr_set_v4(&mark.remote, remote4);
	/* remote_port is network order in the upper half of the 32 bits as the kernel has it. */
	mark.remote_port = bpf_htons(bpf_ntohl(ctx->remote_port));
	mark.confirmed = table && pg_link_confirms(table, header, &mark, local_port, next);
	/* What the guard does not know of is marked for as long as the socket lives: it may send a
	 * reset when it is closed already. */
	if ((mark.confirmed || !table) &&
	    pg_accepted_put(ctx, header->state | (mark.confirmed ? PG_ACCEPTED_CONFIRMED : 0),
			    &mark.remote, mark.remote_port))
		return;
	bpf_sk_storage_get(&pg_marks, sk, &mark, BPF_SK_STORAGE_GET_F_CREATE);
}

/* The connection's place becomes a mark of its socket. */
static __always_inline void pg_mark_place(struct bpf_sock *sk, struct pg_accepted *place,
					  __u64 cookie)
{
	struct pg_mark mark = {.kind = PG_MARK_ACCEPTED, .remote_port = place->remote_port};
	struct pg_mark *stored;

	mark.confirmed = place->owner & PG_ACCEPTED_CONFIRMED ? 1 : 0;
	mark.remote = place->remote;
	stored = bpf_sk_storage_get(&pg_marks, sk, &mark, BPF_SK_STORAGE_GET_F_CREATE);
	if (!stored)
		return;
	if (stored->kind != PG_MARK_ACCEPTED) { /* it had one already */
		stored->remote = mark.remote;
		stored->remote_port = mark.remote_port;
		stored->confirmed = mark.confirmed;
		stored->kind = mark.kind;
	}
	pg_accepted_free(place, cookie);
}

/* A socket is closed, and may be one with a place. */
static __always_inline void pg_end_accepted(struct bpf_sock_ops *ctx,
					    const struct pg_header *header)
{
	const __u64 cookie = bpf_get_socket_cookie(ctx), env_id = header->env_id;
	struct pg_accepted *place = pg_accepted_find(header->state, cookie);
	struct bpf_sock *sk = ctx->sk;

	/* Of a socket that is closed again the place may be another's by now. */
	if (!place || place->owner & PG_ACCEPTED_CLOSED)
		return;
	/* There was no guard when it was accepted; see pg_note_accepted(). */
	if (!(place->owner & PG_ACCEPTED_CONFIRMED) && sk &&
	    bpf_map_lookup_elem(&pg_link_tables, &env_id))
		pg_mark_place(sk, place, cookie);
	else
		pg_accepted_close(place, cookie);
}

static __always_inline void pg_mark_listener(struct bpf_sock_ops *ctx,
					     const struct pg_header *header)
{
	struct pg_mark mark = {.kind = PG_MARK_LISTENER, .owner = pg_mark_owner(header)};
	struct bpf_sock *sk = ctx->sk;
	struct pg_mark *stored;

	if (!sk)
		return;
	stored = bpf_sk_storage_get(&pg_marks, sk, &mark, BPF_SK_STORAGE_GET_F_CREATE);
	if (stored) { /* it may have been an accepted socket before */
		stored->owner = mark.owner;
		stored->kind = mark.kind;
	}
}
