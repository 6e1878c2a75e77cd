/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned links: PINS/ENVIRONMENT/MEMBER/HOOK, and PINS/+guard/HOOK. */
#include "statistics_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/cleanup.h"
#include "base/vector.h"

struct places {
	struct pg_statistics *statistics;
	size_t room;
};

static bool is_ours(const struct pg_statistics *statistics, uint32_t program)
{
	for (size_t i = 0; i < statistics->program_count; i++)
		if (statistics->programs[i].id == program)
			return true;
	return false;
}

/* What is no link, or is gone, is left out. */
static int add_pin(struct places *places, const char *environment, const char *path)
{
	pg_autoclose int fd = bpf_obj_get(path);
	struct pg_statistics *statistics = places->statistics;
	struct bpf_link_info info = {};
	__u32 size = sizeof(info);
	struct pg_program_place *place;

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) ||
	    info.type != BPF_LINK_TYPE_CGROUP || !is_ours(statistics, info.prog_id))
		return 0;
	if (pg_vector_grow(&statistics->places, statistics->place_count, &places->room,
			   sizeof(*place)))
		return -ENOMEM;
	place = &statistics->places[statistics->place_count++];
	*place = (struct pg_program_place){
		.program = info.prog_id,
		.cgroup_id = info.cgroup.cgroup_id,
	};
	snprintf(place->environment, sizeof(place->environment), "%s", environment);
	return 0;
}

/* Whether a directory of pins is an Environment's, the guard's, or has maps. */
static bool has_links(const char *name)
{
	return name[0] != '.' && (name[0] != '+' || !strcmp(name, "+guard"));
}

static int visit(struct places *places, const char *environment, const char *directory,
		 unsigned int depth)
{
	pg_autoclosedir DIR *dir = opendir(directory);
	struct dirent *entry;
	int error = 0;

	/* Environments come and go meanwhile. */
	if (!dir)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	while (!error && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		pg_autofree char *path = NULL;

		if (name[0] == '.' || (!environment && !has_links(name)))
			continue;
		if (asprintf(&path, "%s/%s", directory, name) < 0)
			return -ENOMEM;
		if (entry->d_type != DT_DIR)
			error = environment ? add_pin(places, environment, path) : 0;
		else if (depth)
			error = visit(places, environment ? environment : name, path, depth - 1);
	}
	return error;
}

int pg_statistics_read_places(const char *pins, struct pg_statistics *statistics,
			      struct pg_error *err)
{
	struct places places = {.statistics = statistics};
	const int error = visit(&places, NULL, pins, 2);

	return error ? pg_fail_errno(err, error, "reading the pins below %s", pins) : 0;
}
