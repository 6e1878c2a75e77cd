/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * DNS in the path: what is meant for a nameserver goes to Phasegate's listener in the same network
 * namespace (abi/dns.h). connect and sendmsg write the listener into the sockaddr, recvmsg and
 * getpeername show the nameserver again, and egress knows the listener by its socket. Where user
 * space does not listen yet, it is told, and the query waits; setsockopt takes care that the client
 * does not hear of that.
 */
#pragma once

#include "count.bpf.h"
#include "decide.bpf.h"
#include "facts.h"
#include "loopback.bpf.h"
#include "maps.bpf.h"
#include "view.bpf.h"

/* A DNS message is never shorter than its header. */
#define PG_DNS_HEADER_BYTES 12
#define PG_UDP_HEADER_BYTES 8

/* Macros in the kernel, so that its type information lacks them. */
#define PG_SOL_IP	0
#define PG_SOL_IPV6	41
#define PG_IP_RECVERR	11
#define PG_IPV6_RECVERR 25

static __always_inline bool pg_endpoint_is(const struct pg_endpoint *endpoint,
					   const struct pg_addr *addr, __be16 port)
{
	return endpoint->port && endpoint->port == port && pg_addr_equal(&endpoint->addr, addr);
}

static __always_inline bool pg_dns_is_listener(const struct pg_header *header,
					       const struct pg_addr *addr, __be16 port)
{
	return header->flags & PG_HEADER_DNS_LISTENER &&
	       (pg_endpoint_is(&header->listener[0], addr, port) ||
		pg_endpoint_is(&header->listener[1], addr, port));
}

/* Whether the phase in force redirects DNS. */
static __always_inline bool pg_dns_is_redirected(const struct pg_view *view)
{
	return view->header->flags & PG_HEADER_DNS_LISTENER && view->slot &&
	       view->slot->flags & PG_PHASE_DNS_REDIRECT;
}

/*
 * Whether the sockaddr is to become the listener's, or is that already: a socket for IPv6 that is
 * connected to an IPv4 peer runs sendmsg4 with it at every send. What looks like a reply to a flow
 * that somebody else opened from port 53 goes where it says.
 */
static __always_inline bool pg_dns_goes_to_listener(const struct pg_view *view,
						    const struct pg_facts *facts)
{
	if (!pg_dns_is_redirected(view) || facts->bits & PG_FACT_INBOUND)
		return false;
	if (facts->protocol != IPPROTO_UDP && facts->protocol != IPPROTO_TCP)
		return false;
	return pg_is_dns(facts) ||
	       pg_dns_is_listener(view->header, &facts->remote, facts->remote_port);
}

/* Whether user space listens in the socket's namespace. */
static __always_inline bool pg_dns_is_served(struct bpf_sock_addr *ctx,
					     const struct pg_header *header)
{
	const struct pg_endpoint *endpoint = &header->listener[0];
	struct pg_dns_listener *mark;
	struct bpf_sock *listener;
	bool served;

	listener = pg_lookup_bound(ctx, &endpoint->addr, endpoint->port, false);
	if (!listener)
		return false;
	mark = bpf_sk_storage_get(&pg_dns_listeners, listener, NULL, 0);
	served = mark && mark->env_id == header->env_id;
	bpf_sk_release(listener);
	return served;
}

/* Whether nobody listens in the namespace, and nobody ever did. Remembers who does. */
static __always_inline bool pg_dns_awaits_listener(struct bpf_sock_addr *ctx,
						   const struct pg_header *header, __u64 netns)
{
	const struct pg_dns_served_key key = {.env_id = header->env_id, .netns = netns};
	const bool known = bpf_map_lookup_elem(&pg_dns_served, &key);
	const __u8 present = 1;

	if (!pg_dns_is_served(ctx, header))
		return !known;
	if (!known)
		bpf_map_update_elem(&pg_dns_served, &key, &present, BPF_ANY);
	return false;
}

/*
 * A nameserver is asked by connect or sendmsg: keeps what the hooks that come later need. Two
 * threads that ask by one socket at once may mix up what is shown to them, and nothing else.
 */
