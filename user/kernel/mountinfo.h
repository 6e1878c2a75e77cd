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

/* One mount, with the kernel's octal escapes undone. */
struct pg_mount {
	unsigned int major, minor; /* of the file system */
	char *root;		   /* the directory or file of it that is seen */
	char *point;		   /* below the root directory of the process */
	char *type;
	char *options; /* of the file system, as it is for all its mounts */
	bool read_only;
};

/* Takes the next mount off the front of *text. 1; 0 at the end; -ENOMEM. Malformed lines are passed
 * over. The caller clears *ret_mount. */
int pg_mountinfo_next(const char **text, struct pg_mount *ret_mount) PG_MUST_CHECK;
void pg_mount_clear(struct pg_mount *mount);
#define pg_automount PG_CLEANUP(pg_mount_clear)

/* Whether the word is among those that commas separate. */
bool pg_mount_has_option(const char *options, const char *option);

/*
 * The path of the process in the cgroup2 hierarchy. -ENOENT if it has none. The caller frees
 * *ret_path.
 */
int pg_cgroup2_path(const char *text, char **ret_path) PG_MUST_CHECK;

/* The path in the cgroup v1 hierarchy with the controller; as above. */
int pg_cgroup_v1_path(const char *text, const char *controller, char **ret_path) PG_MUST_CHECK;

/* Whether the controller is in a cgroup v1 hierarchy, by the lines of /proc/PID/cgroup. */
bool pg_cgroup_v1_has(const char *text, const char *controller);
