/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read about processes and containers, in which they have a say: texts of /proc (names of
 * mount points and cgroups), lists of devices, and what a runtime says of a container (names,
 * labels, environment). The first octet says which. Beside not crashing: what is accepted keeps to
 * its limits.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "container/inspect.h"
#include "inspect/parts.h"
#include "kernel/mountinfo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static bool is_usable(void *userdata, const char *point)
{
	return point[0] == '/' && strlen(point) % 2;
}

static void read_mounts(const char *text)
{
	pg_autofree char *point = NULL;
	const char *rest = text;
	size_t lines = 1, mounts = 0;

	for (const char *line = text; (line = strchr(line, '\n')); line++)
		lines++;
	for (;;) {
		pg_automount struct pg_mount mount = {};
		const int more = pg_mountinfo_next(&rest, &mount);

		if (more <= 0)
			break;
		require(mount.root && mount.point && mount.type && mount.options);
		require(strlen(mount.point) <= strlen(text));
		pg_mount_has_option(mount.options, "rw");
		pg_path_is_within(mount.point, mount.root);
		mounts++;
	}
	require(mounts <= lines && !*rest);
	if (pg_mountinfo_find(text, "cgroup2", is_usable, NULL, &point) == 0)
		require(is_usable(NULL, point));
}

static void read_cgroups(const char *text)
{
	pg_autofree char *path = NULL, *devices = NULL;

	if (pg_cgroup2_path(text, &path) == 0)
		require(path[0] == '/' && strstr(text, path));
	if (pg_cgroup_v1_path(text, "devices", &devices) == 0)
		require(strstr(text, devices));
	pg_cgroup_v1_has(text, "net_cls");
}

static void read_status(const char *text)
{
	uint64_t number;

	pg_status_number(text, "CapBnd", 16, &number);
	pg_status_number(text, "Uid", 10, &number);
	pg_devices_allow(text, true, 8, 1);
	pg_devices_allow(text, false, 10, 200);
}

static void read_container(const char *text, size_t size)
{
	pg_autocontainer struct pg_container container = {};
	pg_autojson struct pg_json *json = NULL;
	struct pg_error err = {};

	if (pg_container_parse(text, size, &json, &err))
		return;
	pg_container_network_is_internal(json);
	if (pg_container_read(json, &container, &err)) {
		require(*err.text);
		return;
	}
	require(container.id && container.pid > 0);
	require(container.network_count <= PG_CONTAINER_NETWORKS_MAX);
	require(container.dns_count <= PG_CONTAINER_DNS_MAX);
	require(container.proxy_count <= PG_CONTAINER_PROXIES_MAX);
	require(container.extra_host_count <= PG_CONTAINER_HOSTS_MAX);
}

static void read_neighbours(const char *text, size_t size)
{
	pg_autojson struct pg_json *json = NULL;
	struct pg_neighbours neighbours = {};
	struct pg_error err = {};

	if (pg_container_parse(text, size, &json, &err) ||
	    pg_neighbours_read(&json, &neighbours, &err))
		return;
	for (size_t i = 0; i < neighbours.count; i++)
		require(neighbours.items[i].id);
	pg_neighbours_clear(&neighbours);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	pg_autofree char *text = malloc(size + 1);

	if (!text || !size)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0] % 5) {
	case 0:
		read_mounts(text);
		break;
	case 1:
		read_cgroups(text);
		break;
	case 2:
		read_status(text);
		break;
	case 3:
		read_container(text, size - 1);
		break;
	default:
		read_neighbours(text, size - 1);
	}
	return 0;
}
