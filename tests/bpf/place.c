// SPDX-License-Identifier: Apache-2.0
#include "place.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static const char *cgroup_mount(void)
{
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char path[256];

	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", mounts[i]);
		if (!access(path, W_OK))
			return mounts[i];
	}
	printf("1..0 # SKIP no cgroup2 at the usual places\n");
	exit(CHECK_SKIPPED);
}

bool place_make(struct place *place)
{
	struct stat status;

	snprintf(place->mount, sizeof(place->mount), "%s", cgroup_mount());
	snprintf(place->outer, sizeof(place->outer), "%s/phasegate-test-%d", place->mount,
		 getpid());
	snprintf(place->inner, sizeof(place->inner), "%s/inner", place->outer);
	snprintf(place->other, sizeof(place->other), "%s-other", place->outer);
	if (mkdir(place->outer, 0755) || mkdir(place->inner, 0755) || mkdir(place->other, 0755) ||
	    stat(place->outer, &status)) {
		perror(place->outer);
		return false;
	}
	place->id = status.st_ino;
	place->level = 1;
	return true;
}

bool place_enter(const char *directory)
{
	char path[400];
	FILE *file;
	bool written;

	snprintf(path, sizeof(path), "%s/cgroup.procs", directory);
	file = fopen(path, "we");
	if (!file)
		return false;
	written = fprintf(file, "%d\n", getpid()) > 0;
	return !fclose(file) && written;
}

void place_remove(const struct place *place)
{
	if (!place_enter(place->mount))
		perror(place->mount);
	if (rmdir(place->inner) || rmdir(place->outer) || rmdir(place->other))
		perror(place->outer);
}
