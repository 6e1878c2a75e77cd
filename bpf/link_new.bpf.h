/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A veth that has no guard: nobody's, or not known yet to be somebody's. Whoever is there goes on
 * as before; but the frames of a packet socket, which passes no hook of a cgroup, leave an
 * Environment by a guarded link or not at all.
 */
#pragma once

#include "maps.bpf.h"
#include "packet.bpf.h"
#include "socket.bpf.h"

static __always_inline bool pg_is_frame_of_member(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk || sk->family == PG_AF_INET || sk->family == PG_AF_INET6)
		return false;
	for (__u32 level = 1; level <= PG_MEMBER_LEVEL_MAX; level++) {
		__u64 id = bpf_skb_ancestor_cgroup_id(skb, level);

		if (!id)
			return false;
		if (bpf_map_lookup_elem(&pg_members, &id))
			return true;
	}
	return false;
}
