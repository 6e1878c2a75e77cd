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

struct pg_members {
	/* Of the Environment's cgroup and all below it. */
	uint64_t *cgroup_ids;
	size_t cgroup_count, cgroup_room;
	/* The network namespaces that a process of them is in. */
	struct pg_member_namespace *namespaces;
	size_t namespace_count, namespace_room;
};

/* All or an error: without descriptors or memory to look, somebody could be missed. The caller
 * clears *ret_members, also after a failure. */
int pg_members_collect(int cgroup_fd, struct pg_members *ret_members) PG_MUST_CHECK;
void pg_members_clear(struct pg_members *members);
#define pg_automembers PG_CLEANUP(pg_members_clear)

bool pg_members_have_cgroup(const struct pg_members *members, uint64_t cgroup_id);
bool pg_members_have_namespace(const struct pg_members *members, ino_t inode);

/* pg_sockets_close() in each of the namespaces; *ret_closed counts in all of them. */
int pg_members_close_sockets(const struct pg_members *members, int mark_map_fd,
			     pg_socket_judge judge, void *userdata, size_t *ret_closed,
			     struct pg_error *err) PG_MUST_CHECK;
