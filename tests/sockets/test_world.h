/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world for socket tests: a network namespace with lo and one more interface, cgroups, and a
 * janitor process that removes the cgroups when the test ends, however it ends.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) check(!!(condition), #condition, __FILE__, __LINE__)

static inline void check(int holds, const char *text, const char *file, int line)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: failed: %s (errno: %m)\n", file, line, text);
	exit(1);
}

/* The test process moves among these; a socket belongs to the cgroup in which it was made. */
enum place {
	PLACE_OWN,   /* the Environment's cgroup */
	PLACE_DEEP,  /* below it */
	PLACE_OTHER, /* another one */
	PLACE_COUNT,
};

struct world {
	int home_netns, netns; /* descriptors of the namespaces; the test begins in the second */
	uint64_t cgroup_id[PLACE_COUNT];
	int mark_map;
};

/* Addresses of that interface (a veth pair whose other end is silent); SILENT4 is beyond it. */
#define LOCAL4	"192.0.2.1"
#define SILENT4 "192.0.2.77"
#define LOCAL6	"2001:db8::1"

/* Exits with 77 and a reason if there cannot be one. */
void world_make(struct world *world, const char *cgroup2);

void world_enter(enum place place);
