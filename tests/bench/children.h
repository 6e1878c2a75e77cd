/* SPDX-License-Identifier: Apache-2.0 */
/* Children of the benchmark that call a function of it, in a cgroup of their own. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct machine;
struct pg_environment;

/* Zeroed memory that children share. */
void *child_memory(size_t size);
void child_memory_free(void *memory, size_t size);

/* A descriptor of the cgroup of the Environment's first member. */
int child_cgroup_of(const struct machine *machine, const struct pg_environment *environment);
/* The same of a new cgroup without a policy, below the benchmark's own. */
int child_cgroup_make(const struct machine *machine, const char *name);
void child_cgroup_remove(const struct machine *machine, const char *name);

#define CHILD_ANY_CPU (-1)
/* Calls function in a child, which ends with it, and with this process. */
pid_t child_start(int cgroup, int cpu, void (*function)(void *userdata), void *userdata);
/* Waits for its end; that it failed ends this process too. */
void child_finish(pid_t pid);
void child_kill(pid_t pid);

/* A socket that make() has made in the cgroup; it lives on outside of it, and is judged as one of
 * the cgroup. */
int child_socket(int cgroup, int (*make)(void *userdata), void *userdata);
