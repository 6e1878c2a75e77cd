/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "kernel/mountinfo.h"
#include "parts.h"

/* The path of the place in its file system: that of the mount that it is below last. */
static int place_of(const char *mountinfo, const char *path, char **ret_inside, unsigned int *major,
		    unsigned int *minor)
{
	size_t longest = 0;
	int r;

	for (;;) {
		pg_automount struct pg_mount mount = {0};
		const char *rest, *root;
		char *inside;
		size_t length;

		r = pg_mountinfo_next(&mountinfo, &mount);
		if (r <= 0)
			break;
		length = strlen(mount.point);
		if (length < longest || !pg_path_is_within(path, mount.point))
			continue;
		longest = length;
		rest = strcmp(mount.point, "/") == 0 ? path : path + length;
		root = strcmp(mount.root, "/") == 0 ? "" : mount.root;
		if (strcmp(rest, "/") == 0)
			rest = "";
		if (asprintf(&inside, "%s%s", root, *root || *rest ? rest : "/") < 0)
			return -ENOMEM;
		free(*ret_inside);
		*ret_inside = inside;
		*major = mount.major;
		*minor = mount.minor;
	}
	return r;
}

int pg_host_places_find(const char *mountinfo, const struct pg_inspect_place *places, size_t count,
			struct pg_host_places *ret_places)
{
	pg_autohostplaces struct pg_host_places found = {0};

	for (size_t i = 0; i < count && found.count < PG_INSPECT_PLACES_MAX; i++) {
		pg_autofree char *inside = NULL;
		unsigned int major = 0, minor = 0;

		if (place_of(mountinfo, places[i].path, &inside, &major, &minor) < 0)
			return -ENOMEM;
		if (!inside)
			continue;
		found.items[found.count].path = strdup(places[i].path);
		if (!found.items[found.count].path)
			return -ENOMEM;
		found.items[found.count].inside = PG_TAKE_PTR(inside);
		found.items[found.count].major = major;
		found.items[found.count].minor = minor;
		found.items[found.count++].id = places[i].id;
	}
	*ret_places = found;
	found = (struct pg_host_places){0};
	return 0;
}

void pg_host_places_clear(struct pg_host_places *places)
{
	for (size_t i = 0; i < places->count; i++) {
		free(places->items[i].path);
		free(places->items[i].inside);
	}
	places->count = 0;
}

/* One place for each kind: the first ones have the others in them. */
static uint64_t look_at_places(struct pg_inspection *inspection, const struct pg_mount *mount)
{
	const struct pg_host_places *places = inspection->places;
	uint64_t told = 0;

	for (size_t i = 0; places && i < places->count; i++) {
		const enum pg_exposure_id id = places->items[i].id;

		if (places->items[i].major != mount->major ||
		    places->items[i].minor != mount->minor ||
		    !pg_path_is_within(places->items[i].inside, mount->root))
			continue;
		/* A socket is there to be connected to however it is mounted. */
		if (told >> id & 1 || (id == PG_EXPOSURE_HOST_FILES && mount->read_only))
			continue;
		told |= 1ULL << id;
		pg_exposures_add(inspection->found, id, inspection->member,
				 "%s has the host's %s, mounted at %s", inspection->name,
				 places->items[i].path, mount->point);
	}
	return told;
}

/* Sockets that are known by their names, wherever the runtime that has them keeps them. */
static const char *const runtime_sockets[] = {
	"docker.sock",	   "containerd.sock",	"containerd.sock.ttrpc", "podman.sock",
	"crio.sock",	   "dockershim.sock",	"cri-dockerd.sock",	 "buildkitd.sock",
	"lxd/unix.socket", "incus/unix.socket", "system_bus_socket",	 "systemd/private",
	"io.podman",	   "frakti.sock",	"libvirt-sock",		 "docker.sock.raw",
};

static bool ends_with(const char *path, const char *end)
{
	const size_t length = strlen(path), wanted = strlen(end);

	return length > wanted && path[length - wanted - 1] == '/' &&
	       strcmp(path + length - wanted, end) == 0;
}

bool pg_is_runtime_socket(const char *path)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(runtime_sockets); i++)
		if (ends_with(path, runtime_sockets[i]))
			return true;
	return false;
}

static bool looks_like_a_socket(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot && (strcmp(dot, ".sock") == 0 || strcmp(dot, ".socket") == 0);
}

static void look_at_sockets(struct pg_inspection *inspection, const struct pg_mount *mount)
{
	if (pg_is_runtime_socket(mount->root) || pg_is_runtime_socket(mount->point))
		pg_exposures_add(inspection->found, PG_EXPOSURE_RUNTIME_SOCKET, inspection->member,
				 "%s has the host's %s, mounted at %s", inspection->name,
				 mount->root, mount->point);
	else if (looks_like_a_socket(mount->root))
		pg_exposures_add(inspection->found, PG_EXPOSURE_HOST_SOCKET, inspection->member,
				 "%s has the host's socket %s, mounted at %s", inspection->name,
				 mount->root, mount->point);
}

