/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BPF programs and maps: loaded once, shared by all Environments. With its neighbours in this
 * folder the only code that sees libbpf.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <phasegate/abi/counter.h>
#include <phasegate/abi/event.h>
#include <phasegate/abi/flow.h>
#include <phasegate/abi/header.h>
#include <phasegate/abi/member.h>

#include "base/error.h"

struct pg_kernel;

/* Below the directory of pins: the maps, by the version of their layouts (PG_ABI_VERSION). No
 * Environment's name has a '+'. */
#define PG_KERNEL_PINS_PREFIX "+maps-"

/*
 * Loads everything; nothing is attached yet.
 *
 * pins NULL: freeing leaves no trace. Else a directory of a BPF file system, made if it is missing:
 * all maps are pinned in pins/+maps-VERSION, and those that are there already are used, with all
 * that is in them. The programs are loaded anew. What of the slots and states is in use is then for
 * the caller to say, before anything is taken: pg_set_occupy() and the like. Only one process at a
 * time may have them open; the caller has a lock for that.
 *
 * -EPROTO: maps of another version, or of another shape, are pinned there, or not all of them;
 * nothing is changed.
 */
int pg_kernel_open(const char *pins, struct pg_kernel **ret_kernel,
		   struct pg_error *err) PG_MUST_CHECK;
/* Removes the pins of the maps; what is attached goes on with them. Missing ones are no error. */
int pg_kernel_unpin(const char *pins, struct pg_error *err) PG_MUST_CHECK;
/* Whether an earlier process had pinned the maps. */
bool pg_kernel_has_adopted(const struct pg_kernel *kernel);
void pg_kernel_free(struct pg_kernel *kernel);
static inline void pg_kernel_freep(struct pg_kernel **kernel)
{
	pg_kernel_free(*kernel);
}

/* The sk_storage map of struct pg_mark; stays owned by kernel. */
int pg_kernel_mark_map_fd(const struct pg_kernel *kernel);

/* Makes the socket one of Phasegate's own in a namespace of the Environment: what it sends passes
 * the guard of a veth (abi/link.h). */
int pg_agent_socket_mark(struct pg_kernel *kernel, int socket_fd, uint64_t env_id,
			 struct pg_error *err) PG_MUST_CHECK;

/* Marks a socket as the hooks do with those that are made from now on, unless it has a mark.
 * Returns a negative errno. */
int pg_socket_mark(struct pg_kernel *kernel, int socket_fd,
		   const struct pg_mark *mark) PG_MUST_CHECK;

/*
 * The state of an Environment (abi/state.h), shared by the headers of its members. One that is
 * taken or released has generation 0 and no phase.
 */
struct pg_state_value {
	uint64_t generation; /* below 2^56 */
	unsigned int bank;
	int phase; /* enum pg_phase, or PG_PHASE_NONE: everything is denied */
};
#define PG_PHASE_NONE (-1)

int pg_state_take(struct pg_kernel *kernel, uint32_t *ret_index,
		  struct pg_error *err) PG_MUST_CHECK;
/* Of pinned maps: the index is in use, with whatever state it has. -EEXIST: it was before. */
int pg_state_occupy(struct pg_kernel *kernel, uint32_t index, struct pg_error *err) PG_MUST_CHECK;
/* No header may name it any more. Waits for hook runs that may still read it. 0: does nothing. */
void pg_state_release(struct pg_kernel *kernel, uint32_t index);
/* One atomic store: every hook run of any member that begins after the return sees it. */
int pg_state_write(struct pg_kernel *kernel, uint32_t index, const struct pg_state_value *value,
		   struct pg_error *err) PG_MUST_CHECK;
int pg_state_read(struct pg_kernel *kernel, uint32_t index, struct pg_state_value *ret_value,
		  struct pg_error *err) PG_MUST_CHECK;

/*
 * Headers of members, by cgroup id. A write, to header->cgroup_id, replaces the whole header
 * atomically: every hook run that begins after the return sees the new one. A run that began before
 * may have read the old one: see pg_kernel_synchronize(). -ENOENT until a hook is attached at the
 * cgroup.
 */
int pg_header_write(struct pg_kernel *kernel, const struct pg_header *header,
		    struct pg_error *err) PG_MUST_CHECK;
int pg_header_read(struct pg_kernel *kernel, uint64_t cgroup_id, struct pg_header *ret_header,
		   struct pg_error *err) PG_MUST_CHECK;
/* Writes a zero header, which denies everything. */
int pg_header_clear(struct pg_kernel *kernel, uint64_t cgroup_id,
		    struct pg_error *err) PG_MUST_CHECK;

