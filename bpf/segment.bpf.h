/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Segments of TCP that need not be judged: by the last one of the connection, if the socket has
 * accepted it, or by what was decided of the addresses.
 */
#pragma once

#include "accepted.bpf.h"
#include "maps.bpf.h"
#include "recent.bpf.h"
#include "sent.bpf.h"

/*
 * The reason for which a segment of the same tuple, or of the same addresses, was let out a while
 * ago, in this generation and epoch, or PG_SENT_UNKNOWN. What a socket sends that has neither a
 * mark nor a place among accepted connections is no reply.
 */
__noinline int pg_segment_find(struct __sk_buff *skb, __u64 env_id, __u64 epoch, __u64 generation,
			       __u64 where)
{
	struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	const __u32 state = where >> PG_SENT_STATE;
	struct bpf_sock *sk = skb->sk;
	struct pg_mark *mark;

	if (!sk)
		return PG_SENT_UNKNOWN;
	mark = bpf_sk_storage_get(&pg_marks, sk, NULL, 0);
	if (mark && mark->kind != PG_MARK_ACCEPTED)
		return PG_SENT_UNKNOWN;
	where |= PG_SENT_TCP;
	if (mark ||
	    (pg_may_be_accepted(state) && pg_accepted_find(state, bpf_get_socket_cookie(skb))))
		return pg_sent_find_by(skb, &key, where);
	return pg_recent_find(skb, where, &key);
}
