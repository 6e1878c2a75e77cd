/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet that was let out, as it was judged (struct pg_sent): those like it need no other lookup
 * for a while. Several threads and CPUs may be at a record: it is written under a lock, and its
 * version is odd meanwhile.
 *
 * Here are records of a socket's own packets, by its cookie and their tuple: of a UDP socket, and
 * of a connection that the socket has accepted. Those of two addresses are in recent.bpf.h.
 *
 * Functions that take a packet are global ones, which the verifier looks at once and not for each
 * way that leads to them. They take numbers only (before Linux 5.12), so they read the headers by
 * themselves, and no others than those of a plain packet.
 */
#pragma once

#include "addr.bpf.h"
#include "facts.h"
#include "lasting.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "view.bpf.h"

/* There is no record of the packet that is asked for. */
#define PG_SENT_UNKNOWN (-1)

/* Parameter "where": the ifindex of the host end, at the guard of a veth; 0: the hook of a cgroup.
 */
#define PG_SENT_LINK	0xffffffffULL
#define PG_SENT_IN	(1ULL << 32) /* the packet comes in */
#define PG_SENT_TCP	(1ULL << 33) /* of TCP; otherwise of UDP */
/* From these bits on, of what is to be remembered: enum pg_reason, and the slot of the phase's
 * learned addresses; of what is looked for, the state. */
#define PG_SENT_REASON	40
#define PG_SENT_LEARNED 48
#define PG_SENT_STATE	48

/* What a record is of besides the addresses. */
struct pg_sent_key {
	__u64 socket; /* these as in struct pg_sent */
	__u64 env_id;
	__u64 epoch;
	__u64 generation;
	__be16 local_port, remote_port;
	__u32 link; /* not 0: only if the guard of that veth has let it out too */
};

/*
 * Readers take no lock where loads, and stores, become visible in the order of the program (x86:
 * Intel SDM volume 3A, 8.2.2): a record is whole if its version is even, and the same afterwards.
 * Elsewhere they take the lock.
 */
static __always_inline __u32 pg_sent_read_begin(const struct pg_sent *sent,
						struct bpf_spin_lock *lock)
{
	__u32 version;

#ifndef __TARGET_ARCH_x86
	bpf_spin_lock(lock);
#endif
	version = *(volatile const __u32 *)&sent->version;
	barrier();
	return version;
}

/* Not 0 if the record may not have been whole since the version was read. */
static __always_inline __u32 pg_sent_read_end(const struct pg_sent *sent,
					      struct bpf_spin_lock *lock, __u32 version)
{
	barrier();
	version = (version & 1) | (version ^ *(volatile const __u32 *)&sent->version);
#ifndef __TARGET_ARCH_x86
	bpf_spin_unlock(lock);
#endif
	return version;
}

static __always_inline __u64 pg_sent_rest_difference(const __be32 *rest, const struct pg_addr *addr)
{
	return (rest[0] ^ addr->word[0]) | (rest[1] ^ addr->word[1]) | (rest[2] ^ addr->word[2]);
}

/* 0 if the record is of the key and the remote address. */
static __always_inline __u64 pg_sent_remote_difference(const struct pg_sent *sent,
						       const struct pg_sent_key *key,
						       const struct pg_facts *facts)
{
	const bool ipv6 = !pg_addr_is_v4(&facts->remote);
	__u64 difference = sent->remote ^ facts->remote.word[3];

	difference |= sent->remote_port ^ key->remote_port;
	difference |= sent->local_port ^ key->local_port;
	difference |= sent->generation ^ (__u32)key->generation;
	difference |= sent->epoch ^ key->epoch;
	difference |= sent->env_id ^ key->env_id;
	difference |= sent->socket ^ key->socket;
	difference |= (sent->flags & PG_SENT_IPV6) ^ (ipv6 ? PG_SENT_IPV6 : 0);
	if (ipv6)
		difference |= pg_sent_rest_difference(sent->remote_rest, &facts->remote);
	return difference;
}

static __always_inline __u64 pg_sent_local_difference(const struct pg_sent *sent,
						      const struct pg_facts *facts)
{
	__u64 difference = sent->local ^ facts->local.word[3];

	if (!pg_addr_is_v4(&facts->remote))
		difference |= pg_sent_rest_difference(sent->local_rest, &facts->local);
	return difference;
}

