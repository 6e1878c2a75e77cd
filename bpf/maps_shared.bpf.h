/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps that more than one object has: user space makes them the same. */
#pragma once

#include <vmlinux.h>

#include <bpf/bpf_helpers.h>

#include <phasegate/abi/begun.h>
#include <phasegate/abi/event.h>
#include <phasegate/abi/host_end.h>
#include <phasegate/abi/limits.h>
#include <phasegate/abi/member.h>

/* What writing an element that is there already fails with. */
#define PG_EEXIST 17

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_MEMBERS_TOTAL_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct pg_member);
} pg_members SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_BEGUN_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct pg_begun);
} pg_begun SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_HOST_ENDS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pg_host_end_key);
	__type(value, struct pg_host_end);
} pg_host_ends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PG_EVENT_RING_BYTES);
} pg_events SEC(".maps");

/* Of an enum without a name in the kernel, BPF_RB_AVAIL_DATA. */
#define PG_RB_AVAIL_DATA 0

/* The rest is for what DNS waits for. */
static __always_inline bool pg_events_are_half_full(void)
{
	return bpf_ringbuf_query(&pg_events, PG_RB_AVAIL_DATA) > PG_EVENT_RING_BYTES / 2;
}
