/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the host's connection tracking says of a packet that it has just passed (kernel:
 * include/linux/skbuff.h, include/uapi/linux/netfilter/nf_conntrack_common.h). It remembers what an
 * address has sent for longer than an Environment lives that had it; and a translation of addresses
 * that lets somebody in is always among it, unless another machine does it.
 */
#pragma once

#include <vmlinux.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel.bpf.h"

/* The lower bits of what a packet has of it are enum ip_conntrack_info. */
#define PG_TRACKED_MASK		 7UL
#define PG_TRACKED_RELATED	 1
#define PG_TRACKED_REPLY	 3
#define PG_TRACKED_RELATED_REPLY 4

struct sk_buff___tracked {
	unsigned long _nfct;
} PG_KERNEL_TYPE;

/* Whether it is the answer to something that has gone the other way, or what a helper of some
 * protocol expects because of that. */
static __always_inline bool pg_tracked_is_answer(struct __sk_buff *skb)
{
	const struct sk_buff___tracked *buffer = pg_kernel_buffer(skb);
	unsigned long info;

	if (!bpf_core_field_exists(buffer->_nfct))
		return false;
	info = PG_KERNEL_READ(buffer, _nfct) & PG_TRACKED_MASK;
	return info == PG_TRACKED_RELATED || info == PG_TRACKED_REPLY ||
	       info == PG_TRACKED_RELATED_REPLY;
}
