/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who else is in the network namespaces of members. Runtimes do not tell of all of them, so the
 * processes are looked at.
 */
#pragma once

#include "containers.h"

/* A cgroup of no member, with a process there. */
struct pg_sharing {
	char *cgroup;
	pid_t pid;
	const struct pg_container *with;
	bool told; /* for whoever tells of it */
};

/* Cgroups that are told apart; one is enough to be warned. */
#define PG_SHARING_MAX 16

struct pg_sharings {
	struct pg_sharing items[PG_SHARING_MAX];
	size_t count;
};

/* A process that cannot be looked at is left out. The namespace of this process is no member's. */
void pg_sharings_find(const struct pg_member_list *list, struct pg_sharings *ret_sharings);
void pg_sharings_clear(struct pg_sharings *sharings);
#define pg_autosharings PG_CLEANUP(pg_sharings_clear)
