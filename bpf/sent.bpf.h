/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The last datagram that a UDP socket sent, as it was judged (struct pg_sent): the next one of the
 * same tuple needs no other lookup for a while. Threads may share the socket: a record is written
 * under the mark's lock, and its version is odd meanwhile.
 */
#pragma once

#include "facts.h"
#include "maps.bpf.h"
#include "view.bpf.h"

/* In jiffies: at most a second, whatever CONFIG_HZ is. */
#define PG_SENT_LASTS 100

/* There is no record of the datagram that is asked for. */
#define PG_SENT_UNKNOWN (-1)

/* The mark of a UDP socket, or NULL. */
static __always_inline struct pg_mark *pg_datagram_mark(struct bpf_sock *sk)
{
	struct pg_mark *mark = sk ? bpf_sk_storage_get(&pg_marks, sk, NULL, 0) : NULL;

	return mark && mark->kind == PG_MARK_DATAGRAM ? mark : NULL;
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

/* 0 if the tuple is the record's, but for the local address. */
static __always_inline __u64 pg_sent_remote_difference(const struct pg_sent *sent,
						       const struct pg_view *view,
						       const struct pg_facts *facts)
{
	__u64 difference = pg_addr_difference(&sent->remote, &facts->remote);

	difference |= sent->remote_port ^ facts->remote_port;
	difference |= sent->local_port ^ facts->local_port;
	difference |= sent->generation ^ (__u32)view->generation;
	difference |= sent->epoch ^ view->header->epoch;
	return difference | (sent->env_id ^ view->header->env_id);
}

static __always_inline int pg_sent_read(struct pg_mark *mark, const struct pg_view *view,
					const struct pg_facts *facts, bool any_local, __u32 link)
{
	const struct pg_sent *sent = &mark->sent;
	const __u64 now = bpf_jiffies64();
	__u64 difference;
	__u32 version;
	int reason;

	if (sent->ends != pg_sent_ends(facts))
		return PG_SENT_UNKNOWN;
	/* An IPv6 header with the IPv4 address of the record: judged by its form. */
	if (facts->bits & PG_FACT_IPV6 && pg_addr_is_v4(&facts->remote))
		return PG_SENT_UNKNOWN;
	version = PG_SENT_READ_BEGIN(mark);
	barrier();
	difference = pg_sent_remote_difference(sent, view, facts);
	difference |= any_local ? 0 : pg_addr_difference(&sent->local, &facts->local);
	difference |= link ? sent->link ^ link : 0;
	difference |= now >= sent->until;
	reason = sent->reason;
	barrier();
	difference |= (version & 1) | (version ^ PG_SENT_READ_END(mark));
	return difference ? PG_SENT_UNKNOWN : reason;
}

/*
 * The reason for which a packet of the same tuple was let out a while ago, in this generation, or
 * PG_SENT_UNKNOWN. link: at the guard of that veth; 0: by the hook of the cgroup.
 */
PG_APART int pg_sent_reason(struct pg_mark *mark, const struct pg_view *view,
			    const struct pg_facts *facts, __u32 link)
{
	return pg_sent_read(mark, view, facts, false, link);
}

/* The same for sendmsg, where the local address is not known yet. */
PG_APART int pg_sent_reason_to(struct pg_mark *mark, const struct pg_view *view,
			       const struct pg_facts *facts)
{
	return pg_sent_read(mark, view, facts, true, 0);
}

/*
 * The hook of the cgroup has let it out for the reason, and its flow is recorded. Of a destination
 * that differs from the last one, it is remembered only at the second datagram: who sends to many
 * gains nothing by it.
 */
PG_APART void pg_sent_remember(struct pg_mark *mark, const struct pg_view *view,
			       const struct pg_facts *facts, enum pg_reason reason)
{
	struct pg_sent *sent = &mark->sent;
	const __u64 until = bpf_jiffies64() + PG_SENT_LASTS;
	const __u64 env_id = view->header->env_id;
	const __u64 epoch = view->header->epoch;
	const __u32 ends = pg_sent_ends(facts);

	if (sent->ends != ends) {
		sent->ends = ends;
		return;
	}
	bpf_spin_lock(&mark->lock);
	sent->version++;
	barrier();
	sent->env_id = env_id;
	sent->epoch = epoch;
	sent->until = until;
	sent->local = facts->local;
	sent->remote = facts->remote;
	sent->local_port = facts->local_port;
	sent->remote_port = facts->remote_port;
	sent->generation = (__u32)view->generation;
	sent->link = 0;
	sent->reason = reason;
	barrier();
	sent->version++;
	bpf_spin_unlock(&mark->lock);
}

/* The guard of the veth has let it out, and recorded it. */
PG_APART void pg_sent_remember_link(struct pg_mark *mark, const struct pg_view *view,
				    const struct pg_facts *facts, __u32 link)
{
	struct pg_sent *sent = &mark->sent;
	__u64 difference;

	if (sent->ends != pg_sent_ends(facts))
		return;
	bpf_spin_lock(&mark->lock);
	difference = pg_sent_remote_difference(sent, view, facts);
	difference |= pg_addr_difference(&sent->local, &facts->local);
	if (!difference)
		sent->link = link;
	bpf_spin_unlock(&mark->lock);
}
