/* SPDX-License-Identifier: Apache-2.0 */
/* A child of this process that looks from inside, as a process of the Environment does. */
#include "host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "members.h"

/* Of the names of cgroups: "verify-0123cdef". */
#define STEM "verify"

struct entering {
	int netns_fd; /* -1: stays in this process's */
	int (*function)(void *userdata);
	void *userdata;
};

static int enter(void *userdata)
{
	const struct entering *entering = userdata;

	if (entering->netns_fd >= 0 && setns(entering->netns_fd, CLONE_NEWNET))
		return 1;
	return entering->function(entering->userdata);
}

int pg_environment_enter(struct pg_environment *environment, int (*function)(void *userdata),
			 void *userdata, struct pg_inside *ret_inside, struct pg_error *err)
{
	pg_automembers struct pg_members members = {};
	struct entering entering = {-1, function, userdata};
	struct pg_inside inside = {.pid = -1};
	pg_autoclose int cgroup_fd = -1;
	int error = pg_members_add(&members, 0, environment->places[0].fd);

	if (error)
		return pg_fail_errno(err, error, "looking for processes of the Environment");
	if (members.namespace_count)
		entering.netns_fd = members.namespaces[0].fd;
	else
		error = pg_homes_visit(environment, err);
	if (error)
		return error;
	/* One of its own: the member's may have controllers for those below it, and then no
	 * process can be in it. */
	error = pg_spawn_cgroup(environment, STEM, inside.cgroup, sizeof(inside.cgroup), &cgroup_fd,
				err);
	if (error)
		return error;
	error = pg_spawn_function(cgroup_fd, enter, &entering, &inside.pid, err);
	if (error) {
		unlinkat(environment->places[0].fd, inside.cgroup, AT_REMOVEDIR);
		return error;
	}
	*ret_inside = inside;
	return 0;
}

void pg_environment_leave_inside(struct pg_environment *environment, struct pg_inside *inside)
{
	if (inside->pid > 0) {
		kill(inside->pid, SIGKILL); /* which ends a frozen one, too */
		while (waitpid(inside->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	inside->pid = -1;
	if (environment)
		pg_homes_end_visit(environment);
	if (environment && environment->places[0].fd >= 0)
		unlinkat(environment->places[0].fd, inside->cgroup, AT_REMOVEDIR);
}

static bool is_inside(const char *name)
{
	static const char start[] = STEM "-";

	return strncmp(name, start, strlen(start)) == 0 &&
	       strspn(name + strlen(start), "0123456789abcdef") == 8 && !name[strlen(start) + 8];
}

void pg_environment_tidy_inside(struct pg_environment *environment)
{
	pg_autoclosedir DIR *dir =
		environment->places[0].fd < 0 ? NULL : pg_dir_reopen(environment->places[0].fd);
	const struct dirent *entry;

	/* One of that name that is somebody else's has somebody in it, or was made for nothing. */
	while (dir && (entry = readdir(dir)))
		if (entry->d_type == DT_DIR && is_inside(entry->d_name))
			unlinkat(environment->places[0].fd, entry->d_name, AT_REMOVEDIR);
}
