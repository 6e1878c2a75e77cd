/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc/PID says of a process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The number in the line of /proc/PID/status that begins with the field, and a colon. A process
 * cannot make such a line: its name is in one of its own, escaped. Pure function.
 */
bool pg_status_number(const char *status, const char *field, int base, uint64_t *ret_number);

/* Whether both name the same namespace; in doubt they do not. proc_fd: /proc/PID; other_process: a
 * number, or "self". */
bool pg_same_namespace(int proc_fd, const char *name, const char *other_process);
