/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end of a connection, told by the kernel and without races: the process is
 * held by a descriptor of its directory in /proc, which never becomes another one's.
 *
 * A descriptor that one process connects and another uses speaks for the one that connected; a
 * process that hands out connections of its own hands out its rights. Once the one that connected
 * has ended, the connection is refused.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct pg_caller {
	uid_t uid;
	gid_t gid;
	pid_t pid;
	int pid_fd;  /* a pidfd */
	int proc_fd; /* /proc/PID */
};
#define PG_CALLER_NONE \
	((struct pg_caller){.uid = (uid_t)-1, .gid = (gid_t)-1, .pid_fd = -1, .proc_fd = -1})

/* -ESRCH: the process has ended. The caller clears *ret_caller. */
int pg_caller_of(int socket_fd, struct pg_caller *ret_caller, struct pg_error *err) PG_MUST_CHECK;
void pg_caller_clear(struct pg_caller *caller);
/* With descriptors of its own. The caller clears *ret_copy. */
int pg_caller_copy(const struct pg_caller *caller, struct pg_caller *ret_copy,
		   struct pg_error *err) PG_MUST_CHECK;

/* -ESRCH if it does not hold the other end of the connection. pg_caller_of() does this where the
 * kernel does not hold the process itself. */
int pg_caller_check_socket(const struct pg_caller *caller, int socket_fd,
			   struct pg_error *err) PG_MUST_CHECK;

/* -ESRCH if it has ended; -EPERM if it is in another pid or user namespace than this process, or
 * if that cannot be told. */
int pg_caller_check_place(const struct pg_caller *caller, struct pg_error *err) PG_MUST_CHECK;

/* Its cgroup2 path, as this process sees it; the caller frees it. */
int pg_caller_cgroup(const struct pg_caller *caller, char **ret_path,
		     struct pg_error *err) PG_MUST_CHECK;

/* Whether it is a member of the group, by its own or its supplementary groups. */
bool pg_caller_in_group(const struct pg_caller *caller, gid_t group);

/* A process named by its id, as the peer of a connection would be. */
int pg_caller_of_pid(pid_t pid, struct pg_caller *ret_caller, struct pg_error *err) PG_MUST_CHECK;