static __always_inline void pg_dns_ask(struct bpf_sock_addr *ctx, const struct pg_view *view,
				       const struct pg_facts *facts, struct pg_counters *counters)
{
	const struct pg_header *header = view->header;
	const bool unserved = pg_dns_awaits_listener(ctx, header, facts->netns);
	struct pg_dns_socket first = {.netns = facts->netns};
	struct bpf_sock *sk = ctx->sk;
	struct pg_dns_socket *asked;

	if (unserved)
		pg_report(view, facts, PG_EVENT_UNSERVED, PG_REASON_LISTENER, counters);
	if (!sk)
		return;
	if (pg_dns_is_listener(header, &facts->remote, facts->remote_port)) {
		asked = bpf_sk_storage_get(&pg_dns_sockets, sk, NULL, 0);
		if (asked)
			asked->unserved = unserved;
		return;
	}
	asked = bpf_sk_storage_get(&pg_dns_sockets, sk, &first, BPF_SK_STORAGE_GET_F_CREATE);
	if (!asked)
		return;
	asked->server.addr = facts->remote;
	asked->server.port = facts->remote_port;
	asked->unserved = unserved;
}

/* What a recvmsg or getpeername hook shows instead of the address and port; NULL: nothing. */
static __always_inline const struct pg_dns_socket *
pg_dns_asked(struct bpf_sock_addr *ctx, const struct pg_header *header, const struct pg_addr *addr)
{
	__be16 port = ctx->user_port;
	struct bpf_sock *sk = ctx->sk;

	if (!sk || !pg_header_valid(header) || !pg_dns_is_listener(header, addr, port))
		return NULL;
	return bpf_sk_storage_get(&pg_dns_sockets, sk, NULL, 0);
}

static __always_inline void pg_dns_write4(struct bpf_sock_addr *ctx,
					  const struct pg_endpoint *endpoint)
{
	ctx->user_ip4 = endpoint->addr.word[3];
	ctx->user_port = endpoint->port;
}

/* An IPv4 endpoint in its mapped form. */
static __always_inline void pg_dns_write6(struct bpf_sock_addr *ctx,
					  const struct pg_endpoint *endpoint)
{
	ctx->user_ip6[0] = endpoint->addr.word[0];
	ctx->user_ip6[1] = endpoint->addr.word[1];
	ctx->user_ip6[2] = endpoint->addr.word[2];
	ctx->user_ip6[3] = endpoint->addr.word[3];
	ctx->user_port = endpoint->port;
}

/* The sending socket's storage, if it is one that a sockaddr is judged for. */
static __always_inline struct bpf_sock *pg_dns_sender(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return NULL;
	sk = bpf_sk_fullsock(sk);
	if (!sk || (sk->type != PG_SOCK_STREAM && sk->type != PG_SOCK_DGRAM))
		return NULL;
	return sk;
}

/*
 * Whether an answer goes to the member that asks: user space sends it from outside, where nothing
 * judges it, to whatever the source says. Of other addresses than these nobody knows whether they
 * are of the namespace that the packet is in. What a TCP listener sends finds just the socket whose
 * SYN came, as its source cannot be chosen send by send.
 */
static __always_inline bool pg_dns_may_be_answered(struct __sk_buff *skb,
						   const struct pg_header *header,
						   const struct pg_facts *facts)
{
	struct pg_facts answer = {
		.local = facts->remote,
		.remote = facts->local,
		.local_port = facts->remote_port,
		.remote_port = facts->local_port,
		.protocol = IPPROTO_UDP,
	};
	struct bpf_sock *receiver;
	bool own;

	if (!pg_addr_is_loopback(&facts->local))
		return false;
	if (facts->protocol != IPPROTO_UDP)
		return true;
	receiver = pg_lookup_receiver(skb, &answer, false);
	if (!receiver)
		return false;
	own = bpf_sk_ancestor_cgroup_id(receiver, header->level) == header->cgroup_id;
	bpf_sk_release(receiver);
	return own;
}

/* For a packet that the Environment's listener receives: whether it may, so that it is answered. */
static __always_inline bool pg_dns_reaches_listener(struct __sk_buff *skb,
						    const struct pg_header *header,
						    const struct pg_facts *facts)
{
	struct bpf_sock *sk = pg_dns_sender(skb);
	struct pg_dns_socket *asked;

	if (!sk || !pg_dns_may_be_answered(skb, header, facts))
		return false;
	/* From now on, if nobody listens, user space has died. */
	asked = bpf_sk_storage_get(&pg_dns_sockets, sk, NULL, 0);
	if (asked && asked->unserved)
		asked->unserved = 0;
	return true;
}

