/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"

int pg_cgroup_id(int cgroup_fd, uint64_t *ret_id, struct pg_error *err)
{
	union {
		struct file_handle handle;
		char space[sizeof(struct file_handle) + sizeof(uint64_t)];
	} buffer = {.handle.handle_bytes = sizeof(uint64_t)};
	int mount_id;

	if (name_to_handle_at(cgroup_fd, "", &buffer.handle, &mount_id, AT_EMPTY_PATH))
		return pg_fail_errno(err, -errno, "reading the cgroup's id");
	memcpy(ret_id, buffer.handle.f_handle, sizeof(*ret_id));
	return 0;
}

int pg_cgroup_open(int dir_fd, const char *path, int *ret_fd, struct pg_error *err)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return pg_fail_errno(err, -errno, "opening the cgroup %s", path);
	*ret_fd = fd;
	return 0;
}

static int read_event(int cgroup_fd, const char *event, bool *ret_set, struct pg_error *err)
{
	char events[256];
	ssize_t got = pg_file_read_small_at(cgroup_fd, "cgroup.events", events, sizeof(events));

	if (got < 0)
		return pg_fail_errno(err, (int)got, "reading cgroup.events");
	*ret_set = strstr(events, event) != NULL;
	return 0;
}

int pg_cgroup_populated(int cgroup_fd, bool *ret_populated, struct pg_error *err)
{
	const int error = read_event(cgroup_fd, "populated 1", ret_populated, err);

	if (!pg_cgroup_is_gone(error))
		return error;
	*ret_populated = false;
	return 0;
}

int pg_cgroup_frozen(int cgroup_fd, bool *ret_frozen, struct pg_error *err)
{
	return read_event(cgroup_fd, "frozen 1", ret_frozen, err);
}

int pg_cgroup_refuse_unfit(int cgroup_fd, const char *path, struct pg_error *err)
{
	char type[64], events[256];
	ssize_t got = pg_file_read_small_at(cgroup_fd, "cgroup.type", type, sizeof(type));

	if (got >= 0)
		got = pg_file_read_small_at(cgroup_fd, "cgroup.events", events, sizeof(events));
	if (got < 0)
		return pg_fail_errno(err, (int)got, "reading the state of the cgroup %s", path);
	type[strcspn(type, "\n")] = '\0';
	if (strcmp(type, "domain") != 0)
		return pg_fail(err, -EINVAL,
			       "the cgroup %s has the type \"%s\"; give one of type \"domain\"",
			       path, type);
	if (strstr(events, "frozen 1"))
		return pg_fail(err, -EINVAL,
			       "the cgroup %s, or one above it, is frozen; write 0 to its"
			       " cgroup.freeze first",
			       path);
	return 0;
}

bool pg_cgroup_is_gone(int error)
{
	return error == -ENOENT || error == -ENODEV || error == -ESRCH;
}

/* Also one whose name begins with a dot: whoever may make cgroups chooses their names. */
static bool is_child(const struct dirent *entry)
{
	return entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
	       strcmp(entry->d_name, "..") != 0;
}

static int walk(int cgroup_fd, unsigned int depth, pg_cgroup_visit visit, void *userdata)
{
	pg_autoclosedir DIR *dir = pg_dir_reopen(cgroup_fd);
	struct dirent *entry;
	int error;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		pg_autoclose int child = -1;

		if (!is_child(entry))
			continue;
		/* Whoever hides down there must not be missed. */
		if (depth >= PG_CGROUP_DEPTH_MAX)
			return -ELOOP;
		child = openat(cgroup_fd, entry->d_name,
			       O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (child < 0 && pg_cgroup_is_gone(-errno))
			continue;
		if (child < 0)
			return -errno;
		error = walk(child, depth + 1, visit, userdata);
		if (error)
			return error;
	}
	return visit(userdata, cgroup_fd);
}

int pg_cgroup_walk(int cgroup_fd, pg_cgroup_visit visit, void *userdata)
{
	return walk(cgroup_fd, 0, visit, userdata);
}

bool pg_cgroup_has_children(int cgroup_fd)
{
	pg_autoclosedir DIR *dir = pg_dir_reopen(cgroup_fd);
	const struct dirent *entry;

	if (!dir)
		return true;
	while ((entry = readdir(dir)))
		if (is_child(entry))
			return true;
	return false;
}

static int read_ids(int cgroup_fd, const char *name, pid_t **ret_pids, size_t *ret_count,
		    struct pg_error *err)
{
	int fd = openat(cgroup_fd, name, O_RDONLY | O_CLOEXEC);
	pg_autofclose FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	pg_autofree pid_t *pids = NULL;
	size_t count = 0, space = 0;
	long pid;

	if (!file) {
		const int error = -errno;

		pg_close_fd(&fd);
		return pg_fail_errno(err, error, "opening %s", name);
	}
	while (fscanf(file, "%ld", &pid) == 1) {
		if (count == space) {
			pid_t *more;

			space = space ? space * 2 : 64;
			more = reallocarray(pids, space, sizeof(*pids));
			if (!more)
				return pg_fail(err, -ENOMEM, "not enough memory for %zu pids",
					       space);
			pids = more;
		}
		pids[count++] = (pid_t)pid;
	}
	/* Those of a threaded cgroup are listed in the one above that is not. */
	if (ferror(file) && errno != EOPNOTSUPP)
		return pg_fail_errno(err, -errno, "reading %s", name);
	*ret_pids = PG_TAKE_PTR(pids);
	*ret_count = count;
	return 0;
}

