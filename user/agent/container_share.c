/* SPDX-License-Identifier: Apache-2.0 */
#include "container_share.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "kernel/mountinfo.h"

#define CGROUP_FILE_OCTETS 65536

struct search {
	const struct pg_member_list *list;
	ino_t namespaces[PG_MEMBERS_MAX]; /* of the members; 0: none of its own */
	struct pg_sharings *found;
};

/* 0: it cannot be told. */
static ino_t namespace_of(const char *process)
{
	char path[sizeof("/proc//ns/net") + NAME_MAX];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%s/ns/net", process);
	return stat(path, &status) ? 0 : status.st_ino;
}

static void read_namespaces(struct search *search)
{
	const ino_t own = namespace_of("self");

	for (size_t i = 0; i < search->list->count; i++) {
		char process[16];

		if (!search->list->containers[i])
			continue;
		snprintf(process, sizeof(process), "%d",
			 search->list->containers[i]->container.pid);
		search->namespaces[i] = namespace_of(process);
		if (search->namespaces[i] == own)
			search->namespaces[i] = 0;
	}
}

static const struct pg_container *find_namespace(const struct search *search, ino_t inode)
{
	for (size_t i = 0; inode && i < search->list->count; i++)
		if (search->namespaces[i] == inode)
			return &search->list->containers[i]->container;
	return NULL;
}

static bool is_told_apart(const struct search *search, const char *cgroup)
{
	for (size_t i = 0; i < search->list->count; i++)
		if (pg_path_is_within(cgroup, search->list->paths[i]))
			return false;
	for (size_t i = 0; i < search->found->count; i++)
		if (strcmp(search->found->items[i].cgroup, cgroup) == 0)
			return false;
	return true;
}

static void look_at_process(struct search *search, const char *process)
{
	const struct pg_container *with = find_namespace(search, namespace_of(process));
	struct pg_sharings *found = search->found;
	pg_autofree char *text = NULL, *cgroup = NULL;
	struct pg_error unused = {};
	char path[64];
	size_t size;

	if (!with || found->count == PG_SHARING_MAX)
		return;
	snprintf(path, sizeof(path), "/proc/%s/cgroup", process);
	if (pg_file_read(path, CGROUP_FILE_OCTETS, &text, &size, &unused) < 0 ||
	    pg_cgroup2_path(text, &cgroup) < 0 || !is_told_apart(search, cgroup))
		return;
	found->items[found->count++] = (struct pg_sharing){
		.cgroup = PG_TAKE_PTR(cgroup),
		.pid = (pid_t)strtol(process, NULL, 10),
		.with = with,
	};
}

void pg_sharings_find(const struct pg_member_list *list, struct pg_sharings *ret_sharings)
{
	struct search search = {.list = list, .found = ret_sharings};
	pg_autoclosedir DIR *proc = opendir("/proc");
	const struct dirent *entry;

	*ret_sharings = (struct pg_sharings){0};
	read_namespaces(&search);
	while (proc && (entry = readdir(proc)))
		if (strspn(entry->d_name, "0123456789") == strlen(entry->d_name))
			look_at_process(&search, entry->d_name);
}

void pg_sharings_clear(struct pg_sharings *sharings)
{
	for (size_t i = 0; i < sharings->count; i++)
		free(sharings->items[i].cgroup);
	sharings->count = 0;
}
