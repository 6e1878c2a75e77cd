/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Predicates on addresses. IPv4 is IPv4-mapped, see abi/types.h. */
#pragma once

#include <vmlinux.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include <phasegate/abi/types.h>

static __always_inline bool pg_addr_is_v4(const struct pg_addr *addr)
{
	return !addr->word[0] && !addr->word[1] && addr->word[2] == bpf_htonl(0xffff);
}

static __always_inline void pg_addr_set_v4(struct pg_addr *addr, __be32 v4)
{
	addr->word[0] = 0;
	addr->word[1] = 0;
	addr->word[2] = bpf_htonl(0xffff);
	addr->word[3] = v4;
}

/* 0 if they are equal: one value to branch by instead of four. */
/* fe80::/10 */
static __always_inline bool pg_addr_is_link_local(const struct pg_addr *addr)
{
	return (addr->word[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

static __always_inline __u32 pg_addr_difference(const struct pg_addr *a, const struct pg_addr *b)
{
	return (a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2]) |
	       (a->word[3] ^ b->word[3]);
}

static __always_inline bool pg_addr_equal(const struct pg_addr *a, const struct pg_addr *b)
{
	return !pg_addr_difference(a, b);
}

static __always_inline bool pg_addr_is_v6_loopback(const struct pg_addr *addr)
{
	return !addr->word[0] && !addr->word[1] && !addr->word[2] && addr->word[3] == bpf_htonl(1);
}

/* 127.0.0.0/8, ::1 */
static __always_inline bool pg_addr_is_loopback(const struct pg_addr *addr)
{
	if (pg_addr_is_v4(addr))
		return (addr->word[3] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
	return pg_addr_is_v6_loopback(addr);
}

/* 0.0.0.0, ::; as a destination the kernel takes it for loopback */
static __always_inline bool pg_addr_is_unspecified(const struct pg_addr *addr)
{
	return !addr->word[0] && !addr->word[1] && !addr->word[3] &&
	       (!addr->word[2] || addr->word[2] == bpf_htonl(0xffff));
}

/*
 * 224.0.0.0/4, ff00::/8, and the broadcast addresses that any netns has: 255.255.255.255 and those
 * of lo, 127.255.255.255 and (before 5.14) 127.0.0.0.
 */
static __always_inline bool pg_addr_is_multicast(const struct pg_addr *addr)
{
	if (pg_addr_is_v4(addr))
		return (addr->word[3] & bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000) ||
		       addr->word[3] == 0xffffffff || addr->word[3] == bpf_htonl(0x7fffffff) ||
		       addr->word[3] == bpf_htonl(0x7f000000);
	return (addr->word[0] & bpf_htonl(0xff000000)) == bpf_htonl(0xff000000);
}

/* ::ffff:a.b.c.d or ::a.b.c.d (:: among them, ::1 not) in the destination of an IPv6 header */
static __always_inline bool pg_addr_is_v4_form(const struct pg_addr *addr)
{
	if (addr->word[0] || addr->word[1] || pg_addr_is_v6_loopback(addr))
		return false;
	return !addr->word[2] || addr->word[2] == bpf_htonl(0xffff);
}
