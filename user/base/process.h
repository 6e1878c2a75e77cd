/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc/PID says of a process. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* Linux 6.9 */
#endif

/*
 * The number in the line of /proc/PID/status that begins with the field, and a colon. A process
 * cannot make such a line: its name is in one of its own, escaped. Pure function.
 */
bool pg_status_number(const char *status, const char *field, int base, uint64_t *ret_number);

/* PF_* of the kernel's, in /proc/PID/stat: it is a child that has executed nothing so far. */
#define PG_PROCESS_FORKED 0x40
/* The process's PF_* in the text of its /proc/PID/stat. Pure function. */
bool pg_stat_flags(const char *stat, uint64_t *ret_flags);

/*
 * The process, or, if its first thread has ended while others go on, one of these: /proc has what
 * they have under its number, and nothing under that of the process.
 */
pid_t pg_process_living(pid_t pid);

/* Whether both name the same namespace; in doubt they do not. proc_fd: /proc/PID; other_process: a
 * number, or "self". */
bool pg_same_namespace(int proc_fd, const char *name, const char *other_process);

/* The same of their root directories, as these are cached: a file system that a workload has made,
 * and that may not answer, is not asked. */
bool pg_same_root(int proc_fd, const char *other_process);
