/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard of the cgroup in which Environments' cgroups are made: whatever is in a child of it (or
 * below) that was not admitted is denied connect, sendmsg and every packet, loopback too. So what
 * is started in a child without an Environment, or outlives it, has no network.
 *
 * Programs, links and the map of what is admitted are pinned in pins/+guard; they stay in force
 * when every process has gone, and all processes use the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <phasegate/abi/guard.h>

#include "base/error.h"

#define PG_GUARD_PINS "+guard"

/*
 * Puts the guard in force at the cgroup, unless it is already, and lets the cgroups in admitted
 * through and no others. The caller holds the lock under which Environments are made.
 */
int pg_guard_install(const char *pins, int cgroup_fd, const uint64_t *admitted, size_t count,
		     struct pg_error *err) PG_MUST_CHECK;
/* Whether programs of anybody's judge what the cgroup sends: a guard, wherever it is pinned. */
bool pg_guard_is_attached(int cgroup_fd);
/* Takes the guard away. */
int pg_guard_remove(const char *pins, struct pg_error *err) PG_MUST_CHECK;
/* Whether the guard is in force at the cgroup. */
int pg_guard_check(const char *pins, uint64_t cgroup_id, bool *ret_in_force,
		   struct pg_error *err) PG_MUST_CHECK;

/* The child may send, from now on or no more; done by whoever makes the Environment, once its own
 * hooks are in force there. Without a guard there is nothing to do. */
int pg_guard_admit(const char *pins, uint64_t cgroup_id, struct pg_error *err) PG_MUST_CHECK;
int pg_guard_withdraw(const char *pins, uint64_t cgroup_id, struct pg_error *err) PG_MUST_CHECK;
