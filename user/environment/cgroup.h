/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups (cgroup2) as directories: making, finding, emptying and removing them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* The id that BPF programs and socket diag know the cgroup by (its file handle, as the kernel
 * documents for kernfs). */
int pg_cgroup_id(int cgroup_fd, uint64_t *ret_id, struct pg_error *err) PG_MUST_CHECK;

/* Opens a cgroup directory below dir_fd. */
int pg_cgroup_open(int dir_fd, const char *path, int *ret_fd, struct pg_error *err) PG_MUST_CHECK;

/* Whether any process is in the cgroup or below it; in one that is gone there is none. */
int pg_cgroup_populated(int cgroup_fd, bool *ret_populated, struct pg_error *err) PG_MUST_CHECK;

/* Whether every process of it is frozen. */
int pg_cgroup_frozen(int cgroup_fd, bool *ret_frozen, struct pg_error *err) PG_MUST_CHECK;

/* Refuses (-EINVAL) one in which no process can be started: of type threaded, or frozen. */
int pg_cgroup_refuse_unfit(int cgroup_fd, const char *path, struct pg_error *err) PG_MUST_CHECK;

/* Whether the negative errno says that a cgroup or process was removed meanwhile. */
bool pg_cgroup_is_gone(int error);

/* Calls back with the descriptor of each cgroup of the subtree, children before their parent, and
 * the root of the subtree last. A non-zero return ends the walk and is returned. */
typedef int (*pg_cgroup_visit)(void *userdata, int cgroup_fd);
int pg_cgroup_walk(int cgroup_fd, pg_cgroup_visit visit, void *userdata) PG_MUST_CHECK;

/* Whether there is any cgroup below it; in doubt yes. */
bool pg_cgroup_has_children(int cgroup_fd);

/* Threads of the one cgroup, not below it, as the next. What one has is in /proc under its own
 * number; that of its process may have ended, or be in other namespaces. */
int pg_cgroup_threads(int cgroup_fd, pid_t **ret_tids, size_t *ret_count,
		      struct pg_error *err) PG_MUST_CHECK;
/* Processes of the one cgroup, not below it. The caller frees *ret_pids. */
int pg_cgroup_pids(int cgroup_fd, pid_t **ret_pids, size_t *ret_count,
		   struct pg_error *err) PG_MUST_CHECK;

/*
 * Kills every process of the subtree, those that fork meanwhile too, and waits until none is left.
 * *ret_killed, if not NULL, counts the processes seen. -ETIMEDOUT after timeout_ms. The runtime may
 * remove the cgroup meanwhile.
 */
#define PG_CGROUP_KILL_MS 10000
int pg_cgroup_kill(int cgroup_fd, unsigned int timeout_ms, size_t *ret_killed,
		   struct pg_error *err) PG_MUST_CHECK;

/* How deep a cgroup that is made may be nested; a given one that is nested deeper cannot be walked
 * (-ELOOP). */
#define PG_CGROUP_DEPTH_MAX 64

/* Removes all cgroups below cgroup_fd, not itself. They must be empty of processes. */
int pg_cgroup_remove_children(int cgroup_fd, struct pg_error *err) PG_MUST_CHECK;
