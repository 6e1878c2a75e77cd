/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Accepted connections by the cookie of their socket (struct pg_accepted). Half of what it costs to
 * confine a server is a storage of the socket's own, made and freed for each connection; a place in
 * a table costs next to nothing, but has to be left when the socket is closed. What the socket has
 * sent last may come past the guard of a veth after that, so who left a place is known there until
 * another connection takes it. Where there is no place the connection has a mark (abi/flow.h), and
 * as much right.
 */
#pragma once

#include "addr.bpf.h"
#include "facts.h"
#include "maps.bpf.h"

#define PG_SOCK_OPS_STATE_FLAG (1 << 2) /* BPF_SOCK_OPS_STATE_CB_FLAG, in no enum with a name */

/* Whether connections that the Environment has accepted may have places, or have had: if it has
 * never accepted one, there is nothing to be looked for. */
static __always_inline bool pg_may_be_accepted(__u32 state)
{
	const struct pg_flow_count *count = bpf_map_lookup_elem(&pg_flow_counts, &state);

	return count && count->has_accepted;
}

/* The only place that the socket with the cookie can have. */
static __always_inline struct pg_accepted *pg_accepted_place(__u64 cookie)
{
	__u32 index = pg_accepted_index(cookie);

	return bpf_map_lookup_elem(&pg_accepted, &index);
}

static __always_inline bool pg_accepted_is_free(const struct pg_accepted *place)
{
	return !place->cookie || place->owner & PG_ACCEPTED_CLOSED;
}

/* The place of a connection that the Environment has accepted, or NULL. */
static __always_inline struct pg_accepted *pg_accepted_find(__u32 state, __u64 cookie)
{
	struct pg_accepted *place = pg_accepted_place(cookie);

	return place && place->cookie == cookie && (place->owner & PG_ACCEPTED_STATE) == state
		       ? place
		       : NULL;
}

/* What a place says of the connection, PG_ACCEPTED_*; 0 if it is another's by now, or if the other
 * end is not who has opened it. Readers take the lock where those of sent.bpf.h do. */
static __always_inline __u16 pg_accepted_read(struct pg_accepted *place, __u64 cookie,
					      const struct pg_addr *remote, __be16 remote_port)
{
	__u64 difference;
	__u16 owner;

#ifndef __TARGET_ARCH_x86
	bpf_spin_lock(&place->lock);
#endif
	difference = pg_addr_difference(&place->remote, remote);
	difference |= place->remote_port ^ remote_port;
	owner = place->owner;
	barrier();
	difference |= *(volatile const __u64 *)&place->cookie ^ cookie;
#ifndef __TARGET_ARCH_x86
	bpf_spin_unlock(&place->lock);
#endif
	return difference ? 0 : owner;
}

/* The same of the packet's own connection and an address in two words; a global function, too. */
__noinline int pg_accepted_from(struct __sk_buff *skb, __u32 state, __u64 high, __u64 low,
				__u32 port)
{
	struct pg_accepted *place;
	struct pg_addr remote;
	__u64 cookie;

	__builtin_memcpy(&remote.word[0], &high, sizeof(high));
	__builtin_memcpy(&remote.word[2], &low, sizeof(low));
	cookie = bpf_get_socket_cookie(skb);
	place = pg_accepted_find(state, cookie);
	return place ? pg_accepted_read(place, cookie, &remote, port) : 0;
}

/* PG_ACCEPTED_* of the packet's own connection if it was accepted, has a place, and is with whom
 * the packet goes to; otherwise 0. */
static __always_inline __u16 pg_accepted_of(struct __sk_buff *skb, const struct pg_header *header,
					    const struct pg_facts *facts)
{
	__u64 words[2];

	if (!pg_may_be_accepted(header->state))
		return 0;
	__builtin_memcpy(words, &facts->remote, sizeof(words));
	return pg_accepted_from(skb, header->state, words[0], words[1], facts->remote_port);
}

/* The guard of a veth has seen the packet's connection being opened. */
__noinline int pg_accepted_confirm(struct __sk_buff *skb, __u32 state)
{
	const __u64 cookie = bpf_get_socket_cookie(skb);
	struct pg_accepted *place = pg_accepted_find(state, cookie);

	if (!place)
		return 0;
	bpf_spin_lock(&place->lock);
	if (place->cookie == cookie)
		place->owner |= PG_ACCEPTED_CONFIRMED;
	bpf_spin_unlock(&place->lock);
	return 0;
}

/* The socket has connected: nothing of its connection counts any more. */
static __always_inline void pg_accepted_free(struct pg_accepted *place, __u64 cookie)
{
	bpf_spin_lock(&place->lock);
	if (place->cookie == cookie) {
		place->cookie = 0;
		place->owner = 0;
	}
	bpf_spin_unlock(&place->lock);
}

/* The socket is closed. */
static __always_inline void pg_accepted_close(struct pg_accepted *place, __u64 cookie)
{
	bpf_spin_lock(&place->lock);
	if (place->cookie == cookie)
		place->owner |= PG_ACCEPTED_CLOSED;
	bpf_spin_unlock(&place->lock);
}

static __always_inline bool pg_accepted_take(struct pg_accepted *place, __u64 cookie, __u16 owner,
					     const struct pg_addr *remote, __be16 remote_port)
{
	bool taken = false;

	bpf_spin_lock(&place->lock);
	if (pg_accepted_is_free(place)) {
		place->cookie = 0;
		barrier();
		place->remote = *remote;
		place->remote_port = remote_port;
		place->owner = owner;
		barrier();
		place->cookie = cookie;
		taken = true;
	}
	bpf_spin_unlock(&place->lock);
	return taken;
}

/* false: the place is another's, or the socket would not say when it is closed. */
static __always_inline bool pg_accepted_put(struct bpf_sock_ops *ctx, __u16 owner,
					    const struct pg_addr *remote, __be16 remote_port)
{
	const __u64 cookie = bpf_get_socket_cookie(ctx);
	struct pg_accepted *place = pg_accepted_place(cookie);
	__u32 state = owner & PG_ACCEPTED_STATE;
	struct pg_flow_count *count = bpf_map_lookup_elem(&pg_flow_counts, &state);

	if (!state || !cookie || !count || !place || !pg_accepted_is_free(place) ||
	    bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | PG_SOCK_OPS_STATE_FLAG))
		return false;
	if (!count->has_accepted)
		count->has_accepted = 1;
	return pg_accepted_take(place, cookie, owner, remote, remote_port);
}
