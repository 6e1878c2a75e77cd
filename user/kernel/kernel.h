/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BPF programs and maps of this process: loaded once, shared by all Environments. With its
 * neighbours in this folder the only code that sees libbpf.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <phasegate/abi/counter.h>
#include <phasegate/abi/event.h>
#include <phasegate/abi/flow.h>
#include <phasegate/abi/header.h>

#include "base/error.h"

struct pg_kernel;

/* Loads everything. Nothing is attached or pinned yet; freeing leaves no trace. */
int pg_kernel_open(struct pg_kernel **ret_kernel, struct pg_error *err) PG_MUST_CHECK;
void pg_kernel_free(struct pg_kernel *kernel);
static inline void pg_kernel_freep(struct pg_kernel **kernel)
{
	pg_kernel_free(*kernel);
}

/* The sk_storage map of struct pg_mark; stays owned by kernel. */
int pg_kernel_mark_map_fd(const struct pg_kernel *kernel);

/*
 * Headers, by cgroup id. A write replaces the whole header atomically: every hook run that begins
 * after the return sees the new one. -ENOENT until a hook is attached at the cgroup.
 */
int pg_header_write(struct pg_kernel *kernel, const struct pg_header *header,
		    struct pg_error *err) PG_MUST_CHECK;
int pg_header_read(struct pg_kernel *kernel, uint64_t env_id, struct pg_header *ret_header,
		   struct pg_error *err) PG_MUST_CHECK;
/* Writes a zero header, which denies everything. */
int pg_header_clear(struct pg_kernel *kernel, uint64_t env_id, struct pg_error *err) PG_MUST_CHECK;

/* Sums over the CPUs. */
int pg_counters_read(struct pg_kernel *kernel, uint64_t env_id, struct pg_counters *ret_counters,
		     struct pg_error *err) PG_MUST_CHECK;

/* Lets flows from outside open; before the header is written. pg_flows_expire() of the Environment
 * takes it back. */
int pg_flows_allow(struct pg_kernel *kernel, uint64_t env_id, struct pg_error *err) PG_MUST_CHECK;

/* The direction of the UDP flow, or 0 if it is not recorded. */
enum pg_direction pg_flow_find(struct pg_kernel *kernel, const struct pg_flow_key *key);
/* Forgets flows idle for PG_FLOW_IDLE_NS, or, if env_id is not 0, all flows of that Environment. */
size_t pg_flows_expire(struct pg_kernel *kernel, uint64_t env_id);

/* Addresses of the Environment's own network namespace (abi/set.h). */
int pg_own_add(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr,
	       struct pg_error *err) PG_MUST_CHECK;
void pg_own_remove(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr);
/* Removes all of the Environment's. */
void pg_own_clear(struct pg_kernel *kernel, uint64_t env_id);

/* Makes the socket one that no Environment may send to, those of other processes neither. */
int pg_dns_socket_hide(int socket_fd, struct pg_error *err) PG_MUST_CHECK;
/* DNS in the path (abi/dns.h): makes the socket known as the Environment's listener, and hides it
 * from all others. */
int pg_dns_listener_mark(struct pg_kernel *kernel, int socket_fd, uint64_t env_id,
			 struct pg_error *err) PG_MUST_CHECK;
/* Says that the Environment has a listener in the namespace with the cookie. Without it the hooks
 * find that out at the first query, so failing (the table is full) is no error. */
void pg_dns_served_add(struct pg_kernel *kernel, uint64_t env_id, uint64_t netns_cookie);
/* Forgets in which namespaces the Environment has, or had, a listener. */
void pg_dns_forget(struct pg_kernel *kernel, uint64_t env_id);

/*
 * Events: pg_events_fd() becomes readable, pg_events_process() hands them over. One of kind
 * PG_EVENT_PARKED is the head of a struct pg_event_parked, checked to be whole.
 */
typedef void (*pg_event_sink)(void *userdata, const struct pg_event *event);
void pg_events_set_sink(struct pg_kernel *kernel, pg_event_sink sink, void *userdata);
int pg_events_fd(const struct pg_kernel *kernel);
int pg_events_process(struct pg_kernel *kernel, struct pg_error *err) PG_MUST_CHECK;

/*
 * Waits until every hook run that had begun before the call has ended (an RCU grace period; hooks
 * run under rcu_read_lock).
 */
void pg_kernel_synchronize(struct pg_kernel *kernel);
