/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps that outlive the process. Their directory appears with all of them in it, by a rename, so
 * that a process killed in the middle leaves either none or all; and it is named after the version
 * of their layouts, so that another version finds out before it touches anything.
 */
#include "pins.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kernel_internal.h"

#define MAPS_DIRECTORY PG_KERNEL_PINS_PREFIX PG_STRING(PG_ABI_VERSION)
/* Where a process that makes them collects them. */
#define NEW_DIRECTORY  "+new"

int pg_pins_join(char path[static PATH_MAX], const char *directory, const char *name,
		 struct pg_error *err)
{
	if (snprintf(path, PATH_MAX, "%s/%s", directory, name) >= PATH_MAX)
		return pg_fail(err, -ENAMETOOLONG, "the pin path below %s is too long", directory);
	return 0;
}

/*
 * Ends what a pinned link has attached, at once: the kernel frees a link whose pin was removed an
 * RCU period and a turn of its workers later. What is no link stays as it is, and before Linux 5.9
 * it ends later.
 */
static void detach_pinned(const char *directory, const char *name)
{
	pg_autofree char *path = NULL;
	pg_autoclose int fd = -1;

	if (asprintf(&path, "%s/%s", directory, name) < 0)
		return;
	fd = bpf_obj_get(path);
	if (fd >= 0)
		(void)!bpf_link_detach(fd);
}

int pg_pins_remove(const char *directory, struct pg_error *err)
{
	pg_autoclosedir DIR *dir = opendir(directory);
	struct dirent *entry;

	if (!dir)
		return errno == ENOENT ? 0
				       : pg_fail_errno(err, -errno, "opening the pin directory %s",
						       directory);
	/* Whatever is there: another version may have had other hooks. */
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		detach_pinned(directory, entry->d_name);
		if (unlinkat(dirfd(dir), entry->d_name, 0) && errno != ENOENT)
			return pg_fail_errno(err, -errno, "removing the pin %s/%s", directory,
					     entry->d_name);
	}
	if (rmdir(directory) && errno != ENOENT)
		return pg_fail_errno(err, -errno, "removing the pin directory %s", directory);
	return 0;
}

/* Whether the maps are there; -EPROTO if another version's are. */
static int look_for_maps(const char *pins, bool *ret_found, struct pg_error *err)
{
	pg_autoclosedir DIR *dir = opendir(pins);
	const size_t prefix = strlen(PG_KERNEL_PINS_PREFIX);
	struct dirent *entry;
	bool found = false;

	if (!dir && errno != ENOENT)
		return pg_fail_errno(err, -errno, "opening the pin directory %s", pins);
	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, PG_KERNEL_PINS_PREFIX, prefix) != 0)
			continue;
		if (strcmp(entry->d_name, MAPS_DIRECTORY) != 0)
			return pg_fail(err, -EPROTO,
				       "the Environments below %s are of a Phasegate with ABI"
				       " version %s, and this one has version %d: end them with"
				       " that one first",
				       pins, entry->d_name + prefix, PG_ABI_VERSION);
		found = true;
	}
	*ret_found = found;
	return 0;
}

static int check_shape(const struct bpf_map *map, int fd, const char *path, struct pg_error *err)
{
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		return pg_fail_errno(err, -errno, "reading what %s is", path);
	if (info.type != bpf_map__type(map) || info.key_size != bpf_map__key_size(map) ||
	    info.value_size != bpf_map__value_size(map) ||
	    info.max_entries != bpf_map__max_entries(map) ||
	    info.map_flags != bpf_map__map_flags(map))
		return pg_fail(err, -EPROTO,
			       "the map pinned at %s is of another shape (type %u, key %u, value"
			       " %u, %u elements, flags %#x): another version of Phasegate has"
			       " made it; end its Environments with that one first",
			       path, info.type, info.key_size, info.value_size, info.max_entries,
			       info.map_flags);
	return 0;
}

static int adopt_map(struct bpf_map *map, const char *directory, struct pg_error *err)
{
	pg_autoclose int fd = -1;
	char path[PATH_MAX];
	int error = pg_pins_join(path, directory, bpf_map__name(map), err);

	if (error)
		return error;
	fd = bpf_obj_get(path);
	if (fd < 0 && errno == ENOENT)
		return pg_fail(err, -EPROTO,
			       "%s is missing among the pinned maps: another version of Phasegate"
			       " has made them, or somebody has removed it",
			       path);
	if (fd < 0)
		return pg_fail_errno(err, -errno, "opening the pinned map %s", path);
	error = check_shape(map, fd, path, err);
	if (error)
		return error;
	error = bpf_map__reuse_fd(map, fd);
	return error ? pg_fail_errno(err, error, "using the pinned map %s", path) : 0;
}

int pg_maps_adopt(struct pg_kernel *kernel, const char *pins, bool *ret_adopted,
		  struct pg_error *err)
{
	char directory[PATH_MAX];
	struct bpf_map *map;
	bool found = false;
	int error = look_for_maps(pins, &found, err);

	if (!error)
		error = pg_pins_join(directory, pins, MAPS_DIRECTORY, err);
	if (error)
		return error;
	bpf_object__for_each_map(map, kernel->skeleton->obj)
	{
		error = found ? adopt_map(map, directory, err) : 0;
		if (error)
			return error;
	}
	*ret_adopted = found;
	return 0;
}

static int make_directory(const char *path, struct pg_error *err)
{
	if (mkdir(path, 0700) && errno != EEXIST)
		return pg_fail_errno(err, -errno, "making the directory %s", path);
	return 0;
}

static int pin_map(const struct bpf_map *map, const char *directory, struct pg_error *err)
{
	char path[PATH_MAX];
	int error = pg_pins_join(path, directory, bpf_map__name(map), err);

	if (error)
		return error;
	if (bpf_obj_pin(bpf_map__fd(map), path))
		return pg_fail_errno(err, -errno, "pinning the map %s", path);
	return 0;
}

int pg_maps_pin(struct pg_kernel *kernel, const char *pins, struct pg_error *err)
{
	char directory[PATH_MAX], new[PATH_MAX];
	struct bpf_map *map;
	int error = pg_pins_join(new, pins, NEW_DIRECTORY, err);

	if (!error)
		error = pg_pins_join(directory, pins, MAPS_DIRECTORY, err);
	/* Of a process that was killed before the rename. */
	if (!error)
		error = pg_pins_remove(new, err);
	if (!error)
		error = make_directory(pins, err);
	if (!error)
		error = make_directory(new, err);
	if (error)
		return error;
	bpf_object__for_each_map(map, kernel->skeleton->obj)
	{
		error = pin_map(map, new, err);
		if (error)
			break;
	}
	if (!error && rename(new, directory))
		error = pg_fail_errno(err, -errno, "renaming %s to %s", new, directory);
	if (error && pg_pins_remove(new, NULL))
		pg_error_prefix(err, "%s stays behind", new);
	return error;
}

int pg_kernel_unpin(const char *pins, struct pg_error *err)
{
	char directory[PATH_MAX];
	int error = pg_pins_join(directory, pins, MAPS_DIRECTORY, err);

	return error ? error : pg_pins_remove(directory, err);
}
