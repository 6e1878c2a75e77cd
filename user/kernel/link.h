/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The veth guard (abi/link.h): its tables and its filters. Interfaces are those of the calling
 * thread's network namespace, by the index of the veth's host end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <phasegate/abi/link.h>

#include "base/error.h"
#include "kernel.h"

/*
 * What the filters judge the link by, from now on: a copy of a member's header. Replaces what was
 * there as a whole; with the first write of an Environment its table of answers is made, empty.
 * Whoever writes a member's header writes the links of its namespace too, at the same steps.
 * flags: PG_LINK_*; stations: with PG_LINK_STATIONS, else NULL.
 */
int pg_link_put(struct pg_kernel *kernel, unsigned int ifindex, const struct pg_header *header,
		uint32_t flags, const struct pg_link_stations *stations,
		struct pg_error *err) PG_MUST_CHECK;
/* -ENOENT without a message: there is none. */
int pg_link_read(struct pg_kernel *kernel, unsigned int ifindex, struct pg_link *ret_link,
		 struct pg_error *err) PG_MUST_CHECK;
/* Takes it away; filters that are still there drop everything. */
void pg_link_forget(struct pg_kernel *kernel, unsigned int ifindex);
/* Walks the interfaces that pg_link_put() has entered, also those of an earlier process whose
 * maps were pinned: *ifindex 0 is the beginning; returns false at the end. */
bool pg_link_next(struct pg_kernel *kernel, unsigned int *ifindex);

/* Loads the filters, unless that has been done: with the first pg_link_attach() at the latest,
 * which takes as long as the kernel checks them. */
int pg_link_programs_load(struct pg_kernel *kernel, struct pg_error *err) PG_MUST_CHECK;

/*
 * Puts both filters on the interface, "to" first, each in place of one of ours that is there
 * already, without a moment between them. Others' filters stay and run after ours.
 * -EEXIST: somebody else's has our priority and is of another kind.
 */
int pg_link_attach(struct pg_kernel *kernel, unsigned int ifindex,
		   struct pg_error *err) PG_MUST_CHECK;
/* Takes ours off, whoever attached them, and the clsact queue if no filter is left on it. An
 * interface that is gone, or has none, is no error. */
int pg_link_detach(unsigned int ifindex, struct pg_error *err) PG_MUST_CHECK;
/* 1: both are there and they are this process's programs; 2: of ours there is something, but not
 * that; 0: none, or no such interface. Negative: errno. */
int pg_link_attached(struct pg_kernel *kernel, unsigned int ifindex,
		     struct pg_error *err) PG_MUST_CHECK;

/* For veths without a guard: frames of packet sockets of members do not pass. It replaces one of
 * this agent's (by its pins: an earlier process's too), and is beside a guard's filters and those
 * of other agents. */
int pg_link_new_attach(struct pg_kernel *kernel, unsigned int ifindex,
		       struct pg_error *err) PG_MUST_CHECK;
/* Whether there was one. The queue stays. */
bool pg_link_new_detach(const struct pg_kernel *kernel, unsigned int ifindex);
/*
 * The other end, in the namespace: drops what the kernel would not show the guard
 * (bpf/link_inner.bpf.h). Once it is there, it stays as it is. -EOPNOTSUPP, without a text: the
 * kernel has no tcx (Linux 6.6).
 */
int pg_link_inner_attach(struct pg_kernel *kernel, int netns_fd, unsigned int ifindex,
			 struct pg_error *err) PG_MUST_CHECK;
void pg_link_inner_detach(int netns_fd, unsigned int ifindex);
/* Takes the clsact queue off if no filter is left on it. */
int pg_link_queue_remove(unsigned int ifindex, struct pg_error *err) PG_MUST_CHECK;

/* For PG_LINK_TARGETS: addresses that the Environment's namespaces route by. kind: PG_LINK_HOP_*.
 */
int pg_link_hop_add(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr,
		    uint8_t kind, struct pg_error *err) PG_MUST_CHECK;
void pg_link_hop_remove(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr);

/*
 * What comes in may be the answer to something that no link has seen: nobody's acknowledgement
 * counts for more, and with datagrams none of theirs does for as long as a flow lives. What links
 * record at that moment is kept.
 */
int pg_link_bar(struct pg_kernel *kernel, uint64_t env_id, bool datagrams,
		struct pg_error *err) PG_MUST_CHECK;

/* What was denied at all links that the Environment has or had; zero if it had none. */
int pg_link_counters_read(struct pg_kernel *kernel, uint64_t env_id,
			  struct pg_counters *ret_counters, struct pg_error *err) PG_MUST_CHECK;
/* When the Environment ends: forgets its table of answers, counters and hops. */
void pg_link_environment_forget(struct pg_kernel *kernel, uint64_t env_id);
