/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to survivors.c and freezer.c. While survivors are ended the whole Environment is held:
 * frozen, for milliseconds, so that nobody forks faster than they are listed. Who is killed or has
 * been moved away meanwhile is not released with the others.
 */
#pragma once

#include "host_internal.h"

uint64_t pg_survivor_ticks(uint64_t since_ns);
/* Unless the pid has become somebody else's. */
int pg_survivor_kill(pid_t pid, uint64_t since_ticks) PG_MUST_CHECK;

/*
 * Members that were frozen before are left alone. What cannot be frozen (a process in a system call
 * that cannot be interrupted) goes on after a while: it forks no more than once in that time. The
 * state file says that members are held, so that the next owner ends it.
 */
int pg_hold(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
void pg_hold_end(struct pg_environment *environment);

/*
 * Moves survivors into frozen cgroups of their own, below those that they are in: nobody inside
 * can let them run again, as SIGCONT would after SIGSTOP. Who cannot be moved is killed.
 */
int pg_survivors_freeze(struct pg_environment *environment, uint64_t since_ns,
			struct pg_survivors *ret_survivors, struct pg_error *err) PG_MUST_CHECK;
