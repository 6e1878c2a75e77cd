/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Datagrams that were let out a while ago, by their socket and tuple: however many others a socket
 * sends to, the next one to each needs one cache line.
 */
#pragma once

#include "facts.h"
#include "maps.bpf.h"
#include "sent.bpf.h"

/*
 * The reason for which a datagram of the same tuple was let out a while ago, in this generation and
 * epoch, or PG_SENT_UNKNOWN. Of one that comes in the tuple is that of its answer.
 */
__noinline int pg_datagram_find(struct __sk_buff *skb, __u64 env_id, __u64 epoch, __u64 generation,
				__u64 where)
{
	struct pg_sent_key key = {.env_id = env_id,
				  .epoch = epoch,
				  .generation = generation,
				  .link = where};
	struct pg_facts facts = {};
	pg_word ports;

	key.socket = bpf_get_socket_cookie(skb);
	if (!key.socket || !pg_sent_read_packet(skb, where, IPPROTO_UDP, &facts, &ports, 1))
		return PG_SENT_UNKNOWN;
	pg_sent_key_ports(&key, &facts);
	return pg_sent_find(&key, &facts, false);
}

/* The hook of the cgroup has let it out for the reason, and its flow was recorded before. Of a
 * socket that was made before the hooks nobody knows where its flows belong to. */
__noinline int pg_datagram_remember(struct __sk_buff *skb, __u64 env_id, __u64 epoch,
				    __u64 generation, __u64 where)
{
	struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	struct pg_facts facts = {};
	pg_word ports;

	if (!pg_sent_mark(skb, PG_MARK_DATAGRAM) ||
	    !pg_sent_read_packet(skb, 0, IPPROTO_UDP, &facts, &ports, 1) ||
	    !pg_sent_lasts(where, &facts))
		return 0;
	key.socket = bpf_get_socket_cookie(skb);
	pg_sent_key_ports(&key, &facts);
	pg_sent_put(&key, &facts, pg_sent_reason(where));
	return 0;
}

/* The guard of the veth has let it out for the reason, too. */
__noinline int pg_datagram_confirm(struct __sk_buff *skb, __u64 env_id, __u64 epoch,
				   __u64 generation, __u64 where)
{
	struct pg_sent_key key = {.env_id = env_id, .epoch = epoch, .generation = generation};
	struct pg_facts facts = {};
	struct pg_sent_place *place;
	pg_word ports;

	key.socket = bpf_get_socket_cookie(skb);
	if (!key.socket || !pg_sent_read_packet(skb, where, IPPROTO_UDP, &facts, &ports, 1) ||
	    !pg_sent_lasts(where, &facts))
		return 0;
	pg_sent_key_ports(&key, &facts);
	place = pg_sent_place(&key, &facts.remote);
	if (!place)
		return 0;
	bpf_spin_lock(&place->lock);
	pg_sent_confirm(&place->sent, &key, &facts, where);
	bpf_spin_unlock(&place->lock);
	return 0;
}
