/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cleanup.h"

bool pg_status_number(const char *status, const char *field, int base, uint64_t *ret_number)
{
	const size_t length = strlen(field);

	for (const char *line = status; line; line = strchr(line, '\n')) {
		const char *value;
		char *end;

		line += *line == '\n';
		if (strncmp(line, field, length) != 0 || line[length] != ':')
			continue;
		value = line + length + 1;
		value += strspn(value, "\t ");
		*ret_number = strtoull(value, &end, base);
		return end != value;
	}
	return false;
}

bool pg_stat_flags(const char *stat, uint64_t *ret_flags)
{
	/* The command, which may hold anything; then state, four ids of processes, and terminals.
	 */
	const char *at = strrchr(stat, ')');
	char *end;

	for (int i = 0; at && i < 7; i++)
		at = strchr(at + 1, ' ');
	if (!at)
		return false;
	*ret_flags = strtoull(at + 1, &end, 10);
	return end != at + 1;
}

static bool has_namespaces(int dir_fd, const char *process)
{
	struct stat unused;
	char path[sizeof("/ns/net") + NAME_MAX];

	snprintf(path, sizeof(path), "%s/ns/net", process);
	return fstatat(dir_fd, path, &unused, 0) == 0;
}

pid_t pg_process_living(pid_t pid)
{
	pg_autoclosedir DIR *tasks = NULL;
	const struct dirent *task;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (has_namespaces(AT_FDCWD, path))
		return pid;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (task = readdir(tasks)))
		if (task->d_name[0] != '.' && has_namespaces(dirfd(tasks), task->d_name))
			return (pid_t)strtol(task->d_name, NULL, 10);
	return pid;
}

bool pg_same_namespace(int proc_fd, const char *name, const char *other_process)
{
	struct stat own, other;
	char path[64];

	snprintf(path, sizeof(path), "ns/%s", name);
	if (fstatat(proc_fd, path, &own, 0))
		return false;
	snprintf(path, sizeof(path), "/proc/%s/ns/%s", other_process, name);
	return stat(path, &other) == 0 && own.st_ino == other.st_ino && own.st_dev == other.st_dev;
}

bool pg_same_root(int proc_fd, const char *other_process)
{
	const int flags = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT;
	struct statx own, other;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%s/root", other_process);
	return statx(proc_fd, "root", flags, STATX_INO, &own) == 0 &&
	       statx(AT_FDCWD, path, flags, STATX_INO, &other) == 0 &&
	       own.stx_ino == other.stx_ino && own.stx_dev_major == other.stx_dev_major &&
	       own.stx_dev_minor == other.stx_dev_minor;
}
