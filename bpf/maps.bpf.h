/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every map, in one place, with those of maps_shared.bpf.h. Layouts and their meaning are in
 * include/phasegate/abi/. */
#pragma once

#include <vmlinux.h>

#include <bpf/bpf_helpers.h>

#include <phasegate/abi/counter.h>
#include <phasegate/abi/dns.h>
#include <phasegate/abi/flow.h>
#include <phasegate/abi/header.h>
#include <phasegate/abi/link.h>
#include <phasegate/abi/sent.h>
#include <phasegate/abi/set.h>
#include <phasegate/abi/state.h>

#include "maps_shared.bpf.h"

/* Headers of members, by cgroup id: one storage for all hooks of a cgroup. */
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
	__type(key, __u64);
	__type(value, struct pg_header);
} pg_headers SEC(".maps");

/* Mapped into user space, so that a switch is one store. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PG_ENVIRONMENT_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct pg_state);
} pg_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_MEMBERS_TOTAL_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pg_member_address);
	__type(value, __u8);
} pg_member_addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE);
	__type(key, __u64);
	__type(value, struct pg_counters);
} pg_counts SEC(".maps");

/* Static address sets: abi/set.h. Each has as many nodes as it needs, mapped into user space to be
 * filled. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PG_SLOT_MAX);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(max_entries, 1);
			__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
			__uint(key_size, sizeof(__u32));
			__uint(value_size, sizeof(struct pg_set_node));
		});
} pg_sets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PG_SLOT_MAX);
	__type(key, __u32);
	__type(value, struct pg_slot_use);
} pg_slots SEC(".maps");

/* Addresses learned from DNS, filled while in force. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PG_SLOT_MAX);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_HASH);
			__uint(max_entries, 1);
			__uint(map_flags, BPF_F_NO_PREALLOC);
			__uint(key_size, sizeof(struct pg_addr));
			__uint(value_size, sizeof(struct pg_learned));
		});
} pg_learned_sets SEC(".maps");

/* Addresses of the Environments' own network namespaces. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_OWN_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pg_own_key);
	__type(value, pg_own_value);
} pg_own SEC(".maps");

/* Solicited-node groups of these, and how many of them have it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_OWN_GROUPS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pg_own_key);
	__type(value, __u32);
} pg_own_groups SEC(".maps");

/* The guard at veths: abi/link.h. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_LINK_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct pg_link);
} pg_links SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} pg_link_changes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pg_link_short_places);
} pg_link_shorts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_ENVIRONMENT_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct pg_link_table);
} pg_link_tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_ENVIRONMENT_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct pg_link_neighbours);
} pg_link_neighbours SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_ENVIRONMENT_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct pg_counters);
} pg_link_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_LINK_HOP_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pg_own_key);
	__type(value, __u8);
} pg_link_hops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, PG_LINK_RUN_BYTES);
} pg_link_runs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pg_link_seen_places);
} pg_link_seens SEC(".maps");

/* Addresses of the host, and what an entry opens on them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_HOST_ADDRESS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pg_addr);
	__type(value, __u8);
} pg_host_addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_HOST_PORT_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __be16);
	__type(value, __u8);
} pg_host_ports SEC(".maps");

/* Begins at a page, and so at a cache line, since it can be mapped. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PG_SENT_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct pg_sent_place);
} pg_sent_places SEC(".maps");

/* A plain hash and not an LRU: evicting an outbound flow would let its answers open an inbound. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_FLOW_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pg_flow_key);
	__type(value, struct pg_flow);
} pg_flows SEC(".maps");

/* Mapped into user space, which deletes flows while hooks insert them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PG_ENVIRONMENT_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct pg_flow_count);
} pg_flow_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_ENVIRONMENT_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, pg_flow_bar);
} pg_flow_bars SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PG_ACCEPTED_MAX);
	__type(key, __u32);
	__type(value, struct pg_accepted);
} pg_accepted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pg_mark);
} pg_marks SEC(".maps");

/* On sockets that asked a nameserver: which, for what the application is shown. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pg_dns_socket);
} pg_dns_sockets SEC(".maps");

/* On the sockets of Phasegate that they get instead. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct pg_dns_listener);
} pg_dns_listeners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PG_DNS_SERVED_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pg_dns_served_key);
	__type(value, __u8);
} pg_dns_served SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PG_ENVIRONMENT_MAX);
	__type(key, __u32);
	__type(value, struct pg_event_budget);
} pg_event_budgets SEC(".maps");
