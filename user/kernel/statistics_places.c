/* SPDX-License-Identifier: Apache-2.0 */
/* Which programs run where: at the cgroups of Environments, and the guard's by its pinned links. */
#include "statistics_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "attach.h"
#include "attached.h"
#include "base/cleanup.h"
#include "base/vector.h"
#include "guard.h"

static bool is_ours(const struct pg_statistics *statistics, uint32_t program)
{
	for (size_t i = 0; i < statistics->program_count; i++)
		if (statistics->programs[i].id == program)
			return true;
	return false;
}

static int add(struct pg_statistics *statistics, const char *environment, uint32_t program)
{
	struct pg_program_place *place;

	if (!is_ours(statistics, program))
		return 0;
	if (pg_vector_grow(&statistics->places, statistics->place_count, &statistics->place_room,
			   sizeof(*place)))
		return -ENOMEM;
	place = &statistics->places[statistics->place_count++];
	*place = (struct pg_program_place){.program = program};
	snprintf(place->environment, sizeof(place->environment), "%s", environment);
	return 0;
}

/* What is no link, or is gone, is left out. */
static int add_pin(struct pg_statistics *statistics, const char *path)
{
	pg_autoclose int fd = bpf_obj_get(path);
	struct bpf_link_info info = {};
	__u32 size = sizeof(info);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) || info.type != BPF_LINK_TYPE_CGROUP)
		return 0;
	return add(statistics, PG_GUARD_PINS, info.prog_id);
}

static int read_guard(const char *directory, struct pg_statistics *statistics)
{
	pg_autoclosedir DIR *dir = opendir(directory);
	struct dirent *entry;
	int error = 0;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (!error && (entry = readdir(dir))) {
		pg_autofree char *path = NULL;

		if (entry->d_name[0] == '.')
			continue;
		if (asprintf(&path, "%s/%s", directory, entry->d_name) < 0)
			return -ENOMEM;
		error = add_pin(statistics, path);
	}
	return error;
}

int pg_statistics_read_guard(const char *pins, struct pg_statistics *statistics,
			     struct pg_error *err)
{
	pg_autofree char *directory = NULL;
	int error = asprintf(&directory, "%s/" PG_GUARD_PINS, pins) < 0
			    ? -ENOMEM
			    : read_guard(directory, statistics);

	return error ? pg_fail_errno(err, error, "reading the guard's pins below %s", pins) : 0;
}

int pg_statistics_add_place(struct pg_statistics *statistics, const char *environment,
			    int cgroup_fd, struct pg_error *err)
{
	int error = 0;

	for (size_t hook = 0; hook < PG_HOOK_COUNT && !error; hook++) {
		struct pg_attached_ids ids;

		error = pg_attached_ids(cgroup_fd, pg_hook_type((enum pg_hook)hook), &ids);
		/* It has just been removed. */
		if (error == -ENODEV)
			return 0;
		for (size_t i = 0; !error && i < ids.count; i++)
			error = add(statistics, environment, ids.items[i]);
	}
	return error ? pg_fail_errno(err, error, "asking what is attached to a cgroup of %s",
				     environment)
		     : 0;
}
