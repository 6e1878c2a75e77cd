/* SPDX-License-Identifier: Apache-2.0 */
#include "links.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "base/vector.h"
#include "kernel/mountinfo.h"

/* A runtime's helper is there for less. */
#define STAY_NS	    PG_NSEC_PER_SEC
/* One list serves for the links that many containers get at once. */
#define LIST_AGE_NS (50 * PG_NSEC_PER_MSEC)

struct looking {
	const struct pg_home *home;
	size_t member;
	pid_t pid, other; /* 0: none */
};

/* SIZE_MAX: in none. */
static size_t member_at(const struct pg_environment *environment, const char *path)
{
	for (size_t i = 0; i < pg_place_count(environment); i++)
		if (pg_path_is_within(path, pg_place_path(environment, i)))
			return i;
	return SIZE_MAX;
}

/* Which process is in which network namespace; one that goes meanwhile is in none. */
static int list_processes(struct pg_link_watch *watch, struct pg_error *err)
{
	pg_autoclosedir DIR *proc = opendir("/proc");
	struct dirent *entry;

	if (!proc)
		return pg_fail_errno(err, -errno, "looking for processes");
	watch->process_count = 0;
	while ((entry = readdir(proc))) {
		struct stat status;
		char name[64];
		pid_t pid;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		pid = pg_process_living((pid_t)strtol(entry->d_name, NULL, 10));
		snprintf(name, sizeof(name), "%d/ns/net", (int)pid);
		if (fstatat(dirfd(proc), name, &status, 0))
			continue;
		if (pg_vector_grow(&watch->processes, watch->process_count, &watch->process_room,
				   sizeof(*watch->processes)))
			return pg_fail(err, -ENOMEM, "not enough memory for processes");
		watch->processes[watch->process_count++] = (struct pg_process){
			.pid = pid,
			.inode = status.st_ino,
		};
	}
	watch->processes_at = pg_monotonic_ns();
	return 0;
}

/* One that cannot be seen lives nowhere. */
static int look_at(struct looking *looking, pid_t pid, struct pg_error *err)
{
	pg_autofree char *text = NULL, *path = NULL;
	size_t size, member;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	if (pg_file_read(name, PG_PROC_FILE_MAX, &text, &size, NULL))
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
	if (member == SIZE_MAX) {
		looking->other = pid;
		return 0;
	}
	looking->pid = pid;
	looking->member = member;
	return 0;
}

/* Whoever is there when the Environment is made was there before, and goes on as before. */
int pg_home_look_who(const struct pg_home *home, struct pg_who *who, struct pg_error *err)
{
	struct pg_link_watch *watch = home->environment->host->links;
	const bool made = pg_environment_is_made(home->environment);
	const uint64_t now = pg_monotonic_ns();
	struct looking looking = {.home = home};
	int error = 0;

	if (!made || now - watch->processes_at > LIST_AGE_NS)
		error = list_processes(watch, err);
	for (size_t i = 0; i < watch->process_count && !error; i++)
		if (watch->processes[i].inode == home->inode)
			error = look_at(&looking, watch->processes[i].pid, err);
	if (error)
		return error;
	who->member = looking.member;
	who->pid = looking.pid;
	who->other = looking.other;
	who->since = !looking.other ? 0 : who->since ? who->since : now;
	who->shared = looking.other && (who->shared || !made || now - who->since >= STAY_NS);
	return 0;
}

bool pg_home_has_other(const struct pg_home *home)
{
	struct looking looking = {.home = home};
	struct stat status;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/ns/net", (int)home->links->who.other);
	return !stat(name, &status) && status.st_ino == home->inode &&
	       !look_at(&looking, home->links->who.other, NULL) && looking.other;
}
