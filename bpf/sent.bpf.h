/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The last packet that a socket of UDP, or of a connection that it accepted, sent, as it was judged
 * (struct pg_sent): the next one of the same tuple needs no other lookup for a while. Threads may
 * share the socket: a record is written under the mark's lock, and its version is odd meanwhile.
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

static __always_inline bool pg_sent_has_record(const struct pg_mark *mark)
{
	return mark->kind == PG_MARK_DATAGRAM || mark->kind == PG_MARK_ACCEPTED;
}

/* The mark of a socket that has a record in it, or NULL. */
static __always_inline struct pg_mark *pg_sent_mark(struct bpf_sock *sk)
{
	struct pg_mark *mark = sk ? bpf_sk_storage_get(&pg_marks, sk, NULL, 0) : NULL;

	return mark && pg_sent_has_record(mark) ? mark : NULL;
}

static __always_inline __u8 pg_sent_protocol(const struct pg_mark *mark)
{
	return mark->kind == PG_MARK_DATAGRAM ? IPPROTO_UDP : IPPROTO_TCP;
}

static __always_inline __u32 pg_sent_ends(const struct pg_facts *facts)
{
	return facts->remote.word[3] ^ ((__u32)facts->remote_port << 16 | facts->local_port);
}

/*
 * Readers take no lock where loads, and stores, become visible in the order of the program (x86:
 * Intel SDM volume 3A, 8.2.2): a record is whole if its version is even, and the same afterwards.
 * Elsewhere they take the lock.
 */
#ifdef __TARGET_ARCH_x86
#define PG_SENT_READ_BEGIN(mark) (*(volatile const __u32 *)&(mark)->sent.version)
#define PG_SENT_READ_END(mark)	 (*(volatile const __u32 *)&(mark)->sent.version)
#else
#define PG_SENT_READ_BEGIN(mark) \
	({ \
		bpf_spin_lock(&(mark)->lock); \
		(mark)->sent.version; \
	})
#define PG_SENT_READ_END(mark) \
	({ \
		const __u32 version_ = (mark)->sent.version; \
		bpf_spin_unlock(&(mark)->lock); \
		version_; \
	})
#endif

/* Parameter "where": the ifindex of the host end, at the guard of a veth; 0: the hook of a cgroup.
 */
#define PG_SENT_LINK	0xffffffffULL
#define PG_SENT_IN	(1ULL << 32) /* the packet comes in */
/* From these bits on, of what is to be remembered: enum pg_reason, and the slot of the phase's
 * learned addresses; of what is looked for, the state. */
#define PG_SENT_REASON	40
#define PG_SENT_LEARNED 48
#define PG_SENT_STATE	48

/* An IPv6 header with an IPv4 address has no record: it is judged by its form. */
static __always_inline bool pg_sent_read_plain(struct __sk_buff *skb, __u32 network, bool in,
					       __u8 protocol, struct pg_facts *facts)
{
	pg_word ports;

	if (!pg_read_plain(skb, network, in, protocol, facts, &ports, 1))
		return false;
	return !(facts->bits & PG_FACT_IPV6) ||
	       (!pg_addr_is_v4(&facts->remote) && !pg_addr_is_v4(&facts->local));
}

static __always_inline bool pg_sent_read_packet(struct __sk_buff *skb, __u64 where,
						const struct pg_mark *mark, struct pg_facts *facts)
{
	const bool in = where & PG_SENT_IN;
	const __u8 protocol = pg_sent_protocol(mark);

	if (!(where & PG_SENT_LINK))
		return pg_sent_read_plain(skb, 0, in, protocol, facts);
	return !skb->vlan_present && pg_sent_read_plain(skb, PG_LINK_NETWORK, in, protocol, facts);
}

/* 0 if the tuple is the record's, but for the local address. */
static __always_inline __u64 pg_sent_remote_difference(const struct pg_sent *sent, __u64 env_id,
						       __u64 epoch, __u64 generation,
						       const struct pg_facts *facts)
{
	__u64 difference = pg_addr_difference(&sent->remote, &facts->remote);

	difference |= sent->remote_port ^ facts->remote_port;
	difference |= sent->local_port ^ facts->local_port;
	difference |= sent->generation ^ (__u32)generation;
	difference |= sent->epoch ^ epoch;
	return difference | (sent->env_id ^ env_id);
}

/* The record's reason, if it is of the tuple and not over. any_local: but for the local address.
 * link: of those that the guard of that veth has let out too; 0: of all. */
