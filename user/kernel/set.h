/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address sets in the kernel: creating, filling and letting go. How membership is stored is in
 * abi/set.h.
 */
#pragma once

#include "compile/address_set.h"
#include "kernel.h"

/* What struct pg_phase_slot says of a static set. Zero tables: the set is empty and has no slot. */
struct pg_kernel_set {
	uint32_t slot;
	uint32_t id; /* of the inner map; 0: not known */
	uint8_t tables;
};

/*
 * Creates and fills it, or takes part in one that has the same addresses; on failure nothing is
 * left behind. It is there when the next header has been written.
 */
int pg_set_create(struct pg_kernel *kernel, const struct pg_address_set *set,
		  struct pg_kernel_set *ret_set, struct pg_error *err) PG_MUST_CHECK;

/* Of pinned maps: the set is in use once more, as a header names it. -ENOENT: the slot has another
 * one, or one of its tables is not there. */
int pg_set_occupy(struct pg_kernel *kernel, const struct pg_kernel_set *set,
		  struct pg_error *err) PG_MUST_CHECK;

/* One header less names the set. Once none does, and no hook run can know it, it goes: see
 * pg_kernel_tidy(). */
void pg_set_destroy(struct pg_kernel *kernel, struct pg_kernel_set *set);

/* Learned addresses; .fd is the inner map. Who has taught what is in environment/learned.h. */
struct pg_kernel_learned {
	uint32_t slot;
	uint32_t id; /* of the inner map */
	int fd;
};

int pg_learned_create(struct pg_kernel *kernel, size_t capacity,
		      struct pg_kernel_learned *ret_learned, struct pg_error *err) PG_MUST_CHECK;
/* Of pinned maps: the same, and opens it. */
int pg_learned_occupy(struct pg_kernel *kernel, uint32_t slot, uint32_t id,
		      struct pg_kernel_learned *ret_learned, struct pg_error *err) PG_MUST_CHECK;
/* As with sets. */
void pg_learned_destroy(struct pg_kernel *kernel, struct pg_kernel_learned *learned);

/* Lets go of what was destroyed, without waiting for it. Whether to call again, a little later. */
bool pg_kernel_tidy(struct pg_kernel *kernel);

/* Sets the expiry (CLOCK_BOOTTIME ns) of the address. -E2BIG: the table is full. */
int pg_learned_put(const struct pg_kernel_learned *learned, const struct pg_addr *addr,
		   uint64_t expires, struct pg_error *err) PG_MUST_CHECK;
void pg_learned_remove(const struct pg_kernel_learned *learned, const struct pg_addr *addr);
/* Calls back for each address; the first negative result ends it. Nothing is added or removed
 * meanwhile. */
typedef int (*pg_learned_visit)(void *userdata, const struct pg_addr *addr, uint64_t expires);
int pg_learned_walk(const struct pg_kernel_learned *learned, pg_learned_visit visit, void *userdata,
		    struct pg_error *err) PG_MUST_CHECK;
/* Whether the address is there; draining ones count only if draining is wanted. */
bool pg_learned_contains(const struct pg_kernel_learned *learned, const struct pg_addr *addr,
			 bool draining);

/*
 * Whether the slot of a phase lists the address, as the programs look it up: in what the outer maps
 * have now, not in what this process has put there. -ENOENT: a table that the slot names is
 * missing. May wait some RCU periods.
 */
int pg_slot_contains(const struct pg_kernel *kernel, const struct pg_phase_slot *slot,
		     const struct pg_addr *addr, bool *ret_found,
		     struct pg_error *err) PG_MUST_CHECK;

/*
 * Empties all slots of sets and learned addresses, and all states, that are not in use: what a
 * process killed in the middle of something has left in pinned maps. After everything that is in
 * use was occupied. Returns how many there were. Waits for some RCU periods, if there were any.
 */
size_t pg_kernel_sweep(struct pg_kernel *kernel);
