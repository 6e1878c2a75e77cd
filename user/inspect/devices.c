/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "kernel/mountinfo.h"
#include "parts.h"

/* Directories below /dev that devices are in. */
#define DEPTH_MAX     3
#define UEVENT_OCTETS 4096
#define LIST_OCTETS   65536

/* X(pattern of the kernel's name, exposure) */
#define DEVICES(X) \
	X("net/tun", DEVICE_TUN) \
	X("tap[0-9]*", DEVICE_TUN) \
	X("vhost-*", DEVICE_VHOST) \
	X("vduse/*", DEVICE_VHOST) \
	X("kvm", DEVICE_KVM) \
	X("infiniband/*", DEVICE_INFINIBAND) \
	X("vfio/*", DEVICE_VFIO) \
	X("uio[0-9]*", DEVICE_VFIO) \
	X("mem", DEVICE_HOST) \
	X("kmem", DEVICE_HOST) \
	X("port", DEVICE_HOST) \
	X("cpu/*/msr", DEVICE_HOST) \
	X("uinput", DEVICE_HOST)

bool pg_device_kind(const char *name, enum pg_exposure_id *ret_id)
{
#define PG_X(pattern, exposure) \
	if (fnmatch(pattern, name, 0) == 0) { \
		*ret_id = PG_EXPOSURE_##exposure; \
		return true; \
	}
	DEVICES(PG_X)
#undef PG_X
	return false;
}

void pg_inspect_device(struct pg_inspection *inspection, const char *path)
{
	enum pg_exposure_id id;

	if (path && strncmp(path, "/dev/", 5) == 0 && pg_device_kind(path + 5, &id))
		pg_exposures_add(inspection->found, id, inspection->member, "%s was given %s",
				 inspection->name, path);
}

bool pg_devices_allow(const char *list, bool block, unsigned int major, unsigned int minor)
{
	while (*list) {
		const char *end = strchrnul(list, '\n');
		char type, of[2][16], rights[8];

		if (sscanf(list, "%c %15[0-9*]:%15[0-9*] %7s", &type, of[0], of[1], rights) == 4 &&
		    (type == 'a' || type == (block ? 'b' : 'c')) &&
		    (*of[0] == '*' || strtoul(of[0], NULL, 10) == major) &&
		    (*of[1] == '*' || strtoul(of[1], NULL, 10) == minor) && strpbrk(rights, "rw"))
			return true;
		list = *end ? end + 1 : end;
	}
	return false;
}

/* In version 1 the kernel says what a cgroup may open; in version 2 a program decides that nobody
 * can ask, so what is there counts. */
static char *read_allowed(const struct pg_process *process)
{
	pg_autofree char *mountinfo = NULL, *path = NULL, *file = NULL, *list = NULL;
	struct pg_error unused = {};
	const char *text;
	size_t size;

	if (pg_cgroup_v1_path(process->cgroups, "devices", &path) < 0 ||
	    pg_file_read("/proc/self/mountinfo", PG_INSPECT_TEXT_MAX, &mountinfo, &size, &unused) <
		    0)
		return NULL;
	text = mountinfo;
	for (;;) {
		pg_automount struct pg_mount mount = {0};

		if (pg_mountinfo_next(&text, &mount) <= 0)
			return NULL;
		if (strcmp(mount.type, "cgroup") != 0 || strcmp(mount.root, "/") != 0 ||
		    !pg_mount_has_option(mount.options, "devices"))
			continue;
		if (asprintf(&file, "%s%s/devices.list", mount.point, path) < 0) {
			file = NULL;
			return NULL;
		}
		break;
	}
	if (pg_file_read(file, LIST_OCTETS, &list, &size, &unused) < 0)
		return NULL;
	return PG_TAKE_PTR(list);
}

