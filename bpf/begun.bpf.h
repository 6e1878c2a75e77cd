/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a network namespace was when the first program that may change it was executed there
 * (abi/begun.h): its Ethernet devices and its addresses, as the kernel has them.
 */
#pragma once

#include <bpf/bpf_endian.h>

#include "maps_shared.bpf.h"
#include "task.bpf.h"

#define PG_ARPHRD_ETHER	      1
#define PG_ETHERNET_ADDRESS   6
/* So many are looked at of a list; what is behind them is not believed. */
#define PG_BEGUN_DEVICES_SEEN 32

struct in_ifaddr {
	struct in_ifaddr *ifa_next;
	__be32 ifa_local;
} PG_KERNEL_TYPE;

struct in_device {
	struct in_ifaddr *ifa_list;
} PG_KERNEL_TYPE;

struct inet6_ifaddr {
	struct in6_addr addr;
	struct list_head if_list;
} PG_KERNEL_TYPE;

struct inet6_dev {
	struct list_head addr_list;
} PG_KERNEL_TYPE;

typedef struct {
	struct net *net;
} PG_KERNEL_TYPE possible_net_t;

struct rtnl_link_ops {
	const char *kind;
} PG_KERNEL_TYPE;

struct net_device {
	struct list_head dev_list;
	possible_net_t nd_net;
	const struct rtnl_link_ops *rtnl_link_ops;
	int ifindex;
	unsigned short type;
	unsigned char addr_len;
	const unsigned char *dev_addr;
	struct in_device *ip_ptr;
	struct inet6_dev *ip6_ptr;
} PG_KERNEL_TYPE;

/* As a new element is. */
static const struct pg_begun pg_begun_nothing = {};

/* The cookie; 0: the kernel has none, or not as a plain number. */
static __always_inline __u64 pg_net_cookie(struct net *net)
{
	struct net___cookie *of = (void *)net;

	return bpf_core_field_exists(of->net_cookie) ? BPF_CORE_READ(of, net_cookie) : 0;
}

static __always_inline struct pg_addr *pg_begun_next_address(struct pg_begun *begun)
{
	__u32 index = begun->address_count;

	barrier_var(index);
	if (index >= PG_BEGUN_ADDRESSES)
		return NULL;
	begun->address_count = index + 1;
	barrier_var(index);
	return &begun->addresses[index & (PG_BEGUN_ADDRESSES - 1)];
}

static __always_inline void pg_begun_read_ipv4(struct pg_begun *begun, struct net_device *device)
{
	struct in_ifaddr *item = BPF_CORE_READ(device, ip_ptr, ifa_list);

	for (int i = 0; i < PG_BEGUN_ADDRESSES && item; i++) {
		struct pg_addr *addr = pg_begun_next_address(begun);

		if (!addr)
			return;
		addr->word[2] = bpf_htonl(0xffff);
		addr->word[3] = BPF_CORE_READ(item, ifa_local);
		item = BPF_CORE_READ(item, ifa_next);
	}
}

static __always_inline void pg_begun_read_ipv6(struct pg_begun *begun, struct net_device *device)
{
	struct inet6_dev *of = BPF_CORE_READ(device, ip6_ptr);
	struct list_head *head = (void *)of + bpf_core_field_offset(of->addr_list), *at;

	if (!of)
		return;
	at = BPF_CORE_READ(head, next);
	for (int i = 0; i < PG_BEGUN_ADDRESSES && at && at != head; i++) {
		struct inet6_ifaddr *item =
			(void *)at - bpf_core_field_offset(struct inet6_ifaddr, if_list);
		struct pg_addr *addr = pg_begun_next_address(begun);

		if (!addr)
			return;
		bpf_core_read(addr, sizeof(*addr), &item->addr);
		at = BPF_CORE_READ(at, next);
	}
}

/* A global function, which the verifier looks at once and not for each device of the list; it takes
 * numbers only. at: the address of a struct net_device. */
__noinline int pg_begun_read_device(__u64 cookie, __u64 at)
{
	struct pg_begun *begun = bpf_map_lookup_elem(&pg_begun, &cookie);
	struct net_device *device = (void *)at;
	const unsigned char *address = BPF_CORE_READ(device, dev_addr);
	__u32 index;

	if (!begun)
		return 0;
	index = begun->device_count;
	pg_begun_read_ipv4(begun, device);
	pg_begun_read_ipv6(begun, device);
	barrier_var(index);
	if (index >= PG_BEGUN_DEVICES || BPF_CORE_READ(device, type) != PG_ARPHRD_ETHER ||
	    BPF_CORE_READ(device, addr_len) != PG_ETHERNET_ADDRESS)
		return 0;
	begun->device_count = index + 1;
	barrier_var(index);
	index &= PG_BEGUN_DEVICES - 1;
	begun->devices[index].ifindex = BPF_CORE_READ(device, ifindex);
	bpf_probe_read_kernel(&begun->devices[index].station, PG_ETHERNET_ADDRESS, address);
	return 0;
}

static __always_inline void pg_begun_read(__u64 cookie, struct net *net)
{
	struct list_head *head = (void *)net + bpf_core_field_offset(net->dev_base_head);
	struct list_head *at = BPF_CORE_READ(head, next);

	for (int i = 0; i < PG_BEGUN_DEVICES_SEEN && at && at != head; i++) {
		struct net_device *device =
			(void *)at - bpf_core_field_offset(struct net_device, dev_list);

		pg_begun_read_device(cookie, (__u64)device);
		at = BPF_CORE_READ(at, next);
	}
}

static __always_inline void pg_begun_spoil(__u64 cookie)
{
	struct pg_begun *begun = bpf_map_lookup_elem(&pg_begun, &cookie);

	if (begun && !begun->whole)
		__sync_fetch_and_add(&begun->spoiled, 1);
}

static __always_inline void pg_begun_tell(__u64 env_id, __u64 cookie)
{
	struct pg_event *event = bpf_ringbuf_reserve(&pg_events, sizeof(*event), 0);

	if (!event)
		return;
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = PG_EVENT_BEGUN;
	event->env_id = env_id;
	event->netns = cookie;
	event->time = bpf_ktime_get_boot_ns();
	bpf_ringbuf_submit(event, 0);
}

/* A program that may change the namespace is executed there, in a member of the Environment. */
static __always_inline void pg_begun_note(struct net *net, __u64 env_id)
{
	const __u64 cookie = pg_net_cookie(net);
	struct pg_begun *begun;
	long error;

	if (!cookie)
		return;
	error = bpf_map_update_elem(&pg_begun, &cookie, &pg_begun_nothing, BPF_NOEXIST);
	begun = error ? NULL : bpf_map_lookup_elem(&pg_begun, &cookie);
	if (!begun) {
		pg_begun_spoil(error == -PG_EEXIST ? cookie : 0);
		return;
	}
	begun->env_id = env_id;
	pg_begun_read(cookie, net);
	barrier();
	begun->whole = 1;
	pg_begun_tell(env_id, cookie);
}