void pg_inspect_source(struct pg_inspection *inspection, const char *path, bool read_only)
{
	const struct pg_host_places *places = inspection->places;
	enum pg_exposure_id id;

	for (size_t i = 0; places && i < places->count; i++) {
		id = places->items[i].id;
		if (!pg_path_is_within(places->items[i].path, path) ||
		    (id == PG_EXPOSURE_HOST_FILES && read_only) ||
		    pg_exposures_have(inspection->found, id, inspection->member))
			continue;
		pg_exposures_add(inspection->found, id, inspection->member,
				 "%s was given the host's %s, with %s", inspection->name, path,
				 places->items[i].path);
	}
	if (pg_is_runtime_socket(path) &&
	    !pg_exposures_have(inspection->found, PG_EXPOSURE_RUNTIME_SOCKET, inspection->member))
		pg_exposures_add(inspection->found, PG_EXPOSURE_RUNTIME_SOCKET, inspection->member,
				 "%s was given the host's %s", inspection->name, path);
}

/* Whether path is above the one that the process is confined by. Both are as this process sees
 * them: with its own cgroup namespace. */
static bool is_above(const char *path, const char *cgroup)
{
	return strcmp(path, cgroup) != 0 && pg_path_is_within(cgroup, path);
}

/* Out of its cgroup namespace the kernel writes the way to it. */
static bool leads_up(const char *root)
{
	return strncmp(root, "/..", 3) == 0;
}

static void look_at_cgroups(struct pg_inspection *inspection, const struct pg_process *process,
			    const struct pg_mount *mount)
{
	static const char *const controllers[] = {"devices", "net_cls", "net_prio", "memory",
						  "freezer", "cpu",	"pids",	    "name=systemd"};
	const char *cgroup = NULL;
	pg_autofree char *path = NULL;

	if (mount->read_only)
		return;
	if (strcmp(mount->type, "cgroup2") == 0)
		cgroup = inspection->cgroup;
	else if (strcmp(mount->type, "cgroup") != 0)
		return;
	for (size_t i = 0; !cgroup && i < PG_ARRAY_SIZE(controllers); i++) {
		if (!pg_mount_has_option(mount->options, controllers[i]))
			continue;
		if (pg_cgroup_v1_path(process->cgroups, controllers[i], &path) < 0)
			return;
		cgroup = path;
	}
	if (cgroup && !leads_up(mount->root) && is_above(mount->root, cgroup))
		pg_exposures_add(inspection->found, PG_EXPOSURE_CGROUP_WRITABLE, inspection->member,
				 "%s can write to the host's cgroups at %s (%s of the hierarchy):"
				 " it can move itself out of its own",
				 inspection->name, mount->point, mount->root);
}

/* /proc/sys is covered read-only below this mount of proc. */
static int is_covered(const char *mountinfo, const char *point, bool *ret_covered)
{
	*ret_covered = false;
	for (;;) {
		pg_automount struct pg_mount mount = {0};
		const int r = pg_mountinfo_next(&mountinfo, &mount);

		if (r <= 0)
			return r;
		if (pg_path_is_within(mount.point, point) &&
		    strcmp(mount.point + strlen(point), "/sys") == 0 && mount.read_only)
			*ret_covered = true;
	}
}

/* kernel.core_pattern and kernel.modprobe are commands that run on the host. */
static void look_at_proc(struct pg_inspection *inspection, const struct pg_process *process,
			 const struct pg_mount *mount)
{
	bool covered;

	if (!process->own_user || mount->read_only || strcmp(mount->type, "proc") != 0 ||
	    !(strcmp(mount->root, "/") == 0 || strcmp(mount->root, "/sys") == 0 ||
	      pg_path_is_within(mount->root, "/sys/kernel")))
		return;
	if (is_covered(process->mountinfo, mount->point, &covered) < 0)
		inspection->found->incomplete = true;
	else if (!covered)
		pg_exposures_add(inspection->found, PG_EXPOSURE_PROC_WRITABLE, inspection->member,
				 "%s can write to the host's kernel settings in %s: some are"
				 " commands that the host executes",
				 inspection->name, mount->point);
}

static void look_at(struct pg_inspection *inspection, const struct pg_process *process,
		    const struct pg_mount *mount)
{
	if (!(look_at_places(inspection, mount) >> PG_EXPOSURE_RUNTIME_SOCKET & 1))
		look_at_sockets(inspection, mount);
	if (pg_exposures_have(inspection->found, PG_EXPOSURE_PRIVILEGED, inspection->member))
		return;
	look_at_cgroups(inspection, process, mount);
	look_at_proc(inspection, process, mount);
}

void pg_inspect_mounts(struct pg_inspection *inspection, const struct pg_process *process)
{
	const char *text = process->mountinfo;
	int r;

	do {
		pg_automount struct pg_mount mount = {0};

		r = pg_mountinfo_next(&text, &mount);
		if (r > 0)
			look_at(inspection, process, &mount);
	} while (r > 0);
	if (r < 0)
		inspection->found->incomplete = true;
}
