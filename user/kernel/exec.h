/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is executed in members with rights that are refused (abi/exec.h) is ended by the kernel.
 * What is refused the members say: pg_member_add(). Of programs that may change their network
 * namespace it keeps what that was before the first of them (begun.h).
 */
#pragma once

#include <stdbool.h>

#include <phasegate/abi/exec.h>

#include "kernel.h"

struct pg_exec_watch;

/*
 * Loads the program and attaches it, with the kernel's table of members. pins: of pg_kernel_open();
 * it is pinned there and outlives this process, in the place of an earlier one's, without a moment
 * between them. NULL: it ends with the watch. Fails where the kernel does not let programs see what
 * is executed; then nothing is changed.
 */
int pg_exec_watch_start(struct pg_kernel *kernel, const char *pins,
			struct pg_exec_watch **ret_watch, struct pg_error *err) PG_MUST_CHECK;
/* What is pinned stays. */
void pg_exec_watch_free(struct pg_exec_watch *watch);
/* Takes the pins off; missing ones are no error. */
int pg_exec_watch_unpin(const char *pins, struct pg_error *err) PG_MUST_CHECK;
