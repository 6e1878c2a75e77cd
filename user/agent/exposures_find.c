/* SPDX-License-Identifier: Apache-2.0 */
#include "exposures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "containers.h"
#include "environment/cgroup.h"
#include "environment/record.h"
#include "inspect/pids.h"

/* Of a host as most are; more sockets of runtimes come from the settings. */
static const struct pg_inspect_place standard[] = {
	{"/", PG_EXPOSURE_HOST_FILES},
	{"/etc", PG_EXPOSURE_HOST_FILES},
	{"/usr", PG_EXPOSURE_HOST_FILES},
	{PG_RECORD_ROOT, PG_EXPOSURE_HOST_FILES},
	{"/sys/fs/bpf", PG_EXPOSURE_BPF_FILES},
	{"/run/docker.sock", PG_EXPOSURE_RUNTIME_SOCKET},
	{"/run/containerd/containerd.sock", PG_EXPOSURE_RUNTIME_SOCKET},
	{"/run/podman/podman.sock", PG_EXPOSURE_RUNTIME_SOCKET},
	{"/run/crio/crio.sock", PG_EXPOSURE_RUNTIME_SOCKET},
	{"/run/dbus/system_bus_socket", PG_EXPOSURE_RUNTIME_SOCKET},
	{"/run/systemd/private", PG_EXPOSURE_RUNTIME_SOCKET},
};

struct places {
	struct pg_inspect_place items[PG_INSPECT_PLACES_MAX];
	size_t count;
};

static void free_places(struct places *places)
{
	for (size_t i = 0; i < places->count; i++)
		free((char *)places->items[i].path);
}

/* As the file system has it, without symbolic links; one that is not there cannot be mounted. */
static void add_place(struct places *places, const char *path, enum pg_exposure_id id)
{
	char *real = places->count < PG_INSPECT_PLACES_MAX ? realpath(path, NULL) : NULL;

	if (real)
		places->items[places->count++] = (struct pg_inspect_place){real, id};
}

static void add_runtimes(struct places *places, const struct pg_config *config)
{
	for (size_t i = 0; i < PG_RUNTIME_COUNT; i++) {
		pg_autofree char *path = NULL;
		const char *file = i == PG_RUNTIME_CONTAINERD ? "/containerd.sock" : "";

		if (asprintf(&path, "%s%s", config->runtimes[i], file) < 0)
			path = NULL;
		else
			add_place(places, path, PG_EXPOSURE_RUNTIME_SOCKET);
	}
}

int pg_exposures_places(const struct pg_agent *agent, struct pg_host_places *ret_places)
{
	PG_CLEANUP(free_places) struct places places = {0};
	pg_autofree char *mountinfo = NULL;
	struct pg_error unused = {};
	size_t size;
	int error;

	for (size_t i = 0; i < PG_ARRAY_SIZE(standard); i++)
		add_place(&places, standard[i].path, standard[i].id);
	add_runtimes(&places, agent->config);
	error = pg_file_read("/proc/self/mountinfo", PG_INSPECT_TEXT_MAX, &mountinfo, &size,
			     &unused);
	return error ? error
		     : pg_host_places_find(mountinfo, places.items, places.count, ret_places);
}

/* Those that are not known yet. -EAGAIN: one had ended before it could be looked at. */
static int inspect_new(struct pg_inspection *inspection, int cgroup_fd, struct pg_pids *known)
{
	pg_autofree pid_t *pids = NULL;
	struct pg_error unused = {};
	size_t count = 0;
	int missed = 0, error = pg_cgroup_pids(cgroup_fd, &pids, &count, &unused);

	pg_pids_sort(known);
	for (size_t i = count; !error && i-- > 0;) {
		if (pg_pids_have(known, pids[i]))
			continue;
		if (pg_inspect_process(inspection, pids[i]))
			error = pg_pids_add(known, pids[i]);
		else
			missed = -EAGAIN;
	}
	return error ? error : missed;
}

static int inspect_processes(void *userdata, int cgroup_fd)
{
	pg_autopids struct pg_pids known = {};
	int error = -EAGAIN;

	for (int i = 0; i < PG_INSPECT_LISTS_MAX && error == -EAGAIN; i++)
		error = inspect_new(userdata, cgroup_fd, &known);
	return pg_cgroup_is_gone(error) ? 0 : error;
}