int pg_cgroup_pids(int cgroup_fd, pid_t **ret_pids, size_t *ret_count, struct pg_error *err)
{
	return read_ids(cgroup_fd, "cgroup.procs", ret_pids, ret_count, err);
}

int pg_cgroup_threads(int cgroup_fd, pid_t **ret_tids, size_t *ret_count, struct pg_error *err)
{
	return read_ids(cgroup_fd, "cgroup.threads", ret_tids, ret_count, err);
}

struct killing {
	bool by_pid; /* kill each; otherwise they are only counted */
	size_t count;
};

static int kill_one_cgroup(void *userdata, int cgroup_fd)
{
	struct killing *killing = userdata;
	pg_autofree pid_t *pids = NULL;
	size_t count = 0;

	/* ENODEV: the cgroup was removed meanwhile. */
	if (pg_cgroup_pids(cgroup_fd, &pids, &count, NULL) < 0)
		return 0;
	for (size_t i = 0; i < count; i++)
		/* 0: a process that this pid namespace does not show; never signal our own group.
		 */
		if (pids[i] > 0 && (!killing->by_pid || !kill(pids[i], SIGKILL)))
			killing->count++;
	return 0;
}

/* Waits until cgroup.events changes, for so long, and not beyond the deadline. */
static void wait_for_event(int events_fd, int timeout_ms, uint64_t deadline)
{
	const uint64_t now = pg_monotonic_ns();
	const uint64_t left_ms = now < deadline ? (deadline - now) / PG_NSEC_PER_MSEC + 1 : 0;
	struct pollfd poll_events = {.fd = events_fd, .events = POLLPRI};
	char drain[256];

	(void)!pread(events_fd, drain, sizeof(drain), 0);
	poll(&poll_events, 1, left_ms < (uint64_t)timeout_ms ? (int)left_ms : timeout_ms);
}

int pg_cgroup_kill(int cgroup_fd, unsigned int timeout_ms, size_t *ret_killed, struct pg_error *err)
{
	const uint64_t deadline = pg_monotonic_ns() + timeout_ms * PG_NSEC_PER_MSEC;
	pg_autoclose int events_fd = openat(cgroup_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	struct killing killing = {};
	size_t seen = 0;
	bool populated;
	int error, walked = 0;

	if (events_fd < 0 && !pg_cgroup_is_gone(-errno))
		return pg_fail_errno(err, -errno, "opening cgroup.events");
	for (int wait_ms = 1;; wait_ms = wait_ms < 50 ? wait_ms * 2 : 50) {
		error = pg_cgroup_populated(cgroup_fd, &populated, err);
		if (error)
			return error;
		if (!populated)
			break;
		if (pg_monotonic_ns() > deadline)
			return walked ? pg_fail_errno(err, walked, "walking the cgroup's subtree")
				      : pg_fail(err, -ETIMEDOUT,
						"processes are still alive after SIGKILL;"
						" paused ones (as by `docker pause`) end"
						" once they go on");
		/* Frozen, it cannot fork faster than it is killed; SIGKILL ends frozen ones too. */
		(void)!pg_file_write_at(cgroup_fd, "cgroup.freeze", "1", NULL);
		killing.count = 0;
		/* What cannot be walked may still be killed by the one write. */
		walked = pg_cgroup_walk(cgroup_fd, kill_one_cgroup, &killing);
		/* One write should kill all, but for the process whose first thread has ended: the
		 * kernel (6.18, too) signals that thread alone. */
		if (wait_ms > 2)
			killing.by_pid = true;
		/* A pass may meet those that still die. */
		seen = killing.count > seen ? killing.count : seen;
		/* One write kills all, at any depth, and no one who got the pid of one that has
		 * died. Before Linux 5.14 there is no such file. */
		if (pg_file_write_at(cgroup_fd, "cgroup.kill", "1", NULL))
			killing.by_pid = true;
		wait_for_event(events_fd, wait_ms, deadline);
	}
	(void)!pg_file_write_at(cgroup_fd, "cgroup.freeze", "0", NULL);
	if (ret_killed)
		*ret_killed = seen;
	return 0;
}

int pg_cgroup_remove_children(int cgroup_fd, struct pg_error *err)
{
	pg_autoclosedir DIR *dir = pg_dir_reopen(cgroup_fd);
	struct dirent *entry;
	int error;

	if (!dir)
		return pg_fail_errno(err, -errno, "opening the cgroup");
	while ((entry = readdir(dir))) {
		pg_autoclose int child = -1;

		if (!is_child(entry))
			continue;
		error = pg_cgroup_open(cgroup_fd, entry->d_name, &child, err);
		if (error == -ENOENT)
			continue;
		if (!error)
			error = pg_cgroup_remove_children(child, err);
		if (error)
			return error;
		if (unlinkat(cgroup_fd, entry->d_name, AT_REMOVEDIR) && errno != ENOENT)
			return pg_fail_errno(err, -errno, "removing the cgroup %s", entry->d_name);
	}
	return 0;
}
