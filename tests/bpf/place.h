/* SPDX-License-Identifier: Apache-2.0 */
/* Three cgroups of the test's own, the inner one below the outer. A socket stays in the one it was
 * made in. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct place {
	char mount[256], outer[300], inner[320], other[320];
	uint64_t id; /* of the outer one */
	unsigned int level;
};

/* Without cgroup2 at the usual places it ends the process with CHECK_SKIPPED. */
bool place_make(struct place *place);
/* Moves this process into the cgroup directory. */
bool place_enter(const char *directory);
/* Leaves and removes them. */
void place_remove(const struct place *place);
