/* SPDX-License-Identifier: Apache-2.0 */
/* Making sockets in another network namespace: the thread goes there and comes back. */
#pragma once

#include <sys/types.h>

#include "cleanup.h"
#include "error.h"

/* That of the process, if it is the one with the inode; -1: it is not, or the process has gone. */
int pg_netns_open(pid_t pid, ino_t inode);

/*
 * Enters the namespace (-1: stays). *ret_back is needed to come back; nothing that can fail is left
 * for that but the setns() itself.
 */
int pg_netns_enter(int netns_fd, int *ret_back, struct pg_error *err) PG_MUST_CHECK;

/* Comes back. A thread that cannot would act in the wrong namespace: it ends the process. */
void pg_netns_leave(int *back);
