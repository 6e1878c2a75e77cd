/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says about Phasegate's programs and maps, those of every process and those that
 * only pins hold. Nothing is changed but that the kernel takes the time of runs.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define PG_STATISTICS_NAME 32

struct pg_program_info {
	uint32_t id;
	char name[PG_STATISTICS_NAME];
	char hook[PG_STATISTICS_NAME]; /* what it is made for: "cgroup_skb/egress" */
	uint64_t runs, run_ns;	       /* timed ones since it was loaded */
	uint32_t verified; /* instructions that the verifier looked at; 0: before Linux 5.16 */
	uint32_t translated, jited; /* octets */
	uint64_t memory;	    /* octets */
};

struct pg_map_info {
	char name[PG_STATISTICS_NAME];
	const char *type;
	uint32_t count;	   /* maps of the name */
	bool counted;	   /* the kernel tells the elements of that type */
	uint64_t elements; /* in them; of arrays, their size */
	uint64_t memory;   /* octets */
};

/* That the program is attached somewhere. */
struct pg_program_place {
	uint32_t program;
	char environment[NAME_MAX + 1]; /* its name, or "+guard" */
};

/* Programs in the order of their ids, the maps that they use and what is in their maps of maps, by
 * name. */
struct pg_statistics {
	struct pg_program_info *programs;
	struct pg_map_info *maps;
	struct pg_program_place *places;
	size_t program_count, map_count, place_count, place_room;
};

/* While the descriptor is open, all BPF programs of the host are timed, which costs each run some
 * tens of ns. */
int pg_statistics_start(int *ret_fd, struct pg_error *err) PG_MUST_CHECK;
/* pins: where the guard's are; of places it reads the guard's only. The caller clears
 * *ret_statistics, also after a failure. */
int pg_statistics_read(const char *pins, struct pg_statistics *ret_statistics,
		       struct pg_error *err) PG_MUST_CHECK;
/* A cgroup of an Environment. */
int pg_statistics_add_place(struct pg_statistics *statistics, const char *environment,
			    int cgroup_fd, struct pg_error *err) PG_MUST_CHECK;
void pg_statistics_clear(struct pg_statistics *statistics);
