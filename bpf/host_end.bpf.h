/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The veths by which a namespace leads to the agent's (abi/host_end.h). */
#pragma once

#include "begun.bpf.h"
#include "maps_shared.bpf.h"
#include "task.bpf.h"

/* What a driver keeps of a device is behind it (netdev_priv()). */
#define PG_NETDEV_ALIGN 32

union pg_kind {
	char text[8];
	__u64 word;
};

/* The other end, which is the first that a veth keeps; NULL: it is none. */
static __always_inline struct net_device *pg_veth_peer(struct net_device *device)
{
	const __u64 size = bpf_core_type_size(struct net_device);
	const void *kept = (void *)device + ((size + PG_NETDEV_ALIGN - 1) & -PG_NETDEV_ALIGN);
	const struct rtnl_link_ops *ops = BPF_CORE_READ(device, rtnl_link_ops);
	const union pg_kind veth = {"veth"};
	struct net_device *peer = NULL;
	union pg_kind kind = {};

	if (!ops || bpf_probe_read_kernel(&kind, sizeof("veth"), BPF_CORE_READ(ops, kind)) ||
	    kind.word != veth.word)
		return NULL;
	if (bpf_probe_read_kernel(&peer, sizeof(peer), kept) || !peer)
		return NULL;
	return BPF_CORE_READ(peer, rtnl_link_ops) == ops ? peer : NULL;
}

/* Returns whether it was not known. */
static __always_inline bool pg_host_end_note(const struct pg_host_end_key *key,
					     const struct pg_host_end *value)
{
	const struct pg_host_end *known = bpf_map_lookup_elem(&pg_host_ends, key);

	if (known && known->netns == value->netns && known->inode == value->inode)
		return false;
	return !bpf_map_update_elem(&pg_host_ends, key, value, BPF_ANY);
}

/* Something is executed there, in a member of the Environment; host: where the agent is. */
static __always_inline void pg_host_ends_note(struct net *net, __u32 host, __u64 env_id)
{
	const struct pg_host_end of = {.netns = pg_net_cookie(net), .inode = net->ns.inum};
	struct list_head *head = (void *)net + bpf_core_field_offset(net->dev_base_head);
	struct list_head *at = BPF_CORE_READ(head, next);
	struct pg_host_end_key key = {.env_id = env_id, .host = host};
	bool is_new = false;

	for (int i = 0; i < PG_BEGUN_DEVICES_SEEN && at && at != head; i++) {
		struct net_device *device =
			(void *)at - bpf_core_field_offset(struct net_device, dev_list);
		struct net_device *end = pg_veth_peer(device);

		if (end && BPF_CORE_READ(end, nd_net.net, ns.inum) == host) {
			key.ifindex = BPF_CORE_READ(end, ifindex);
			is_new |= pg_host_end_note(&key, &of);
		}
		at = BPF_CORE_READ(at, next);
	}
	if (is_new)
		pg_begun_tell(env_id, of.netns);
}
