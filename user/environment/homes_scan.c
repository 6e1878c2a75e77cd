/* SPDX-License-Identifier: Apache-2.0 */
#include "homes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process.h"
#include "base/vector.h"
#include "host_internal.h"

/* Of /proc/PID/status, up to the capabilities: one line of it, the groups, may be long. */
#define STATUS_MAX (64UL * 1024)

/* What is the same for all processes of one look. */
struct look {
	struct pg_scan *scan;
	size_t member;
	ino_t own_user;
	pid_t own_pid; /* 0: our children are the workload */
	char *status;
};

void pg_scan_clear(struct pg_scan *scan)
{
	for (size_t i = 0; i < scan->count; i++)
		pg_close_fd(&scan->items[i].fd);
	free(scan->items);
	*scan = (struct pg_scan){};
}

static ino_t inode_of(pid_t pid, const char *what)
{
	struct stat status;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	return stat(path, &status) ? 0 : status.st_ino;
}

static struct pg_scanned *find(const struct pg_scan *scan, ino_t inode)
{
	for (size_t i = 0; i < scan->count; i++)
		if (scan->items[i].inode == inode)
			return &scan->items[i];
	return NULL;
}

static bool is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

/* The user namespace that owns the other one; 0: above ours, or it cannot be told. */
static ino_t owner_of(int namespace_fd)
{
	pg_autoclose int user_fd = ioctl(namespace_fd, NS_GET_USERNS);
	struct stat owner;

	return user_fd < 0 || fstat(user_fd, &owner) ? 0 : owner.st_ino;
}

/* *ret_scanned NULL: the process has gone meanwhile. */
static int add(struct pg_scan *scan, pid_t pid, struct pg_scanned **ret_scanned)
{
	pg_autoclose int fd = -1;
	struct stat status;
	ino_t owner;
	char path[64];

	*ret_scanned = NULL;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status))
		return is_shortage(-errno) ? -errno : 0;
	*ret_scanned = find(scan, status.st_ino);
	if (*ret_scanned)
		return 0;
	errno = 0;
	owner = owner_of(fd);
	if (!owner && is_shortage(-errno))
		return -errno;
	if (pg_vector_grow(&scan->items, scan->count, &scan->room, sizeof(*scan->items)))
		return -ENOMEM;
	*ret_scanned = &scan->items[scan->count++];
	**ret_scanned =
		(struct pg_scanned){.inode = status.st_ino, .fd = PG_TAKE_FD(fd), .owner = owner};
	return 0;
}

/* Whether the process has, and not one thread of it alone; in doubt it has. */
static bool has_executed(const struct look *look, uint64_t process)
{
	uint64_t flags = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", process);
	return pg_file_read_small_at(AT_FDCWD, path, look->status, STATUS_MAX) < 0 ||
	       !pg_stat_flags(look->status, &flags) || !(flags & PG_PROCESS_FORKED);
}

/*
 * A capability that is in the bounding set can come back with a set-user-ID program. It counts in
 * the namespaces that its process's user namespace owns, and those of the user namespaces below.
 */
static void judge(const struct look *look, struct pg_scanned *scanned, pid_t tid, int dir)
{
	const ino_t user = inode_of(tid, "ns/user");
	uint64_t bounding = 0, process = 0;

	(void)!pg_status_number(look->status, "CapBnd", 16, &bounding);
	if (!(bounding & 1ULL << CAP_NET_ADMIN) ||
	    (user != scanned->owner && user != look->own_user))
		return;
	scanned->admin = true;
	if (pg_same_root(dir, "self"))
		return;
	scanned->started = true;
	(void)!pg_status_number(look->status, "Tgid", 10, &process);
	scanned->executed |= has_executed(look, process);
}

/* What only the host's root can make is given to whoever is there. */
static bool has_left(const struct look *look, const struct pg_scanned *scanned, pid_t tid)
{
	pg_autoclose int fd = -1;
	char path[64];

	if (scanned->owner == look->own_user)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && owner_of(fd) != scanned->owner;
}

