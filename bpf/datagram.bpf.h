/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Datagrams that were let out a while ago, by their socket and tuple (struct pg_datagram): however
 * many others a socket sends to, the next one to each needs one cache line. The functions that take
 * a packet are global ones as those of sent.bpf.h.
 */
#pragma once

#include "facts.h"
#include "maps.bpf.h"
#include "sent.bpf.h"
#include "view.bpf.h"

/* The place of what the socket sends to the other end of facts. */
static __always_inline struct pg_datagram *pg_datagram_place(__u64 socket,
							     const struct pg_facts *facts)
{
	__u32 index = pg_datagram_index(socket, &facts->remote, facts->remote_port);

	return bpf_map_lookup_elem(&pg_datagrams, &index);
}

static __always_inline int pg_datagram_read(const struct pg_sent_key *key,
					    const struct pg_facts *facts, bool any_local,
					    __u32 link)
{
	struct pg_datagram *place = pg_datagram_place(key->socket, facts);

	return place ? pg_sent_read(&place->sent, &place->lock, key, facts, any_local, link)
		     : PG_SENT_UNKNOWN;
}

/*
 * The reason for which a datagram of the same tuple was let out a while ago, in this generation and
 * epoch, or PG_SENT_UNKNOWN. Of one that comes in the tuple is that of its answer.
 */
__noinline int pg_datagram_find(struct __sk_buff *skb, __u64 env_id, __u64 epoch, __u64 generation,
				__u64 where)
{
	struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	struct pg_facts facts = {};
	pg_word ports;

	key.socket = bpf_get_socket_cookie(skb);
	if (!key.socket || !pg_sent_read_packet(skb, where, IPPROTO_UDP, &facts, &ports, 1))
		return PG_SENT_UNKNOWN;
	return pg_datagram_read(&key, &facts, false, where & PG_SENT_LINK);
}

/* The same for sendmsg, where the local address is not known yet. */
static __always_inline int pg_datagram_find_to(const struct pg_sent_key *key,
					       const struct pg_facts *facts)
{
	return pg_datagram_read(key, facts, true, 0);
}

/* Whether the place may be taken: what was there is over, or of an earlier phase. */
static __always_inline bool pg_datagram_is_free(const struct pg_sent *sent,
						const struct pg_sent_key *key, __u64 now)
{
	return now >= sent->until ||
	       (sent->env_id == key->env_id &&
		(sent->generation != (__u32)key->generation || sent->epoch != key->epoch));
}

/*
 * The hook of the cgroup has let it out for the reason, and its flow was recorded before; or the
 * guard of the veth has, too. Of a socket that was made before the hooks nobody knows where its
 * flows belong to.
 */
__noinline int pg_datagram_remember(struct __sk_buff *skb, __u64 env_id, __u64 epoch,
				    __u64 generation, __u64 where)
{
	struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	struct bpf_sock *sk = skb->sk;
	struct pg_facts facts = {};
	struct pg_datagram *place;
	struct pg_mark *mark;
	pg_word ports;
	__u64 now;

	mark = sk ? bpf_sk_storage_get(&pg_marks, sk, NULL, 0) : NULL;
	if (!mark || mark->kind != PG_MARK_DATAGRAM ||
	    !pg_sent_read_packet(skb, where, IPPROTO_UDP, &facts, &ports, 1) ||
	    !pg_sent_lasts(where, &facts))
		return 0;
	key.socket = bpf_get_socket_cookie(skb);
	place = pg_datagram_place(key.socket, &facts);
	if (!place)
		return 0;
	now = bpf_jiffies64();
	bpf_spin_lock(&place->lock);
	if (where & PG_SENT_LINK)
		pg_sent_confirm(&place->sent, &key, &facts, where);
	else if (pg_datagram_is_free(&place->sent, &key, now))
		pg_sent_write(&place->sent, &key, &facts, where >> PG_SENT_REASON & 0xff,
			      now + PG_LASTS_JIFFIES);
	bpf_spin_unlock(&place->lock);
	return 0;
}
