/* SPDX-License-Identifier: Apache-2.0 */
/* Private to statistics*.c. */
#pragma once

#include "statistics.h"

/* The objects that this program was built with: what programs and maps there may be. */
struct pg_known {
	struct phasegate_bpf *phasegate;
	struct links_bpf *links;
	struct guard_bpf *guard;
	struct exec_bpf *exec;
};

/* Octets of the program or map behind the descriptor, as the kernel accounts for them. */
uint64_t pg_statistics_memory(int fd);

/* statistics_maps.c, statistics_places.c: each fills its part of *statistics. */
int pg_statistics_read_maps(const struct pg_known *known, struct pg_statistics *statistics,
			    struct pg_error *err) PG_MUST_CHECK;
int pg_statistics_read_guard(const char *pins, struct pg_statistics *statistics,
			     struct pg_error *err) PG_MUST_CHECK;