void pg_exposures_look(int cgroup_fd, struct pg_inspection *inspection)
{
	int error = pg_cgroup_walk(cgroup_fd, inspect_processes, inspection);

	if (error)
		pg_exposures_add(inspection->found, PG_EXPOSURE_NOT_INSPECTED, inspection->member,
				 "the processes of %s cannot be told: %s", inspection->name,
				 strerror(-error));
	pg_inspect_vsock(inspection);
}

static void look_into_cgroup(const struct pg_agent *agent, const char *path,
			     struct pg_inspection *inspection)
{
	pg_autoclose int mount_fd =
		open(pg_host_cgroup_mount(agent->host), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pg_autoclose int cgroup_fd = -1;
	struct pg_error unused = {};
	int error = mount_fd < 0 ? -errno : pg_cgroup_open(mount_fd, path + 1, &cgroup_fd, &unused);

	if (!error)
		pg_exposures_look(cgroup_fd, inspection);
	/* What is gone meanwhile is refused when it is to be attached to. */
	else if (!pg_cgroup_is_gone(error))
		pg_exposures_add(inspection->found, PG_EXPOSURE_NOT_INSPECTED, inspection->member,
				 "the processes of %s cannot be told: %s", inspection->name,
				 strerror(-error));
}

static void inspect_container(struct pg_inspection *inspection,
			      const struct pg_container *container)
{
	pg_inspect_runtime(inspection, container->executor);
	for (size_t i = 0; i < container->device_count; i++)
		pg_inspect_device(inspection, container->devices[i]);
	for (size_t i = 0; i < container->mount_count; i++)
		pg_inspect_source(inspection, container->mounts[i].source,
				  container->mounts[i].read_only);
	/* First of all: who is inside may have made more processes than are looked at. */
	pg_inspect_process(inspection, container->pid);
	if (container->privileged)
		pg_exposures_add(inspection->found, PG_EXPOSURE_PRIVILEGED, inspection->member,
				 "%s is privileged: its root can leave it, and with it the policy",
				 inspection->name);
}

static void look_at_member(const struct pg_agent *agent, const struct pg_host_places *places,
			   struct pg_member_list *list, size_t member)
{
	const struct pg_member_container *container = list->containers[member];
	struct pg_inspection inspection = {
		.member = member,
		.cgroup = list->paths[member],
		.places = places,
		.found = &list->exposures,
	};
	pg_autofree char *name = NULL;

	if (asprintf(&name, container ? "the container %s" : "the cgroup %s",
		     container ? container->container.name : list->paths[member]) < 0) {
		name = NULL;
		list->exposures.incomplete = true;
		return;
	}
	inspection.name = name;
	if (container)
		inspect_container(&inspection, &container->container);
	look_into_cgroup(agent, list->paths[member], &inspection);
	if (inspection.net_capabilities && !list->net_capabilities)
		list->net_member = member;
	list->net_capabilities |= inspection.net_capabilities;
}

static void add_unguarded(void *userdata, const struct pg_link_view *link)
{
	struct pg_member_list *list = userdata;
	const char *device = link->device ? link->device : link->interface;

	/* Of the host's network it was told before anything was made. */
	if (link->guard != PG_LINK_GUARD_NONE || link->reason == PG_UNGUARDED_HOST_NETWORK)
		return;
	pg_exposures_add(&list->exposures, PG_EXPOSURE_UNGUARDED_LINK, list->net_member,
			 "a container may have CAP_NET_RAW or CAP_NET_ADMIN, and nothing guards its"
			 " interface %s (%s): what it sends by packet sockets is judged by nothing",
			 device ? device : "", pg_unguarded_text(link->reason));
}

void pg_exposures_find_links(const struct pg_environment *environment, struct pg_member_list *list)
{
	if (list->net_capabilities)
		pg_environment_visit_links(environment, add_unguarded, list);
}

void pg_exposures_find(const struct pg_agent *agent, struct pg_member_list *list)
{
	pg_autohostplaces struct pg_host_places places = {0};

	if (list->count == 0)
		return;
	if (pg_exposures_places(agent, &places) < 0)
		list->exposures.incomplete = true;
	for (size_t i = 0; i < list->count; i++)
		look_at_member(agent, &places, list, i);
}
