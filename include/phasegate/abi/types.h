/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Base of the ABI that the BPF programs (bpf/) and user space (user/) share. Everything under
 * include/phasegate/abi/ is included by both sides, so that no constant or layout exists twice.
 *
 * Byte order: a field of type __be16 or __be32 is in network order, as it stands in a packet or
 * sockaddr; all others are in host order. Padding is explicit and always written as zero, because
 * map keys are compared as bytes.
 */
#pragma once

#ifndef __VMLINUX_H__
#include <linux/bpf.h> /* struct bpf_spin_lock */
#include <linux/types.h>
#endif

#include "limits.h"

#define PG_ASSERT_SIZE(type, bytes) \
	_Static_assert(sizeof(type) == (bytes), "layout of " #type " changed: bump " \
						"PG_ABI_VERSION")

/* Raised whenever a layout or the meaning of a value in this folder changes. */
#define PG_ABI_VERSION 9

/*
 * An address of either family in 16 octets: IPv6 as it is, IPv4 as IPv4-mapped ::ffff:a.b.c.d
 * (RFC 4291, 2.5.5.2). One form for every map key that may hold either family.
 */
struct pg_addr {
	__be32 word[4];
};
PG_ASSERT_SIZE(struct pg_addr, 16);

/* An address and port; port 0 means that the endpoint is not set. */
struct pg_endpoint {
	struct pg_addr addr;
	__be16 port;
	__u8 reserved[6];
};
PG_ASSERT_SIZE(struct pg_endpoint, 24);
