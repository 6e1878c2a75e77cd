/* SPDX-License-Identifier: Apache-2.0 */
#include "attached.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

/* What all programs of hooks have in common, of every version. */
#define PROGRAM_PREFIX "pg_"
#define HEADERS	       "pg_headers"
/* A program cannot use more (MAX_USED_MAPS). */
#define MAPS_MAX       64

int pg_attached_ids(int cgroup_fd, enum bpf_attach_type type, struct pg_attached_ids *ret_ids)
{
	__u32 flags = 0, count = PG_ATTACHED_MAX;

	if (bpf_prog_query(cgroup_fd, type, 0, &flags, ret_ids->items, &count))
		return errno == ENOENT ? -ENODEV : -errno;
	ret_ids->count = count < PG_ATTACHED_MAX ? count : PG_ATTACHED_MAX;
	return 0;
}

static bool is_headers(uint32_t id)
{
	pg_autoclose int fd = bpf_map_get_fd_by_id(id);
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);

	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &size) &&
	       info.type == BPF_MAP_TYPE_CGROUP_STORAGE && !strcmp(info.name, HEADERS);
}

static uint32_t find_headers(const __u32 *maps, size_t count, uint32_t likely)
{
	for (size_t i = 0; i < count; i++)
		if (likely && maps[i] == likely)
			return likely;
	for (size_t i = 0; i < count; i++)
		if (is_headers(maps[i]))
			return maps[i];
	return 0;
}

int pg_attached_open(uint32_t id, uint32_t headers, int *ret_fd, uint32_t *ret_headers)
{
	pg_autoclose int fd = bpf_prog_get_fd_by_id(id);
	__u32 maps[MAPS_MAX] = {};
	struct bpf_prog_info info = {.nr_map_ids = MAPS_MAX, .map_ids = (uintptr_t)maps};
	__u32 size = sizeof(info);
	uint32_t found;

	if (fd < 0)
		return -errno;
	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		return -errno;
	if (strncmp(info.name, PROGRAM_PREFIX, strlen(PROGRAM_PREFIX)) != 0)
		return -ENOENT;
	found = find_headers(maps, info.nr_map_ids < MAPS_MAX ? info.nr_map_ids : MAPS_MAX,
			     headers);
	if (!found)
		return -ENOENT;
	*ret_fd = PG_TAKE_FD(fd);
	*ret_headers = found;
	return 0;
}
