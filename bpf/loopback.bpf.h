/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Loopback is within the Environment only if the receiving socket is: known by the output device
 * and the socket, not by the address alone. Environments may share a namespace, and with it
 * 127.0.0.1.
 */
#pragma once

#include "addr.bpf.h"
#include "facts.h"
#include "maps.bpf.h"

/* lo has index 1 in every network namespace and cannot be deleted. */
#define PG_IFINDEX_LOOPBACK 1

#define PG_SOCK_STREAM 1
#define PG_SOCK_DGRAM  2
#define PG_AF_INET     2
#define PG_AF_INET6    10

#define PG_EINVAL 22

static __always_inline void pg_tuple_fill(struct bpf_sock_tuple *tuple,
					  const struct pg_facts *facts, bool any_source_port)
{
	__be16 source = any_source_port ? 0 : facts->local_port;

	if (pg_addr_is_v4(&facts->remote)) {
		tuple->ipv4.saddr = facts->local.word[3];
		tuple->ipv4.daddr = facts->remote.word[3];
		tuple->ipv4.sport = source;
		tuple->ipv4.dport = facts->remote_port;
	} else {
		__builtin_memcpy(tuple->ipv6.saddr, &facts->local, sizeof(tuple->ipv6.saddr));
		__builtin_memcpy(tuple->ipv6.daddr, &facts->remote, sizeof(tuple->ipv6.daddr));
		tuple->ipv6.sport = source;
		tuple->ipv6.dport = facts->remote_port;
	}
}

