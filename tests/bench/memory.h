/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel memory: of address sets, as the kernel accounts for maps, and of everything. */
#pragma once

#include <stdint.h>

#include "environment/environment.h"

/* Octets of the tables of all phases, by memlock in fdinfo. */
uint64_t memory_of_sets(const struct pg_host *host, const struct pg_environment *environment);

/*
 * Octets of slab and per-CPU memory of the whole machine: what an Environment has besides its sets
 * is in there (links, their files and pins, storage of the cgroup, elements of hashes), with what
 * the kernel keeps for its cgroup. Of two calls on a quiet machine only the difference means
 * anything.
 */
double memory_of_kernel(void);
