/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet that was let out, as it was judged (struct pg_sent): the next one of its socket and
 * tuple needs no other lookup for a while. Here is the record, and that of the last segment of a
 * connection which a socket has accepted, in the socket's mark; those of datagrams are in
 * datagram.bpf.h. Several threads and CPUs may be at a record: it is written under a lock, and its
 * version is odd meanwhile.
 *
 * The functions that take a packet are global ones, which the verifier looks at once and not for
 * each way that leads to them. They take numbers only (before Linux 5.12), so they read the headers
 * by themselves, and no others than those of a plain packet.
 */
#pragma once

#include "accepted.bpf.h"
#include "facts.h"
#include "lasting.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "recent.bpf.h"
#include "view.bpf.h"

/* There is no record of the packet that is asked for. */
#define PG_SENT_UNKNOWN PG_RECENT_UNKNOWN

/* Parameter "where": the ifindex of the host end, at the guard of a veth; 0: the hook of a cgroup.
 */
#define PG_SENT_LINK	0xffffffffULL
#define PG_SENT_IN	(1ULL << 32) /* the packet comes in */
/* From these bits on, of what is to be remembered: enum pg_reason, and the slot of the phase's
 * learned addresses; of what is looked for, the state. */
#define PG_SENT_REASON	40
#define PG_SENT_LEARNED 48
#define PG_SENT_STATE	48

