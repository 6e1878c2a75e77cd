/* SPDX-License-Identifier: Apache-2.0 */
#include "statistics_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <exec.skel.h>
#include <guard.skel.h>
#include <phasegate.skel.h>

#include "base/cleanup.h"
#include "base/vector.h"

/* Of one program, at most (MAX_USED_MAPS of the kernel). */
#define MAPS_MAX 64
/* Of the maps that are in maps of maps; set.c and learned.c make them. */
static const char *const inner_names[] = {"pg_set", "pg_learned"};

struct ids {
	uint32_t *items;
	size_t count, room;
};

static void ids_clear(struct ids *ids)
{
	free(ids->items);
}

static bool ids_have(const struct ids *ids, uint32_t id)
{
	for (size_t i = 0; i < ids->count; i++)
		if (ids->items[i] == id)
			return true;
	return false;
}

static int ids_add(struct ids *ids, uint32_t id)
{
	if (ids_have(ids, id))
		return 0;
	if (pg_vector_grow(&ids->items, ids->count, &ids->room, sizeof(id)))
		return -ENOMEM;
	ids->items[ids->count++] = id;
	return 0;
}

/* One that has gone meanwhile has none. */
static int add_maps_of(struct ids *ids, uint32_t program)
{
	pg_autoclose int fd = bpf_prog_get_fd_by_id(program);
	uint32_t maps[MAPS_MAX];
	struct bpf_prog_info info = {.nr_map_ids = MAPS_MAX, .map_ids = (uintptr_t)maps};
	__u32 size = sizeof(info);
	int error = 0;

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
		return 0;
	for (size_t i = 0; !error && i < info.nr_map_ids && i < MAPS_MAX; i++)
		error = ids_add(ids, maps[i]);
	return error;
}

static bool is_inner(const char *name)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(inner_names); i++)
		if (!strcmp(name, inner_names[i]))
			return true;
	return false;
}

/* false: keys of that type cannot be listed. */
static bool count_keys(int fd, const struct bpf_map_info *info, uint64_t *ret_count)
{
	pg_autofree char *keys = calloc(2, info->key_size);
	char *key = keys, *previous = NULL;
	uint64_t count = 0;

	if (!keys)
		return false;
	/* One that is changed all the time may begin anew, but has no more than it has room for. */
	while (count < info->max_entries && !bpf_map_get_next_key(fd, previous, key)) {
		count++;
		previous = key;
		key = key == keys ? keys + info->key_size : keys;
	}
	*ret_count = count;
	return count == info->max_entries || errno == ENOENT;
}

static bool count_elements(int fd, const struct bpf_map_info *info, uint64_t *ret_count)
{
	switch (info->type) {
	case BPF_MAP_TYPE_ARRAY:
	case BPF_MAP_TYPE_PERCPU_ARRAY:
	case BPF_MAP_TYPE_ARRAY_OF_MAPS:
		*ret_count = info->max_entries;
		return true;
	case BPF_MAP_TYPE_HASH:
		return count_keys(fd, info, ret_count);
	default:
		return false;
	}
}

/* The kernel cuts a map's name after 15 characters. */
static const char *name_of(const struct pg_known *known, const struct bpf_map_info *info)
{
	const struct bpf_object *const objects[] = {known->phasegate->obj, known->guard->obj,
						    known->exec->obj};
	struct bpf_map *map;

	for (size_t i = 0; i < PG_ARRAY_SIZE(objects); i++)
		bpf_object__for_each_map(map, objects[i])
		{
			if (!strncmp(bpf_map__name(map), info->name, sizeof(info->name) - 1))
				return bpf_map__name(map);
		}
	return info->name;
}

static struct pg_map_info *entry_of(const struct pg_known *known, struct pg_statistics *statistics,
				    size_t *room, const struct bpf_map_info *info)
{
	const char *name = name_of(known, info);
	struct pg_map_info *entry;

	for (size_t i = 0; i < statistics->map_count; i++)
		if (!strcmp(statistics->maps[i].name, name))
			return &statistics->maps[i];
	if (pg_vector_grow(&statistics->maps, statistics->map_count, room, sizeof(*entry)))
		return NULL;
	entry = &statistics->maps[statistics->map_count++];
	*entry = (struct pg_map_info){
		.type = libbpf_bpf_map_type_str((enum bpf_map_type)info->type),
		.counted = true,
	};
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	return entry;
}

static int add_map(const struct pg_known *known, struct pg_statistics *statistics, size_t *room,
		   uint32_t id, const struct ids *used)
{
	pg_autoclose int fd = bpf_map_get_fd_by_id(id);
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);
	struct pg_map_info *entry;
	uint64_t elements = 0;

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
		return errno == ENOENT ? 0 : -errno;
	if (!ids_have(used, id) && !is_inner(info.name))
		return 0;
	entry = entry_of(known, statistics, room, &info);
	if (!entry)
		return -ENOMEM;
	entry->count++;
	entry->counted &= count_elements(fd, &info, &elements);
	entry->elements += elements;
	entry->memory += pg_statistics_memory(fd);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct pg_map_info *)a)->name, ((const struct pg_map_info *)b)->name);
}

int pg_statistics_read_maps(const struct pg_known *known, struct pg_statistics *statistics,
			    struct pg_error *err)
{
	PG_CLEANUP(ids_clear) struct ids used = {};
	size_t room = 0;
	uint32_t id = 0;
	int error = 0;

	for (size_t i = 0; !error && i < statistics->program_count; i++)
		error = add_maps_of(&used, statistics->programs[i].id);
	while (!error && used.count && !bpf_map_get_next_id(id, &id))
		error = add_map(known, statistics, &room, id, &used);
	if (error)
		return pg_fail_errno(err, error, "reading the BPF maps");
	if (statistics->map_count)
		qsort(statistics->maps, statistics->map_count, sizeof(*statistics->maps), by_name);
	return 0;
}
