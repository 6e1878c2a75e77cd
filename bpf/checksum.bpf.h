/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Checksums that are not there yet. The kernel leaves it to the device, or does so right before it,
 * to write the checksum at an offset that comes with the packet (kernel:
 * Documentation/networking/checksum-offloads.rst, CHECKSUM_PARTIAL). Where a process has chosen the
 * offset (PACKET_VNET_HDR, TUN), or has put other headers before it, what leaves the host is not
 * what was judged.
 */
#pragma once

#include <vmlinux.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "facts.h"
#include "kernel.bpf.h"

#define PG_CHECKSUM_PARTIAL 3

/* Of the kernel's own buffer, which is what programs of tc are given. */
struct sk_buff___checksum {
	__u8 ip_summed : 2;
	__u16 csum_start, csum_offset;
	__u16 network_header;
} PG_KERNEL_TYPE;

/* Nothing is to be written. */
#define PG_CHECKSUM_NONE (-1)

/* From the IP header on; 0: before that. */
static __always_inline int pg_checksum_offset(struct __sk_buff *skb)
{
	const struct sk_buff___checksum *buffer = pg_kernel_buffer(skb);
	int at;

	if (PG_KERNEL_READ_BITS(buffer, ip_summed) != PG_CHECKSUM_PARTIAL)
		return PG_CHECKSUM_NONE;
	at = PG_KERNEL_READ(buffer, csum_start) - PG_KERNEL_READ(buffer, network_header);
	return at < 0 ? 0 : at + PG_KERNEL_READ(buffer, csum_offset);
}

/* Whether it is written where that of the protocol is, or behind all that is judged. transport:
 * where the header is that follows the IP header, counted from that one. */
static __always_inline bool pg_checksum_is_fit(struct __sk_buff *skb, __u8 protocol, int transport)
{
	const int at = pg_checksum_offset(skb);

	if (at == PG_CHECKSUM_NONE)
		return true;
	switch (protocol) {
	case IPPROTO_TCP:
		return at == transport + 16 || at >= transport + 20;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		return at == transport + 6 || at >= transport + 8;
	case IPPROTO_ICMP:
	case PG_IPPROTO_ICMPV6:
		return false; /* the kernel writes it at once */
	}
	return at >= transport + 4;
}