static __always_inline struct bpf_sock *
pg_lookup_receiver(struct __sk_buff *skb, const struct pg_facts *facts, bool any_source_port)
{
	struct bpf_sock_tuple tuple = {};
	__u32 size = pg_addr_is_v4(&facts->remote) ? sizeof(tuple.ipv4) : sizeof(tuple.ipv6);

	pg_tuple_fill(&tuple, facts, any_source_port);
	if (facts->protocol == IPPROTO_TCP) {
		if (size == sizeof(tuple.ipv4))
			return bpf_sk_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4),
						 BPF_F_CURRENT_NETNS, 0);
		return bpf_sk_lookup_tcp(skb, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	}
	if (size == sizeof(tuple.ipv4))
		return bpf_sk_lookup_udp(skb, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	return bpf_sk_lookup_udp(skb, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
}

enum pg_receiver {
	PG_RECEIVER_NONE,
	PG_RECEIVER_OWN, /* a socket of the Environment */
	PG_RECEIVER_LISTENER,
	PG_RECEIVER_HIDDEN, /* a socket of Phasegate's that is not for this Environment */
	PG_RECEIVER_OTHER,  /* somebody else's, or not known */
};

/* Whether the receiver is another member's of the Environment. */
static __always_inline bool pg_is_members(struct bpf_sock *receiver, const struct pg_header *header)
{
	for (__u32 level = 1; level <= PG_MEMBER_LEVEL_MAX; level++) {
		__u64 id = bpf_sk_ancestor_cgroup_id(receiver, level);
		const struct pg_member *member;

		if (!id)
			return false;
		member = bpf_map_lookup_elem(&pg_members, &id);
		if (member)
			return member->env_id == header->env_id;
	}
	return false;
}

/* Whether the destination is an address of a member in another network namespace. */
static __always_inline bool pg_is_member_address(const struct pg_header *header,
						 const struct pg_addr *addr)
{
	struct pg_member_address key = {.env_id = header->env_id, .addr = *addr};

	return header->flags & PG_HEADER_MEMBER_ADDRESSES &&
	       bpf_map_lookup_elem(&pg_member_addresses, &key);
}

/* Whether the receiver is the member's own, or that of one of those that it is together with. */
static __always_inline bool pg_is_within(struct bpf_sock *receiver, const struct pg_header *header)
{
	return bpf_sk_ancestor_cgroup_id(receiver, header->level) == header->cgroup_id ||
	       (header->flags & PG_HEADER_MEMBERS && pg_is_members(receiver, header));
}

static __always_inline enum pg_receiver pg_receiver_of(struct bpf_sock *receiver,
						       const struct pg_header *header)
{
	const __u32 mark = receiver->mark;
	struct pg_dns_listener *listener;

	if (pg_is_within(receiver, header))
		return PG_RECEIVER_OWN;
	listener = bpf_sk_storage_get(&pg_dns_listeners, receiver, NULL, 0);
	if (listener && listener->env_id == header->env_id)
		return PG_RECEIVER_LISTENER;
	return listener || mark == PG_HIDDEN_MARK ? PG_RECEIVER_HIDDEN : PG_RECEIVER_OTHER;
}

/* For a packet on its way to lo. */
static __always_inline enum pg_receiver pg_find_receiver(struct __sk_buff *skb,
							 const struct pg_header *header,
							 const struct pg_facts *facts)
{
	struct bpf_sock *receiver;
	enum pg_receiver found;

	if (pg_addr_is_multicast(&facts->remote))
		return PG_RECEIVER_OTHER; /* any number of sockets may receive it */
	/* Of ICMP and all else the receivers cannot be looked up: any raw socket gets a copy. */
	if (facts->protocol != IPPROTO_TCP && facts->protocol != IPPROTO_UDP)
		return PG_RECEIVER_OTHER;
	receiver = pg_lookup_receiver(skb, facts, false);
	/* A SYN may revive a tuple in TIME_WAIT, which is no receiver; the listener gets it. */
	if (!receiver && facts->bits & PG_FACT_SYN)
		receiver = pg_lookup_receiver(skb, facts, true);
	if (!receiver)
		return PG_RECEIVER_NONE;
	found = pg_receiver_of(receiver, header);
	bpf_sk_release(receiver);
	return found;
}

/* Whether an own address is of the namespace, as far as either is known. */
static __always_inline bool pg_is_own_in(const pg_own_value *own, __u64 netns)
{
	const __u64 cookie = *own & ~PG_OWN_HOST;

	return !cookie || !netns || cookie == netns;
}

/* Whether a sockaddr's address can only be reached through lo: an own one of the namespace that the
 * socket is in. That of another is elsewhere. */
static __always_inline bool pg_is_local_destination(const struct pg_header *header,
						    const struct pg_facts *facts)
{
	const struct pg_addr *addr = &facts->remote;
	struct pg_own_key key = {.env_id = header->env_id, .addr = *addr};
	pg_own_value *own;

	if (pg_addr_is_loopback(addr) || pg_addr_is_unspecified(addr))
		return true;
	own = bpf_map_lookup_elem(&pg_own, &key);
	return own && pg_is_own_in(own, facts->netns);
}

/*
 * Whether connect()'s destination is an address of the socket's own network namespace, also one
 * that user space has not told pg_own of yet: the kernel binds a source to no other. The source it
 * leaves behind is the one that routing to an own address chooses anyway. What this lets through
 * by a socket option (IP_FREEBIND) does not leave: packets are judged by their device.
 */
static __always_inline bool pg_binds_to_destination(struct bpf_sock_addr *ctx,
						    const struct pg_facts *facts)
{
	/* Set field by field: a constant would go to .rodata, which Linux 5.10 refuses without a
	 * named variable in it. */
	struct sockaddr_in in4 = {};
	struct sockaddr_in6 in6 = {};
	long error;

	if (ctx->family == PG_AF_INET) {
		in4.sin_family = PG_AF_INET;
		in4.sin_addr.s_addr = facts->remote.word[3];
		error = bpf_bind(ctx, (struct sockaddr *)&in4, sizeof(in4));
		/* IPv4 looks at the address first, and only then whether the socket has one. */
		return !error || error == -PG_EINVAL;
	}
	in6.sin6_family = PG_AF_INET6;
	__builtin_memcpy(&in6.sin6_addr, &facts->remote, sizeof(in6.sin6_addr));
	return !bpf_bind(ctx, (struct sockaddr *)&in6, sizeof(in6));
}

/*
 * The socket of the namespace, listening or unconnected, that would receive at the address and port
 * of a sockaddr. The caller releases it.
 */
static __always_inline struct bpf_sock *
pg_lookup_bound(struct bpf_sock_addr *ctx, const struct pg_addr *addr, __be16 port, bool tcp)
{
	struct bpf_sock_tuple tuple = {};

	if (pg_addr_is_v4(addr)) {
		__be32 addr4 = addr->word[3] ?: bpf_htonl(0x7f000001);

		tuple.ipv4.saddr = addr4;
		tuple.ipv4.daddr = addr4;
		tuple.ipv4.dport = port;
		if (tcp)
			return bpf_sk_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv4),
						 BPF_F_CURRENT_NETNS, 0);
		return bpf_sk_lookup_udp(ctx, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	}
	__builtin_memcpy(tuple.ipv6.daddr, addr, sizeof(tuple.ipv6.daddr));
	if (pg_addr_is_unspecified(addr))
		tuple.ipv6.daddr[3] = bpf_htonl(1);
	__builtin_memcpy(tuple.ipv6.saddr, tuple.ipv6.daddr, sizeof(tuple.ipv6.saddr));
	tuple.ipv6.dport = port;
	if (tcp)
		return bpf_sk_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	return bpf_sk_lookup_udp(ctx, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
}

/* Whose a socket's mark says that it is: of members that are apart, each one's. */
static __always_inline __u64 pg_mark_owner(const struct pg_header *header)
{
	return header->flags & PG_HEADER_MEMBERS ? header->env_id : header->cgroup_id;
}

static __always_inline bool pg_has_mark(struct bpf_sock *sk, enum pg_mark_kind kind,
					const struct pg_header *header)
{
	struct pg_mark *mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);

	return mark && mark->kind == kind && mark->owner == pg_mark_owner(header);
}

