// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The guard of the cgroup that Environments' own cgroups are made in: denies whatever is in a child
 * of it that was not admitted. A program object of its own, since it outlives every Environment.
 */
#include <vmlinux.h>

#include <bpf/bpf_helpers.h>

#include <phasegate/abi/guard.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Cgroup ids of the children with an Environment. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_GUARD_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u8);
} pg_guard_admitted SEC(".maps");

static __always_inline int pg_guard_judge(__u64 child)
{
	return bpf_map_lookup_elem(&pg_guard_admitted, &child) ? 1 : 0;
}

/* The authority: by the cgroup of the socket. */
SEC("cgroup_skb/egress")
int pg_guard_egress(struct __sk_buff *skb)
{
	return pg_guard_judge(bpf_skb_ancestor_cgroup_id(skb, PG_GUARD_CHILD_LEVEL));
}

/* The fast denials: by the cgroup of the caller, which these hooks can tell on every kernel. */
SEC("cgroup/connect4")
int pg_guard_connect4(struct bpf_sock_addr *ctx)
{
	return pg_guard_judge(bpf_get_current_ancestor_cgroup_id(PG_GUARD_CHILD_LEVEL));
}

SEC("cgroup/connect6")
int pg_guard_connect6(struct bpf_sock_addr *ctx)
{
	return pg_guard_judge(bpf_get_current_ancestor_cgroup_id(PG_GUARD_CHILD_LEVEL));
}

SEC("cgroup/sendmsg4")
int pg_guard_sendmsg4(struct bpf_sock_addr *ctx)
{
	return pg_guard_judge(bpf_get_current_ancestor_cgroup_id(PG_GUARD_CHILD_LEVEL));
}

SEC("cgroup/sendmsg6")
int pg_guard_sendmsg6(struct bpf_sock_addr *ctx)
{
	return pg_guard_judge(bpf_get_current_ancestor_cgroup_id(PG_GUARD_CHILD_LEVEL));
}