static int look_at(const struct look *look, pid_t tid)
{
	const uint64_t member = 1ULL << look->member;
	const ino_t inode = inode_of(tid, "ns/net");
	struct pg_scanned *scanned = inode ? find(look->scan, inode) : NULL;
	pg_autoclose int dir = -1;
	uint64_t parent = 0;
	char path[32];
	int error = 0;

	if (scanned && scanned->executed && scanned->members & member &&
	    (scanned->owner == look->own_user || look->scan->left & member))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d", (int)tid);
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return is_shortage(-errno) ? -errno : 0;
	if (pg_file_read_small_at(dir, "status", look->status, STATUS_MAX) < 0)
		return 0;
	/* Ours, which only looks from inside. */
	(void)!pg_status_number(look->status, "PPid", 10, &parent);
	if (look->own_pid && parent == (uint64_t)look->own_pid)
		return 0;
	if (!scanned)
		error = add(look->scan, tid, &scanned);
	if (error || !scanned)
		return error;
	scanned->members |= member;
	if (!(look->scan->left & member) && has_left(look, scanned, tid))
		look->scan->left |= member;
	judge(look, scanned, tid, dir);
	return 0;
}

static int visit_cgroup(void *userdata, int cgroup_fd)
{
	const struct look *look = userdata;
	pg_autofree pid_t *tids = NULL;
	size_t count = 0;
	int error = pg_cgroup_threads(cgroup_fd, &tids, &count, NULL);

	if (error)
		return pg_cgroup_is_gone(error) ? 0 : error;
	for (size_t i = 0; i < count && !error; i++)
		error = look_at(look, tids[i]);
	return error;
}

int pg_scan_make(const struct pg_environment *environment, struct pg_scan *ret_scan,
		 struct pg_error *err)
{
	pg_autofree char *status = malloc(STATUS_MAX);
	struct look look = {
		.scan = ret_scan,
		.own_user = inode_of(getpid(), "ns/user"),
		.own_pid = environment->record.kept ? getpid() : 0,
		.status = status,
	};
	int error = 0;

	*ret_scan = (struct pg_scan){};
	if (!status)
		return pg_fail(err, -ENOMEM, "not enough memory to look for processes");
	if (!look.own_user)
		return pg_fail_errno(err, -errno, "looking at /proc/self");
	for (size_t i = 0; i < pg_place_count(environment) && !error; i++) {
		look.member = i;
		if (environment->places[i].fd >= 0)
			error = pg_cgroup_walk(environment->places[i].fd, visit_cgroup, &look);
		error = pg_cgroup_is_gone(error) ? 0 : error;
	}
	return error ? pg_fail_errno(err, error, "looking for the processes of %s",
				     environment->record.name)
		     : 0;
}

static bool is_in_home(const struct pg_environment *environment, size_t member)
{
	const struct pg_home *home;

	LIST_FOREACH (home, &environment->homes, link)
		if (home->members & 1ULL << member)
			return true;
	return false;
}

static bool is_seen(const struct pg_scan *scan, size_t member)
{
	for (size_t i = 0; i < scan->count; i++)
		if (scan->items[i].members & 1ULL << member)
			return true;
	return false;
}

/*
 * A namespace is known by who is there. A member can leave its own with all processes that last and
 * keep it by a packet socket that is on its way from one to another (SCM_RIGHTS), or by a chain of
 * processes each of which has ended before it is looked at; nothing would guard its links then.
 * -EAGAIN: there are processes, but none was seen.
 */
int pg_scan_refuse_hidden(const struct pg_environment *environment, const struct pg_scan *scan,
			  struct pg_error *err)
{
	for (size_t i = 0; i < pg_place_count(environment); i++) {
		const bool left = scan->left & 1ULL << i;
		bool populated = false;
		int error;

		if (is_in_home(environment, i) || (is_seen(scan, i) && !left))
			continue;
		error = pg_cgroup_populated(environment->places[i].fd, &populated, err);
		if (error && !pg_cgroup_is_gone(error))
			return error;
		if (!error && populated)
			return pg_fail(err, left ? -EINVAL : -EAGAIN,
				       "no process of %s is seen in the network namespace that it"
				       " was given, so what guards its links could not be found;"
				       " attach to it while one is there, or start it in a parent",
				       pg_place_path(environment, i));
	}
	return 0;
}
