/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to user/environment/: homes. A home is a network namespace of a member that the host gave
 * it: the one of this process, one whose owner is this process's user namespace, or one that a veth
 * joins to the namespace of this process. One that the workload makes in a user namespace of its
 * own is none. The addresses in the homes are the Environment's own (pg_own), kept current by
 * rtnetlink(7); nothing here keeps a namespace alive.
 *
 *   homes.c          where the Environment's processes are, when that is looked into, and the end
 *   homes_scan.c     one look at the processes
 *   homes_netlink.c  what the kernel says of namespaces and addresses
 *   home_addresses.c the addresses of a home, and what the maps say of them
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/error.h"
#include "net/addr.h"

struct pg_environment;
struct pg_host;
struct pg_event;

/* Of one Environment; processes elsewhere have no address of their own but loopback. */
#define PG_HOMES_MAX	      1024
/* Of one home. */
#define PG_HOME_ADDRESSES_MAX 1024

struct pg_home_address {
	unsigned int ifindex;
	struct pg_addr addr;
	bool seen; /* in the list that is being read */
};

struct pg_links; /* links.c: the veth guards of a home */

struct pg_home {
	LIST_ENTRY(pg_home) link; /* of environment->homes */
	struct pg_environment *environment;
	ino_t inode; /* of the namespace */
	int nsid;    /* by which this process's namespace knows it; -1 if it is that one itself */
	bool is_host;
	/* The workload could give itself any address there: what it has now stays, and nothing is
	 * added but what the runtime names. */
	bool fixed;
	struct pg_home_address *addresses;
	size_t count, room;
	uint64_t empty_since;	/* CLOCK_MONOTONIC ns; 0: a process is there */
	struct pg_links *links; /* NULL: none */
};
LIST_HEAD(pg_home_list, pg_home);

/*
 * links.c. Called once for each home: before the phase is put in force where it is known by then,
 * else as soon as it is found. A failure fails the creation; later it is a warning.
 */
int pg_links_guard(struct pg_home *home, struct pg_error *err) PG_MUST_CHECK;
/* Before the home goes. keep: the guard stays for the next owner of the Environment. */
void pg_links_release(struct pg_home *home, bool keep);

/* There is a namespace that no home is known of, as a new link's peer: look whose it is, soon. */
void pg_homes_look(struct pg_host *host);