/* The record's reason, if it is of the key and the addresses and not over. any_local: but for the
 * local address. */
static __always_inline int pg_sent_read(const struct pg_sent *sent, struct bpf_spin_lock *lock,
					const struct pg_sent_key *key, const struct pg_facts *facts,
					bool any_local)
{
	const __u64 now = bpf_jiffies64();
	__u64 difference;
	__u32 version;
	int reason;

	version = pg_sent_read_begin(sent, lock);
	difference = pg_sent_remote_difference(sent, key, facts);
	difference |= any_local ? 0 : pg_sent_local_difference(sent, facts);
	difference |= key->link ? sent->link ^ key->link : 0;
	difference |= now >= sent->until;
	reason = sent->reason;
	difference |= pg_sent_read_end(sent, lock, version);
	return difference ? PG_SENT_UNKNOWN : reason;
}

/* Under the lock. */
static __always_inline void pg_sent_write(struct pg_sent *sent, const struct pg_sent_key *key,
					  const struct pg_facts *facts, enum pg_reason reason,
					  __u64 now)
{
	sent->version |= 1;
	barrier();
	sent->socket = key->socket;
	sent->env_id = key->env_id;
	sent->epoch = key->epoch;
	sent->until = now + PG_LASTS_JIFFIES;
	sent->local = facts->local.word[3];
	sent->remote = facts->remote.word[3];
	sent->local_port = key->local_port;
	sent->remote_port = key->remote_port;
	sent->generation = (__u32)key->generation;
	sent->link = 0;
	sent->reason = reason;
	sent->flags = pg_addr_is_v4(&facts->remote) ? 0 : PG_SENT_IPV6;
	__builtin_memcpy(sent->local_rest, facts->local.word, sizeof(sent->local_rest));
	__builtin_memcpy(sent->remote_rest, facts->remote.word, sizeof(sent->remote_rest));
	barrier();
	sent->version++;
}

static __always_inline struct pg_sent_place *pg_sent_place(const struct pg_sent_key *key,
							   const struct pg_addr *remote)
{
	__u32 index = pg_sent_index(key->env_id, key->socket, remote, key->remote_port);

	return bpf_map_lookup_elem(&pg_sent_places, &index);
}

/* pg_sent_read() of the place that it has. */
static __always_inline int pg_sent_find(const struct pg_sent_key *key, const struct pg_facts *facts,
					bool any_local)
{
	struct pg_sent_place *place = pg_sent_place(key, &facts->remote);

	return place ? pg_sent_read(&place->sent, &place->lock, key, facts, any_local)
		     : PG_SENT_UNKNOWN;
}

/* Whether the place may be taken: what is there is over, or of an earlier phase. */
static __always_inline bool pg_sent_may_take(const struct pg_sent *sent,
					     const struct pg_sent_key *key, __u64 now)
{
	return now >= sent->until ||
	       (sent->env_id == key->env_id &&
		(sent->generation != (__u32)key->generation || sent->epoch != key->epoch));
}

static __always_inline void pg_sent_put(const struct pg_sent_key *key, const struct pg_facts *facts,
					enum pg_reason reason)
{
	struct pg_sent_place *place = pg_sent_place(key, &facts->remote);
	const __u64 now = bpf_jiffies64();

	if (!place)
		return;
	bpf_spin_lock(&place->lock);
	if (pg_sent_may_take(&place->sent, key, now))
		pg_sent_write(&place->sent, key, facts, reason, now);
	bpf_spin_unlock(&place->lock);
}

/* An IPv6 header with an IPv4 address has no record: it is judged by its form. */
static __always_inline bool pg_sent_is_plain(const struct pg_facts *facts)
{
	return !(facts->bits & PG_FACT_IPV6) ||
	       (!pg_addr_is_v4(&facts->remote) && !pg_addr_is_v4(&facts->local));
}

