/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>

#include <phasegate/abi/set.h>

#include "base/cleanup.h"

static bool is_table(const char *name)
{
	static const char *const names[] = {
#define PG_X(symbol, map, type, key) #map,
		PG_TABLES(PG_X)
#undef PG_X
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static uint64_t memlock_of(int fd)
{
	char path[64], line[128];
	pg_autofclose FILE *file = NULL;
	uint64_t bytes = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "memlock: %" SCNu64, &bytes) == 1)
			break;
	return bytes;
}

struct memory_mark memory_mark(void)
{
	struct memory_mark mark = {0};
	uint32_t id = 0;

	while (!bpf_map_get_next_id(id, &id))
		mark.last_map = id;
	return mark;
}

uint64_t memory_of_sets_since(const struct memory_mark *mark)
{
	uint64_t bytes = 0;
	uint32_t id = mark->last_map;

	while (!bpf_map_get_next_id(id, &id)) {
		pg_autoclose int fd = bpf_map_get_fd_by_id(id);
		struct bpf_map_info info = {0};
		uint32_t size = sizeof(info);

		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &size) && is_table(info.name))
			bytes += memlock_of(fd);
	}
	return bytes;
}
