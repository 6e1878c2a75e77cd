/* SPDX-License-Identifier: Apache-2.0 */
/* Children that begin their life in another cgroup. */
#pragma once

#include <sys/types.h>

#include "cleanup.h"

/*
 * fork() into the cgroup (Linux 5.7); the child has done nothing when it is there. Returns its pid,
 * 0 in the child, or a negative errno. interrupt_fd: as in pg_wait_readable().
 *
 * Since cgroup.kill takes account of processes that are being forked (6.14, and 6.1.129 and the
 * like) the kernel takes the count of kills from the parent's cgroup and compares it with that of
 * the child's: where only one of them was ever killed as a whole, the child dies at birth. Then it
 * is forked where we are, and moved before it does anything.
 */
pid_t pg_fork_into(int cgroup_fd, int interrupt_fd) PG_MUST_CHECK;
