/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Segments of TCP that need not be judged: by the last one of the connection, if the socket has
 * accepted it and has a mark, or by what was decided of the addresses.
 */
#pragma once

#include "accepted.bpf.h"
#include "facts.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "recent.bpf.h"
#include "sent.bpf.h"

/* What asks for a connection is recorded at the guard: a process inside can make that of any
 * segment, behind its socket. */
static __always_inline int pg_segment_find_in(struct pg_mark *mark, struct __sk_buff *skb,
					      struct pg_sent_key *key, __u64 where)
{
	struct pg_facts facts = {};
	pg_word tcp[4];

	if (mark->kind != PG_MARK_ACCEPTED ||
	    !pg_sent_read_packet(skb, where, IPPROTO_TCP, &facts, tcp, 4) ||
	    (bpf_ntohl(tcp[3]) >> 16 & (PG_TCP_SYN | PG_TCP_ACK)) == PG_TCP_SYN)
		return PG_SENT_UNKNOWN;
	pg_sent_key_ports(key, &facts);
	key->link = where;
	return pg_sent_read(&mark->sent, &mark->lock, key, &facts, false);
}

/*
 * The reason for which a segment of the same tuple, or of the same addresses, was let out a while
 * ago, in this generation and epoch, or PG_SENT_UNKNOWN. What a socket without a mark or a place
 * among accepted connections sends is no reply.
 */
__noinline int pg_segment_find(struct __sk_buff *skb, __u64 env_id, __u64 epoch, __u64 generation,
			       __u64 where)
{
	struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	struct bpf_sock *sk = skb->sk;
	struct pg_mark *mark;

	if (!sk)
		return PG_SENT_UNKNOWN;
	mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
	if (mark)
		return pg_segment_find_in(mark, skb, &key, where);
	if (pg_may_be_accepted(where >> PG_SENT_STATE) &&
	    pg_accepted_find(where >> PG_SENT_STATE, bpf_get_socket_cookie(skb)))
		return PG_SENT_UNKNOWN;
	return pg_recent_find(skb, where, &key);
}

/* The hook of the cgroup has let a segment of an accepted connection out for the reason. */
__noinline int pg_segment_remember(struct __sk_buff *skb, __u64 env_id, __u64 epoch,
				   __u64 generation, __u64 where)
{
	struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	struct pg_mark *mark = pg_sent_mark(skb, PG_MARK_ACCEPTED);
	struct pg_facts facts = {};
	pg_word ports;
	__u64 now;

	if (!mark || !pg_sent_read_packet(skb, 0, IPPROTO_TCP, &facts, &ports, 1) ||
	    !pg_sent_lasts(where, &facts))
		return 0;
	pg_sent_key_ports(&key, &facts);
	now = bpf_jiffies64();
	bpf_spin_lock(&mark->lock);
	pg_sent_write(&mark->sent, &key, &facts, pg_sent_reason(where), now);
	bpf_spin_unlock(&mark->lock);
	return 0;
}

/* The guard of the veth has let it out for the reason, too. */
__noinline int pg_segment_confirm(struct __sk_buff *skb, __u64 env_id, __u64 epoch,
				  __u64 generation, __u64 where)
{
	struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	struct pg_mark *mark = pg_sent_mark(skb, PG_MARK_ACCEPTED);
	struct pg_facts facts = {};
	pg_word ports;

	if (!mark || !pg_sent_read_packet(skb, where, IPPROTO_TCP, &facts, &ports, 1) ||
	    !pg_sent_lasts(where, &facts))
		return 0;
	pg_sent_key_ports(&key, &facts);
	bpf_spin_lock(&mark->lock);
	pg_sent_confirm(&mark->sent, &key, &facts, where);
	bpf_spin_unlock(&mark->lock);
	return 0;
}
