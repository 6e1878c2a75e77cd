/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process as an enforcer: the loaded programs and the Environments that it has made. One
 * descriptor drives everything that happens in the background: events, names, own addresses, aging
 * of flows. Not thread-safe.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "kernel/kernel.h"

struct pg_host;
struct pg_environment;

/* Receives what does not stop the operation but should be known, such as a name without address. */
typedef void (*pg_warning)(void *userdata, const char *code, const char *message);

/*
 * Checks that enforcement is possible, loads the programs, and ends what processes killed before
 * this one have left behind: their trees are killed, their cgroups and pins removed. What cannot be
 * removed stays confined and gives a warning. warning may be NULL. Refuses to work from inside of
 * an Environment (-EBUSY): what it starts would be in another cgroup, so it would get out.
 *
 * When interrupt_fd (-1: none) is readable, waits of this call, of pg_environment_create() and of
 * pg_environment_spawn() end with -ECANCELED. It stays the caller's.
 */
int pg_host_open(pg_warning warning, void *userdata, int interrupt_fd, struct pg_host **ret_host,
		 struct pg_error *err) PG_MUST_CHECK;

/* All Environments must have been destroyed. */
void pg_host_free(struct pg_host *host);
static inline void pg_host_freep(struct pg_host **host)
{
	pg_host_free(*host);
}

/* Readable whenever pg_host_process() has something to do. */
int pg_host_fd(const struct pg_host *host);
int pg_host_process(struct pg_host *host, struct pg_error *err) PG_MUST_CHECK;

struct pg_kernel *pg_host_kernel(const struct pg_host *host);
/* The cgroup2 mount point. */
const char *pg_host_cgroup_mount(const struct pg_host *host);