static __always_inline int pg_sent_read(struct pg_mark *mark, __u64 env_id, __u64 epoch,
					__u64 generation, const struct pg_facts *facts,
					bool any_local, __u32 link)
{
	const struct pg_sent *sent = &mark->sent;
	const __u64 now = bpf_jiffies64();
	__u64 difference;
	__u32 version;
	int reason;

	if (sent->ends != pg_sent_ends(facts))
		return PG_SENT_UNKNOWN;
	version = PG_SENT_READ_BEGIN(mark);
	barrier();
	difference = pg_sent_remote_difference(sent, env_id, epoch, generation, facts);
	difference |= any_local ? 0 : pg_addr_difference(&sent->local, &facts->local);
	difference |= link ? sent->link ^ link : 0;
	difference |= now >= sent->until;
	reason = sent->reason;
	barrier();
	difference |= (version & 1) | (version ^ PG_SENT_READ_END(mark));
	return difference ? PG_SENT_UNKNOWN : reason;
}

/* By the record in the socket's mark. */
static __always_inline int pg_sent_find_in(struct pg_mark *mark, struct __sk_buff *skb,
					   __u64 env_id, __u64 epoch, __u64 generation, __u64 where)
{
	struct pg_facts facts = {};

	if (!pg_sent_has_record(mark) || !pg_sent_read_packet(skb, where, mark, &facts))
		return PG_SENT_UNKNOWN;
	return pg_sent_read(mark, env_id, epoch, generation, &facts, false, where & PG_SENT_LINK);
}

/*
 * The reason for which a packet of the same tuple was let out a while ago, in this generation and
 * epoch, or PG_SENT_UNKNOWN. Of one that comes in the tuple is that of its answer. What a socket
 * without a mark or a place among accepted connections sends is no reply, so that for TCP one of
 * the same addresses will do.
 */
__noinline int pg_sent_find(struct __sk_buff *skb, __u64 env_id, __u64 epoch, __u64 generation,
			    __u64 where)
{
	struct bpf_sock *sk = skb->sk;
	struct pg_mark *mark;

	if (!sk)
		return PG_SENT_UNKNOWN;
	mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
	if (!mark) {
		struct pg_recent_key key = {.place = env_id,
					    .epoch = epoch,
					    .generation = generation};

		if (where & PG_SENT_IN)
			return PG_SENT_UNKNOWN;
		if (pg_may_be_accepted(where >> PG_SENT_STATE) &&
		    pg_accepted_find(where >> PG_SENT_STATE, bpf_get_socket_cookie(skb)))
			return PG_SENT_UNKNOWN;
		key.now = bpf_jiffies64();
		if (!(where & PG_SENT_LINK))
			return pg_recent_find(skb, 0, &key);
		key.place |= PG_RECENT_LINK;
		return pg_recent_find(skb, PG_LINK_NETWORK, &key);
	}
	return pg_sent_find_in(mark, skb, env_id, epoch, generation, where);
}

/* The same for sendmsg, where the local address is not known yet. */
PG_APART int pg_sent_reason_to(struct pg_mark *mark, const struct pg_view *view,
			       const struct pg_facts *facts)
{
	return pg_sent_read(mark, view->header->env_id, view->header->epoch, view->generation,
			    facts, true, 0);
}

static __always_inline __u64 pg_sent_where(const struct pg_view *view, enum pg_reason reason,
					   __u32 link)
{
	const __u64 learned = view->slot ? view->slot->learned : 0;

	return learned << PG_SENT_LEARNED | (__u64)reason << PG_SENT_REASON | link;
}

/*
 * The hook of the cgroup has let it out for the reason, and its flow is recorded; or the guard of
 * the veth has, too. Of a destination that differs from the last one, it is remembered only at the
 * second datagram: who sends to many gains nothing by it.
 */
__noinline int pg_sent_remember(struct __sk_buff *skb, __u64 env_id, __u64 epoch, __u64 generation,
				__u64 where)
{
	const __u64 until = bpf_jiffies64() + PG_LASTS_JIFFIES;
	const __u32 reason = where >> PG_SENT_REASON & 0xff, link = where;
	struct pg_mark *mark = pg_sent_mark(skb->sk);
	struct pg_facts facts = {};
	struct pg_sent *sent;
	__u64 difference;
	__u32 ends;

	if (!mark || !pg_sent_read_packet(skb, where, mark, &facts) ||
	    !pg_lasts(reason, where >> PG_SENT_LEARNED, &facts.remote))
		return 0;
	ends = pg_sent_ends(&facts);
	sent = &mark->sent;
	if (sent->ends != ends) {
		if (!link)
			sent->ends = ends;
		return 0;
	}
	bpf_spin_lock(&mark->lock);
	if (link) {
		difference = pg_sent_remote_difference(sent, env_id, epoch, generation, &facts) |
			     pg_addr_difference(&sent->local, &facts.local);
		if (!difference)
			sent->link = link;
	} else {
		sent->version++;
		barrier();
		sent->env_id = env_id;
		sent->epoch = epoch;
		sent->until = until;
		sent->local = facts.local;
		sent->remote = facts.remote;
		sent->local_port = facts.local_port;
		sent->remote_port = facts.remote_port;
		sent->generation = (__u32)generation;
		sent->link = 0;
		sent->reason = reason;
		barrier();
		sent->version++;
	}
	bpf_spin_unlock(&mark->lock);
	return 0;
}
