/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * At the end of a guarded veth that is in the Environment (tcx, Linux 6.6): drops what would come
 * past the guard. An IFB device tells the kernel to classify a packet no more, and the kernel keeps
 * to that at the next place where it would, which may be the guard's (kernel: drivers/net/ifb.c,
 * __netif_receive_skb_core()).
 */
#pragma once

#include <vmlinux.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel.bpf.h"

struct sk_buff___inner {
	__u8 tc_skip_classify : 1;
} PG_KERNEL_TYPE;

static __always_inline bool pg_skips_guard(struct __sk_buff *skb)
{
	const struct sk_buff___inner *buffer = pg_kernel_buffer(skb);

	/* Without it the kernel has no tc either. */
	return bpf_core_field_exists(buffer->tc_skip_classify) &&
	       PG_KERNEL_READ_BITS(buffer, tc_skip_classify);
}