/* By whom, and by which policy. */
struct pg_sent_key {
	__u64 socket; /* as in struct pg_sent */
	__u64 env_id;
	__u64 epoch;
	__u64 generation;
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

/* 0 if the tuple is the record's, but for the local address. */
static __always_inline __u64 pg_sent_remote_difference(const struct pg_sent *sent,
						       const struct pg_sent_key *key,
						       const struct pg_facts *facts)
{
	const bool ipv6 = !pg_addr_is_v4(&facts->remote);
	__u64 difference = sent->remote ^ facts->remote.word[3];

	difference |= sent->remote_port ^ facts->remote_port;
	difference |= sent->local_port ^ facts->local_port;
	difference |= sent->generation ^ (__u32)key->generation;
	difference |= sent->epoch ^ key->epoch;
	difference |= sent->env_id ^ key->env_id;
	difference |= sent->socket ^ key->socket;
	difference |= sent->ipv6 ^ ipv6;
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

/* The record's reason, if it is of the tuple and not over. any_local: but for the local address.
 * link: of those that the guard of that veth has let out too; 0: of all. */
static __always_inline int pg_sent_read(const struct pg_sent *sent, struct bpf_spin_lock *lock,
					const struct pg_sent_key *key, const struct pg_facts *facts,
					bool any_local, __u32 link)
{
	const __u64 now = bpf_jiffies64();
	__u64 difference;
	__u32 version;
	int reason;

	version = pg_sent_read_begin(sent, lock);
	difference = pg_sent_remote_difference(sent, key, facts);
	difference |= any_local ? 0 : pg_sent_local_difference(sent, facts);
	difference |= link ? sent->link ^ link : 0;
	difference |= now >= sent->until;
	reason = sent->reason;
	difference |= pg_sent_read_end(sent, lock, version);
	return difference ? PG_SENT_UNKNOWN : reason;
}

/* Under the lock. */
static __always_inline void pg_sent_write(struct pg_sent *sent, const struct pg_sent_key *key,
					  const struct pg_facts *facts, __u32 reason, __u64 until)
{
	sent->version++;
	barrier();
	sent->socket = key->socket;
	sent->env_id = key->env_id;
	sent->epoch = key->epoch;
	sent->until = until;
	sent->local = facts->local.word[3];
	sent->remote = facts->remote.word[3];
	sent->local_port = facts->local_port;
	sent->remote_port = facts->remote_port;
	sent->generation = (__u32)key->generation;
	sent->link = 0;
	sent->reason = reason;
	sent->ipv6 = !pg_addr_is_v4(&facts->remote);
	__builtin_memcpy(sent->local_rest, facts->local.word, sizeof(sent->local_rest));
	__builtin_memcpy(sent->remote_rest, facts->remote.word, sizeof(sent->remote_rest));
	barrier();
	sent->version++;
}

/* Under the lock: the guard of the veth has let it out, too. */
static __always_inline void pg_sent_confirm(struct pg_sent *sent, const struct pg_sent_key *key,
					    const struct pg_facts *facts, __u32 link)
{
	if (!(pg_sent_remote_difference(sent, key, facts) | pg_sent_local_difference(sent, facts)))
		sent->link = link;
}

/* Fills addresses, ports and the first count words of the transport header of a plain packet. An
 * IPv6 header with an IPv4 address has no record: it is judged by its form. */
static __always_inline bool pg_sent_read_packet(struct __sk_buff *skb, __u64 where, __u8 protocol,
						struct pg_facts *facts, pg_word *transport,
						__u32 count)
{
	const bool in = where & PG_SENT_IN;

	if (!(where & PG_SENT_LINK)) {
		if (!pg_read_plain(skb, 0, in, protocol, facts, transport, count))
			return false;
	} else if (skb->vlan_present ||
		   !pg_read_plain(skb, PG_LINK_NETWORK, in, protocol, facts, transport, count)) {
		return false;
	}
	return !(facts->bits & PG_FACT_IPV6) ||
	       (!pg_addr_is_v4(&facts->remote) && !pg_addr_is_v4(&facts->local));
}

/* By the record in the mark of a connection. What asks for one is recorded at the guard: a process
 * inside can make that of any segment, behind its socket. */
static __always_inline int pg_sent_find_in(struct pg_mark *mark, struct __sk_buff *skb,
					   const struct pg_sent_key *key, __u64 where)
{
	struct pg_facts facts = {};
	pg_word tcp[4];

	if (mark->kind != PG_MARK_ACCEPTED ||
	    !pg_sent_read_packet(skb, where, IPPROTO_TCP, &facts, tcp, 4) ||
	    (bpf_ntohl(tcp[3]) >> 16 & (PG_TCP_SYN | PG_TCP_ACK)) == PG_TCP_SYN)
		return PG_SENT_UNKNOWN;
	return pg_sent_read(&mark->sent, &mark->lock, key, &facts, false, where & PG_SENT_LINK);
}

/* By what was decided of the addresses: what a socket without a mark or a place among accepted
 * connections sends is no reply. */
static __always_inline int pg_sent_find_recent(struct __sk_buff *skb, const struct pg_sent_key *key,
					       __u64 where)
{
	struct pg_recent_key recent = {.place = key->env_id,
				       .epoch = key->epoch,
				       .generation = key->generation};

	if (pg_may_be_accepted(where >> PG_SENT_STATE) &&
	    pg_accepted_find(where >> PG_SENT_STATE, bpf_get_socket_cookie(skb)))
		return PG_SENT_UNKNOWN;
	recent.now = bpf_jiffies64();
	if (!(where & PG_SENT_LINK))
		return pg_recent_find(skb, 0, &recent);
	recent.place |= PG_RECENT_LINK;
	return pg_recent_find(skb, PG_LINK_NETWORK, &recent);
}

/*
 * The reason for which a segment of the same tuple, or of the same addresses, was let out a while
 * ago, in this generation and epoch, or PG_SENT_UNKNOWN.
 */
__noinline int pg_sent_find(struct __sk_buff *skb, __u64 env_id, __u64 epoch, __u64 generation,
			    __u64 where)
{
	const struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	struct bpf_sock *sk = skb->sk;
	struct pg_mark *mark;

	if (!sk)
		return PG_SENT_UNKNOWN;
	mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
	return mark ? pg_sent_find_in(mark, skb, &key, where)
		    : pg_sent_find_recent(skb, &key, where);
}

static __always_inline __u64 pg_sent_where(const struct pg_view *view, enum pg_reason reason,
					   __u32 link)
{
	const __u64 learned = view->slot ? view->slot->learned : 0;

	return learned << PG_SENT_LEARNED | (__u64)reason << PG_SENT_REASON | link;
}

/* Whether it is to be remembered for the reason, which is in "where". */
static __always_inline bool pg_sent_lasts(__u64 where, const struct pg_facts *facts)
{
	return pg_lasts(where >> PG_SENT_REASON & 0xff, where >> PG_SENT_LEARNED, &facts->remote);
}

/* The hook of the cgroup has let a segment of an accepted connection out for the reason; or the
 * guard of the veth has, too. */
__noinline int pg_sent_remember(struct __sk_buff *skb, __u64 env_id, __u64 epoch, __u64 generation,
				__u64 where)
{
	const struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	struct bpf_sock *sk = skb->sk;
	struct pg_facts facts = {};
	struct pg_mark *mark;
	pg_word ports;
	__u64 until;

	mark = sk ? bpf_sk_storage_get(&pg_marks, sk, NULL, 0) : NULL;
	if (!mark || mark->kind != PG_MARK_ACCEPTED ||
	    !pg_sent_read_packet(skb, where, IPPROTO_TCP, &facts, &ports, 1) ||
	    !pg_sent_lasts(where, &facts))
		return 0;
	until = bpf_jiffies64() + PG_LASTS_JIFFIES;
	bpf_spin_lock(&mark->lock);
	if (where & PG_SENT_LINK)
		pg_sent_confirm(&mark->sent, &key, &facts, where);
	else
		pg_sent_write(&mark->sent, &key, &facts, where >> PG_SENT_REASON & 0xff, until);
	bpf_spin_unlock(&mark->lock);
	return 0;
}
