/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel memory: of address sets, as the kernel accounts for maps, and of everything. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "environment/environment.h"

/* Octets of the tables of all phases, by memlock in fdinfo. */
uint64_t memory_of_sets(const struct pg_host *host, const struct pg_environment *environment);

#define MEMORY_PARTS 512

/*
 * Slab and per-CPU memory of the whole machine: what an Environment has besides its sets is in
 * there (attached programs, their files and pins, storage of the cgroup, elements of hashes), with
 * what the kernel keeps for its cgroup. Of two calls on a quiet machine only the difference means
 * anything.
 */
struct memory_parts {
	double octets;
	/* The caches of the slab, in an order that stays, and behind them memory of the CPUs. */
	struct memory_part {
		char name[32];
		double octets;
	} parts[MEMORY_PARTS];
	size_t count;
};
/* After directory entries and inodes that nobody uses are dropped. false: there is no
 * /proc/slabinfo.
 */
bool memory_read(struct memory_parts *ret, size_t readings);