/* For a packet that nobody receives: whether it is for a listener that is still to be opened. */
static __always_inline bool
pg_dns_is_unserved(struct __sk_buff *skb, const struct pg_header *header, struct pg_facts *facts)
{
	struct pg_dns_socket *asked;
	struct bpf_sock *sk;

	if (!pg_dns_is_listener(header, &facts->remote, facts->remote_port))
		return false;
	if (facts->protocol != IPPROTO_UDP && !(facts->bits & PG_FACT_SYN))
		return false;
	sk = pg_dns_sender(skb);
	if (!sk || !pg_dns_may_be_answered(skb, header, facts))
		return false;
	asked = bpf_sk_storage_get(&pg_dns_sockets, sk, NULL, 0);
	if (!asked || !asked->unserved)
		return false;
	facts->netns = asked->netns;
	return true;
}

/* Hands the datagram to user space. */
static __always_inline void pg_dns_park(struct __sk_buff *skb, const struct pg_view *view,
					const struct pg_facts *facts, struct pg_counters *counters)
{
	const __u64 offset =
		PG_UDP_HEADER_BYTES +
		(facts->bits & PG_FACT_IPV6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	struct pg_event_parked *parked;
	__u64 size;

	parked = bpf_ringbuf_reserve(&pg_events, sizeof(*parked), 0);
	if (!parked)
		goto lost;
	pg_event_fill(&parked->event, view, facts, PG_EVENT_PARKED, PG_REASON_LISTENER);
	__builtin_memset(&parked->local, 0, sizeof(parked->local));
	parked->local.addr = facts->local;
	parked->local.port = facts->local_port;
	parked->reserved = 0;
	/* Right before their use, since Linux 5.10 forgets bounds of what is kept on the stack; and
	 * two tests, and not one of the difference. */
	size = skb->len - offset;
	barrier_var(size);
	if (size > PG_DNS_PARKED_MAX)
		goto discard;
	barrier_var(size);
	if (size < PG_DNS_HEADER_BYTES) {
		bpf_ringbuf_discard(parked, 0);
		return;
	}
	parked->size = size;
	if (bpf_skb_load_bytes(skb, offset, parked->data, size) < 0)
		goto discard;
	bpf_ringbuf_submit(parked, 0);
	return;
discard:
	bpf_ringbuf_discard(parked, 0);
lost:
	__sync_fetch_and_add(&counters->events_lost, 1);
}

/* Whether the call turns on that the socket hears of errors, as the kernel reads its value. */
static __always_inline bool pg_sets_recverr(struct bpf_sockopt *ctx, const struct bpf_sock *sk)
{
	const bool ipv4 = ctx->level == PG_SOL_IP && ctx->optname == PG_IP_RECVERR;
	const __u32 *value = ctx->optval;
	const __s32 size = ctx->optlen;

	if (!ipv4 && (ctx->level != PG_SOL_IPV6 || ctx->optname != PG_IPV6_RECVERR ||
		      sk->family != PG_AF_INET6))
		return false;
	if ((const void *)(value + 1) > ctx->optval_end)
		return false;
	if (size >= (__s32)sizeof(*value))
		return *value;
	return ipv4 && size > 0 && *(const __u8 *)value;
}

/*
 * Whether a socket must not hear of errors. With IP_RECVERR, which glibc's resolver sets, the send
 * of a query that waits for its listener would fail (ENOBUFS), and so would the lookup. The option
 * comes before the query, so that user space may as well open the listener now.
 */
static __always_inline bool pg_dns_ignores_recverr(struct bpf_sockopt *ctx,
						   const struct pg_view *view,
						   struct pg_counters *counters)
{
	struct pg_facts facts = {.protocol = IPPROTO_UDP};
	struct bpf_sock *sk = ctx->sk;
	struct pg_dns_served_key key;
	struct pg_mark *mark;

	if (!sk || !pg_sets_recverr(ctx, sk) || !view->valid || !pg_dns_is_redirected(view))
		return false;
	mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
	if (!mark || mark->kind != PG_MARK_DATAGRAM)
		return false;
	key = (struct pg_dns_served_key){.env_id = view->header->env_id, .netns = mark->netns};
	if (bpf_map_lookup_elem(&pg_dns_served, &key))
		return false;
	facts.netns = mark->netns;
	pg_report(view, &facts, PG_EVENT_UNSERVED, PG_REASON_LISTENER, counters);
	return true;
}
