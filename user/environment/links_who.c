/* SPDX-License-Identifier: Apache-2.0 */
#include "links.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "kernel/mountinfo.h"

/* A runtime's helper is there for less. */
#define STAY_NS PG_NSEC_PER_SEC

struct looking {
	const struct pg_home *home;
	size_t member;
	pid_t pid;
	bool others;
};

/* SIZE_MAX: in none. */
static size_t member_at(const struct pg_environment *environment, const char *path)
{
	for (size_t i = 0; i < pg_place_count(environment); i++)
		if (pg_record_is_within(path, pg_place_path(environment, i)))
			return i;
	return SIZE_MAX;
}

/* A process that has gone meanwhile lives nowhere. */
static int look_at(struct looking *looking, int proc_fd, const char *pid, struct pg_error *err)
{
	pg_autofree char *text = NULL, *path = NULL;
	struct stat status;
	char name[64];
	size_t size, member;

	snprintf(name, sizeof(name), "%s/ns/net", pid);
	if (fstatat(proc_fd, name, &status, 0) || status.st_ino != looking->home->inode)
		return 0;
	snprintf(name, sizeof(name), "%s/cgroup", pid);
	if (pg_file_read_at(proc_fd, name, PG_PROC_FILE_MAX, &text, &size, NULL))
		return 0;
	switch (pg_cgroup2_path(text, &path)) {
	case 0:
		break;
	case -ENOMEM:
		return pg_fail(err, -ENOMEM, "not enough memory for the path of a cgroup");
	default:
		return 0;
	}
	member = member_at(looking->home->environment, path);
	if (member == SIZE_MAX)
		looking->others = true;
	else
		looking->pid = (pid_t)strtol(pid, NULL, 10);
	if (member != SIZE_MAX)
		looking->member = member;
	return 0;
}

/* Whoever is there when the Environment is made was there before, and goes on as before. */
int pg_home_look_who(const struct pg_home *home, struct pg_who *who, struct pg_error *err)
{
	const uint64_t now = pg_monotonic_ns();
	struct looking looking = {.home = home};
	pg_autoclosedir DIR *proc = opendir("/proc");
	struct dirent *entry;
	int error = 0;

	if (!proc)
		return pg_fail_errno(err, -errno, "looking for processes");
	while (!error && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]))
			error = look_at(&looking, dirfd(proc), entry->d_name, err);
	if (error)
		return error;
	who->member = looking.member;
	who->pid = looking.pid;
	who->since = !looking.others ? 0 : who->since ? who->since : now;
	who->shared =
		looking.others && (who->shared || !pg_environment_is_made(home->environment) ||
				   now - who->since >= STAY_NS);
	return 0;
}