/* The kernel's own name of the device: in a container it may have any. */
static bool read_name(const struct statx *node, char *name, size_t size)
{
	const char *type = S_ISBLK(node->stx_mode) ? "block" : "char";
	char path[64], text[UEVENT_OCTETS];
	const char *line;

	snprintf(path, sizeof(path), "/sys/dev/%s/%u:%u/uevent", type, node->stx_rdev_major,
		 node->stx_rdev_minor);
	if (pg_file_read_small_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	line = strstr(text, "DEVNAME=");
	if (!line)
		return false;
	line += strlen("DEVNAME=");
	snprintf(name, size, "%.*s", (int)strcspn(line, "\n"), line);
	return true;
}

struct look {
	struct pg_inspection *inspection;
	const char *allowed; /* NULL: not known */
	size_t count;
	struct statx start; /* of the file system that is not left */
};

/* As it is cached: a file system that a container has made is not asked. */
static bool look_up(int dir_fd, const char *name, struct statx *ret_status)
{
	const int flags =
		AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT;

	return statx(dir_fd, name, flags, STATX_TYPE | STATX_MODE, ret_status) == 0;
}

static bool same_file_system(const struct statx *one, const struct statx *other)
{
	return one->stx_dev_major == other->stx_dev_major &&
	       one->stx_dev_minor == other->stx_dev_minor;
}

static void look_at_node(struct look *look, const struct statx *node, const char *path)
{
	struct pg_inspection *inspection = look->inspection;
	const bool block = S_ISBLK(node->stx_mode);
	enum pg_exposure_id id;
	char name[512];

	if (look->allowed &&
	    !pg_devices_allow(look->allowed, block, node->stx_rdev_major, node->stx_rdev_minor))
		return;
	if (!read_name(node, name, sizeof(name)))
		snprintf(name, sizeof(name), "%s", path);
	if (block)
		id = PG_EXPOSURE_DEVICE_HOST;
	else if (!pg_device_kind(name, &id))
		return;
	pg_exposures_add(inspection->found, id, inspection->member, "%s has /dev/%s, as /dev/%s",
			 inspection->name, name, path);
}

static void look_into(struct look *look, int dir_fd, const char *path, int depth);

static void look_at_entry(struct look *look, int dir_fd, const char *directory, const char *name,
			  int depth)
{
	struct statx node;
	char path[512];

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    snprintf(path, sizeof(path), "%s%s%s", directory, *directory ? "/" : "", name) >=
		    (int)sizeof(path) ||
	    !look_up(dir_fd, name, &node))
		return;
	if (S_ISCHR(node.stx_mode) || S_ISBLK(node.stx_mode)) {
		look_at_node(look, &node, path);
	} else if (S_ISDIR(node.stx_mode) && depth < DEPTH_MAX &&
		   same_file_system(&node, &look->start)) {
		pg_autoclose int fd =
			openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0)
			look_into(look, fd, path, depth + 1);
	}
}

static void look_into(struct look *look, int dir_fd, const char *path, int depth)
{
	pg_autoclosedir DIR *dir = pg_dir_reopen(dir_fd);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)) && look->count++ < PG_INSPECT_DEVICES_MAX)
		look_at_entry(look, dir_fd, path, entry->d_name, depth);
}

/* File systems that the kernel answers for itself. */
static bool is_local(const char *type)
{
	static const char *const types[] = {"tmpfs", "devtmpfs", "ramfs",   "overlay",
					    "ext4",  "ext3",	 "xfs",	    "btrfs",
					    "zfs",   "aufs",	 "squashfs"};

	for (size_t i = 0; i < PG_ARRAY_SIZE(types); i++)
		if (strcmp(types[i], type) == 0)
			return true;
	return false;
}

/* A device that is mounted by itself; and whether /dev can be listed, by what is mounted last. */
static void look_at_mount(struct look *look, const struct pg_mount *mount, bool *root, bool *dev)
{
	struct pg_inspection *inspection = look->inspection;
	enum pg_exposure_id id;

	if (strcmp(mount->type, "devtmpfs") == 0 && pg_device_kind(mount->root + 1, &id))
		pg_exposures_add(inspection->found, id, inspection->member,
				 "%s has /dev%s, mounted at %s", inspection->name, mount->root,
				 mount->point);
	if (strcmp(mount->point, "/") == 0)
		*root = is_local(mount->type);
	else if (strcmp(mount->point, "/dev") == 0)
		*dev = is_local(mount->type);
}

static bool look_at_mounts(struct look *look, const char *text)
{
	bool root = false, dev = true;
	int r;

	do {
		pg_automount struct pg_mount mount = {0};

		r = pg_mountinfo_next(&text, &mount);
		if (r > 0)
			look_at_mount(look, &mount, &root, &dev);
	} while (r > 0);
	return r == 0 && root && dev;
}

void pg_inspect_devices(struct pg_inspection *inspection, const struct pg_process *process)
{
	struct look look = {.inspection = inspection};
	pg_autofree char *allowed = NULL;
	pg_autoclose int fd = -1;

	if (pg_exposures_have(inspection->found, PG_EXPOSURE_PRIVILEGED, inspection->member) ||
	    !look_at_mounts(&look, process->mountinfo))
		return;
	look.allowed = allowed = read_allowed(process);
	fd = openat(process->proc_fd, "root/dev", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && look_up(fd, "", &look.start))
		look_into(&look, fd, "", 0);
}