/*
 * Members (abi/member.h). Where an Environment has several and its headers have PG_HEADER_MEMBERS,
 * a socket of the member, or below it, is within for all of them on loopback. Replaces what was
 * there. -EDOM: the level is above PG_MEMBER_LEVEL_MAX.
 */
int pg_member_add(struct pg_kernel *kernel, uint64_t cgroup_id, const struct pg_member *member,
		  struct pg_error *err) PG_MUST_CHECK;
/* The only one of an Environment, for links without a guard (kernel/link.h) and for what is
 * executed in it; one that is too deep is left out. */
int pg_member_add_alone(struct pg_kernel *kernel, uint64_t cgroup_id, struct pg_member *member,
			struct pg_error *err) PG_MUST_CHECK;
/* How many executions with refused rights were not reported, beyond PG_EVENT_EXEC_PER_S. */
uint64_t pg_member_suppressed(struct pg_kernel *kernel, uint64_t cgroup_id);
/* Its cgroup is gone. Of all members of an Environment: pg_members_forget(). */
void pg_member_remove(struct pg_kernel *kernel, uint64_t cgroup_id);
/*
 * For headers with PG_HEADER_MEMBER_ADDRESSES: what members send to the address is open, in
 * no-network too. Only an address that a trusted runtime has given to a member, in a namespace of
 * that one's own, and for as long as it has it.
 */
int pg_member_address_add(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr,
			  struct pg_error *err) PG_MUST_CHECK;
void pg_member_address_remove(struct pg_kernel *kernel, uint64_t env_id,
			      const struct pg_addr *addr);
/* Removes all of the Environment's, members and their addresses. */
void pg_members_forget(struct pg_kernel *kernel, uint64_t env_id);

/* Of one member; sums over the CPUs. */
int pg_counters_read(struct pg_kernel *kernel, uint64_t cgroup_id, struct pg_counters *ret_counters,
		     struct pg_error *err) PG_MUST_CHECK;

/* Lets flows from outside open; before the header is written. pg_flows_expire() of the Environment
 * takes it back. */
int pg_flows_allow(struct pg_kernel *kernel, uint64_t env_id, struct pg_error *err) PG_MUST_CHECK;
/* Or none does for as long as a flow lives (PG_FLOW_IDLE_NS): what comes in may be the answer to
 * what nobody has recorded. Those that are open stay. */
int pg_flows_bar(struct pg_kernel *kernel, uint64_t env_id, struct pg_error *err) PG_MUST_CHECK;

/* The direction of the UDP flow, or 0 if it is not recorded. */
enum pg_direction pg_flow_find(struct pg_kernel *kernel, const struct pg_flow_key *key);
/* Forgets flows idle for PG_FLOW_IDLE_NS, or, if env_id is not 0, all flows of that Environment. */
size_t pg_flows_expire(struct pg_kernel *kernel, uint64_t env_id);
/* Flows of the Environment with that state, or of all (PG_FLOW_ALL). */
uint64_t pg_flow_count(const struct pg_kernel *kernel, uint32_t state);
/*
 * Of pinned maps: puts the counts right that a process did not come to put right when it was
 * killed. One that a hook changes meanwhile is left as it is, off by one at most for each such
 * death, until the next time.
 */
int pg_flows_recount(struct pg_kernel *kernel, struct pg_error *err) PG_MUST_CHECK;

/* Whether the TCP socket with the cookie has a place among the accepted connections of the
 * Environment with that state, and was accepted from there. */
bool pg_accepted_has(const struct pg_kernel *kernel, uint32_t state, uint64_t cookie,
		     const struct pg_endpoint *remote);

/* Addresses of the Environment's own network namespaces (abi/set.h). netns: the cookie of the one
 * that has it, with PG_OWN_HOST if that is the host's; 0: not known, or several. */
int pg_own_add(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr,
	       uint64_t netns, struct pg_error *err) PG_MUST_CHECK;
bool pg_own_has(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr);
void pg_own_remove(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr);
/* Removes all of the Environment's but these. */
void pg_own_retain(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addrs,
		   size_t count);
/* Removes all of the Environment's. */
void pg_own_clear(struct pg_kernel *kernel, uint64_t env_id);

/*
 * What an entry opens of the host itself, for headers with PG_HEADER_HOST_PORTS: these ports
 * (network order) on these addresses. Replaces what was there; until then nothing of it is open.
 */
int pg_host_ports_set(struct pg_kernel *kernel, const __be16 *ports, size_t count,
		      struct pg_error *err) PG_MUST_CHECK;
int pg_host_addresses_set(struct pg_kernel *kernel, const struct pg_addr *addrs, size_t count,
			  struct pg_error *err) PG_MUST_CHECK;

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
