/* SPDX-License-Identifier: Apache-2.0 */
/* Private to user/environment/: where the processes of an Environment are at this moment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "kernel/sockets.h"

struct pg_member_namespace {
	int fd;
	ino_t inode;
};

struct pg_member_of {
	uint64_t cgroup_id;
	size_t member; /* by number */
};

struct pg_members {
	/* The members' cgroups and all below them. */
	struct pg_member_of *cgroups;
	size_t cgroup_count, cgroup_room;
	size_t collecting; /* the member whose turn it is */
	/* pg_monotonic_ns(): then it is given up with -ETIMEDOUT, here and in each namespace; 0: it
	 * takes as long as it takes. A workload may have any number of threads and sockets. */
	uint64_t until;
	/* The network namespaces that a thread of them is in. */
	struct pg_member_namespace *namespaces;
	size_t namespace_count, namespace_room;
};

/*
 * Adds what is in the cgroup of a member and below it; one that is gone has nothing. All or an
 * error: without descriptors or memory to look, somebody could be missed. The caller clears
 * *members, also after a failure.
 */
int pg_members_add(struct pg_members *members, size_t member, int cgroup_fd) PG_MUST_CHECK;
void pg_members_clear(struct pg_members *members);
#define pg_automembers PG_CLEANUP(pg_members_clear)

/* The number of the member in which the cgroup is; SIZE_MAX: none. */
size_t pg_members_of(const struct pg_members *members, uint64_t cgroup_id);
bool pg_members_have_cgroup(const struct pg_members *members, uint64_t cgroup_id);
bool pg_members_have_namespace(const struct pg_members *members, ino_t inode);

/* For a deadline: each namespace takes a look at all of the kernel's sockets, and a workload may
 * make thousands. */
#define PG_MEMBERS_CLOSE_NS (1 * PG_NSEC_PER_SEC)

/* pg_sockets_close() in each of the namespaces; *ret_closed counts in all of them, also where it is
 * given up at the deadline (pg_monotonic_ns()): -ETIMEDOUT. */
int pg_members_close_sockets(const struct pg_members *members, int mark_map_fd,
			     pg_socket_judge judge, void *userdata, uint64_t deadline,
			     size_t *ret_closed, struct pg_error *err) PG_MUST_CHECK;
