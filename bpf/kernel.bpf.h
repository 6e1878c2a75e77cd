/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's own types. Of each only what is used is named, where it is used; where it is in them
 * is found out when the programs are loaded.
 */
#pragma once

#include <vmlinux.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define PG_KERNEL_TYPE __attribute__((preserve_access_index))

/* Of a packet the kernel's struct sk_buff, of which members are read without a call. */
extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;

/* Is there since Linux 6.4; the function since 6.2. */
struct bpf_iter_num {
	__u64 __opaque[1];
} PG_KERNEL_TYPE;

/* Where it cannot be cast, a program's context has the address of the same, to be read by calls. */
#define PG_CAN_CAST_CONTEXT bpf_core_type_exists(struct bpf_iter_num)

/* What of the packet these read; by calls it takes ten times as long. */
static __always_inline const void *pg_kernel_buffer(struct __sk_buff *skb)
{
	return PG_CAN_CAST_CONTEXT ? bpf_cast_to_kern_ctx(skb) : (const void *)skb;
}

#define PG_KERNEL_READ(buffer, field) \
	(PG_CAN_CAST_CONTEXT ? (buffer)->field : BPF_CORE_READ(buffer, field))
#define PG_KERNEL_READ_BITS(buffer, field) \
	(PG_CAN_CAST_CONTEXT ? BPF_CORE_READ_BITFIELD(buffer, field) \
			     : BPF_CORE_READ_BITFIELD_PROBED(buffer, field))