/*
 * For sendmsg(), where nothing can be bound: whether some UDP socket of the namespace would take
 * the datagram if the address were its own. If it is not, the packet's check says EPERM as well.
 */
static __always_inline bool pg_has_udp_receiver(struct bpf_sock_addr *ctx,
						const struct pg_facts *facts)
{
	struct bpf_sock *receiver;

	if (facts->protocol != IPPROTO_UDP)
		return false;
	receiver = pg_lookup_bound(ctx, &facts->remote, facts->remote_port, false);
	if (!receiver)
		return false;
	bpf_sk_release(receiver);
	return true;
}

/*
 * For connect and sendmsg to a local destination. Only a listener tells whose it is here (by its
 * mark, unless it is older than the hooks); the packet's own check is the authority for all else.
 */
static __always_inline bool pg_listener_is_own(struct bpf_sock_addr *ctx,
					       const struct pg_header *header,
					       const struct pg_facts *facts)
{
	struct bpf_sock *listener;
	bool own;

	if (ctx->type != PG_SOCK_STREAM)
		return true;
	listener = pg_lookup_bound(ctx, &facts->remote, facts->remote_port, true);
	if (!listener)
		return true;
	own = pg_has_mark(listener, PG_MARK_LISTENER, header) ||
	      (header->flags & PG_HEADER_ATTACHED &&
	       !bpf_sk_storage_get(&pg_marks, listener, NULL, 0));
	bpf_sk_release(listener);
	return own;
}

/* For bind: whether a UDP socket that would receive at the address already is the Environment's. */
static __always_inline bool pg_udp_holder_is_own(struct bpf_sock_addr *ctx,
						 const struct pg_header *header,
						 const struct pg_facts *facts)
{
	struct bpf_sock *holder = pg_lookup_bound(ctx, &facts->remote, facts->remote_port, false);
	bool own;

	if (!holder)
		return true;
	own = pg_has_mark(holder, PG_MARK_DATAGRAM, header);
	bpf_sk_release(holder);
	return own;
}