/* Fills addresses, ports and the first count words of the transport header of a plain packet. */
static __always_inline bool pg_sent_read_packet(struct __sk_buff *skb, __u64 where,
						struct pg_facts *facts, pg_word *transport,
						__u32 count)
{
	const __u8 protocol = where & PG_SENT_TCP ? IPPROTO_TCP : IPPROTO_UDP;
	const bool in = where & PG_SENT_IN;

	if (!(where & PG_SENT_LINK)) {
		if (!pg_read_plain(skb, 0, in, protocol, facts, transport, count))
			return false;
	} else if (skb->vlan_present ||
		   !pg_read_plain(skb, PG_LINK_NETWORK, in, protocol, facts, transport, count)) {
		return false;
	}
	return pg_sent_is_plain(facts);
}

/* The same, and what it has in the key, of a packet of its socket's own. What asks for a connection
 * is none: a process inside can make that of any segment, behind its socket; nor is its answer. */
static __always_inline bool pg_sent_read_own(struct __sk_buff *skb, __u64 where,
					     struct pg_sent_key *key, struct pg_facts *facts)
{
	pg_word transport[4] = {};

	if (where & PG_SENT_TCP) {
		if (!pg_sent_read_packet(skb, where, facts, transport, 4) ||
		    bpf_ntohl(transport[3]) >> 16 & PG_TCP_SYN)
			return false;
	} else if (!pg_sent_read_packet(skb, where, facts, transport, 1)) {
		return false;
	}
	key->socket = bpf_get_socket_cookie(skb);
	key->local_port = facts->local_port;
	key->remote_port = facts->remote_port;
	return key->socket;
}

/* See pg_sent_find_own(). */
static __always_inline int pg_sent_find_by(struct __sk_buff *skb, struct pg_sent_key *key,
					   __u64 where)
{
	struct pg_facts facts = {};

	if (!pg_sent_read_own(skb, where, key, &facts))
		return PG_SENT_UNKNOWN;
	key->link = where;
	return pg_sent_find(key, &facts, false);
}

/*
 * The reason for which a packet of the same socket and tuple was let out a while ago, in this
 * generation and epoch, or PG_SENT_UNKNOWN. Of one that comes in the tuple is that of its answer.
 */
__noinline int pg_sent_find_own(struct __sk_buff *skb, __u64 env_id, __u64 epoch, __u64 generation,
				__u64 where)
{
	struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};

	return pg_sent_find_by(skb, &key, where);
}

static __always_inline __u64 pg_sent_where(const struct pg_view *view, __u8 protocol,
					   enum pg_reason reason, __u32 link)
{
	const __u64 learned = view->slot ? view->slot->learned : 0;

	return learned << PG_SENT_LEARNED | (__u64)reason << PG_SENT_REASON |
	       (protocol == IPPROTO_TCP ? PG_SENT_TCP : 0) | link;
}

static __always_inline bool pg_sent_lasts(__u64 where, const struct pg_facts *facts)
{
	return pg_lasts(where >> PG_SENT_REASON & 0xff, where >> PG_SENT_LEARNED, &facts->remote);
}

/* The hook of the cgroup has let the packet out for the reason. */
__noinline int pg_sent_remember(struct __sk_buff *skb, __u64 env_id, __u64 epoch, __u64 generation,
				__u64 where)
{
	struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	struct pg_facts facts = {};

	if (pg_sent_read_own(skb, where, &key, &facts) && pg_sent_lasts(where, &facts))
		pg_sent_put(&key, &facts, where >> PG_SENT_REASON & 0xff);
	return 0;
}

/* The guard of a veth has let out what the hook had, too. */
__noinline int pg_sent_confirm(struct __sk_buff *skb, __u64 env_id, __u64 epoch, __u64 generation,
			       __u64 where)
{
	struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	struct pg_facts facts = {};
	struct pg_sent_place *place;
	struct pg_sent *sent;

	if (!pg_sent_read_own(skb, where, &key, &facts) || !pg_sent_lasts(where, &facts))
		return 0;
	place = pg_sent_place(&key, &facts.remote);
	if (!place)
		return 0;
	sent = &place->sent;
	bpf_spin_lock(&place->lock);
	if (!(pg_sent_remote_difference(sent, &key, &facts) |
	      pg_sent_local_difference(sent, &facts)))
		sent->link = where;
	bpf_spin_unlock(&place->lock);
	return 0;
}
