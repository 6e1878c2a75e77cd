/* SPDX-License-Identifier: Apache-2.0 */
/* Text of /proc/PID/mountinfo and /proc/PID/cgroup, see proc(5) and cgroups(7). Pure functions. */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"

/* Whether the mount point found is as good as the text promises (another may lie over it). */
typedef bool (*pg_mount_usable)(void *userdata, const char *point);

/*
 * Mount point of a file system of the type, with the kernel's octal escapes undone. A mount of its
 * root is preferred to one of a directory in it, then a later one to an earlier one, since it may
 * lie over it. -ENOENT if none is usable; malformed lines are passed over. The caller frees
 * *ret_point.
 */
int pg_mountinfo_find(const char *text, const char *type, pg_mount_usable usable, void *userdata,
		      char **ret_point) PG_MUST_CHECK;

/*
 * The path of the process in the cgroup2 hierarchy. -ENOENT if it has none. The caller frees
 * *ret_path.
 */
int pg_cgroup2_path(const char *text, char **ret_path) PG_MUST_CHECK;

/* Whether the controller is in a cgroup v1 hierarchy, by the lines of /proc/PID/cgroup. */
bool pg_cgroup_v1_has(const char *text, const char *controller);
