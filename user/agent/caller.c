/* SPDX-License-Identifier: Apache-2.0 */
#include "caller.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* Supplementary groups are at most 65,536 in the kernel; whoever has more than a page of them is
 * not taken for a member. */
#define STATUS_MAX 16384

static bool has_ended(const struct pg_caller *caller)
{
	struct pollfd ended = {.fd = caller->pid_fd, .events = POLLIN};

	return poll(&ended, 1, 0) != 0;
}

/* The directory is that of the process that the pidfd holds if that has not ended afterwards. */
static int open_proc(struct pg_caller *caller, struct pg_error *err)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", caller->pid);
	caller->proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (caller->proc_fd < 0 && errno != ENOENT)
		return pg_fail_errno(err, -errno, "cannot open %s", path);
	if (caller->proc_fd < 0 || has_ended(caller))
		return pg_fail(err, -ESRCH, "process %d has ended", caller->pid);
	return 0;
}

static int open_pid(struct pg_caller *caller, struct pg_error *err)
{
	caller->pid_fd = (int)syscall(SYS_pidfd_open, caller->pid, 0);
	if (caller->pid_fd >= 0)
		return 0;
	if (errno == ESRCH || errno == EINVAL)
		return pg_fail(err, -ESRCH, "process %d has ended", caller->pid);
	return pg_fail_errno(err, -errno, "cannot hold process %d", caller->pid);
}

int pg_caller_of(int socket_fd, struct pg_caller *ret_caller, struct pg_error *err)
{
	struct ucred credentials;
	socklen_t size = sizeof(credentials);
	int error;

	*ret_caller = PG_CALLER_NONE;
	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size))
		return pg_fail_errno(err, -errno, "cannot tell who has connected");
	/* A pid of 0 is a process that this namespace cannot see. */
	if (credentials.pid <= 0)
		return pg_fail(err, -EPERM, "the caller is in another pid namespace");
	ret_caller->uid = credentials.uid;
	ret_caller->gid = credentials.gid;
	ret_caller->pid = credentials.pid;
	size = sizeof(ret_caller->pid_fd);
	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &ret_caller->pid_fd, &size) == 0)
		return open_proc(ret_caller, err);
	ret_caller->pid_fd = -1;
	if (errno != ENOPROTOOPT)
		return pg_fail(err, -ESRCH, "the process that connected has ended");
	error = open_pid(ret_caller, err);
	if (!error)
		error = open_proc(ret_caller, err);
	return error ? error : pg_caller_check_socket(ret_caller, socket_fd, err);
}

int pg_caller_of_pid(pid_t pid, struct pg_caller *ret_caller, struct pg_error *err)
{
	struct stat owner;
	int error;

	*ret_caller = PG_CALLER_NONE;
	ret_caller->pid = pid;
	error = open_pid(ret_caller, err);
	if (!error)
		error = open_proc(ret_caller, err);
	if (error)
		return error;
	/* The directory belongs to the effective user, or to root if the process is not dumpable.
	 */
	if (fstat(ret_caller->proc_fd, &owner))
		return pg_fail_errno(err, -errno, "cannot look at process %d", pid);
	ret_caller->uid = owner.st_uid;
	ret_caller->gid = owner.st_gid;
	return 0;
}

int pg_caller_copy(const struct pg_caller *caller, struct pg_caller *ret_copy, struct pg_error *err)
{
	struct pg_caller copy = *caller;

	copy.pid_fd = fcntl(caller->pid_fd, F_DUPFD_CLOEXEC, 0);
	copy.proc_fd = copy.pid_fd < 0 ? -1 : fcntl(caller->proc_fd, F_DUPFD_CLOEXEC, 0);
	if (copy.proc_fd < 0) {
		const int error = -errno;

		pg_close_fd(&copy.pid_fd);
		return pg_fail_errno(err, error, "cannot hold process %d", caller->pid);
	}
	*ret_copy = copy;
	return 0;
}

void pg_caller_clear(struct pg_caller *caller)
{
	pg_close_fd(&caller->pid_fd);
	pg_close_fd(&caller->proc_fd);
	*caller = PG_CALLER_NONE;
}

static int check_namespace(const struct pg_caller *caller, const char *name, struct pg_error *err)
{
	struct stat own, its;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	if (stat(path, &own))
		return pg_fail_errno(err, -errno, "cannot look at %s", path);
	snprintf(path, sizeof(path), "ns/%s", name);
	if (fstatat(caller->proc_fd, path, &its, 0)) {
		if (errno == ESRCH || errno == ENOENT)
			return pg_fail(err, -ESRCH, "the process that connected has ended");
		return pg_fail(err, -EPERM, "the %s namespace of process %d cannot be told: %s",
			       name, caller->pid, strerror(errno));
	}
	if (own.st_dev != its.st_dev || own.st_ino != its.st_ino)
		return pg_fail(err, -EPERM, "process %d is in another %s namespace than the agent",
			       caller->pid, name);
	return 0;
}

int pg_caller_check_place(const struct pg_caller *caller, struct pg_error *err)
{
	int error;

	if (has_ended(caller))
		return pg_fail(err, -ESRCH, "the process that connected has ended");
	error = check_namespace(caller, "user", err);
	return error ? error : check_namespace(caller, "pid", err);
}

/* A small file of /proc/PID, whole. */
static int read_file(const struct pg_caller *caller, const char *name, size_t max, char **ret_text,
		     struct pg_error *err)
{
	pg_autoclose int fd = openat(caller->proc_fd, name, O_RDONLY | O_CLOEXEC);
	pg_autofree char *text = malloc(max);
	size_t size = 0;
	ssize_t got = 1;

	if (!text)
		return pg_fail(err, -ENOMEM, "no memory to read /proc/%d/%s", caller->pid, name);
	while (fd >= 0 && got > 0 && size < max - 1) {
		got = read(fd, text + size, max - 1 - size);
		if (got > 0)
			size += (size_t)got;
	}
	if (fd < 0 || got < 0)
		return pg_fail(err, errno == ENOENT ? -ESRCH : -errno,
			       "cannot read /proc/%d/%s: %s", caller->pid, name, strerror(errno));
	if (got > 0)
		return pg_fail(err, -EFBIG, "/proc/%d/%s is too long", caller->pid, name);
	text[size] = '\0';
	*ret_text = PG_TAKE_PTR(text);
	return 0;
}

int pg_caller_cgroup(const struct pg_caller *caller, char **ret_path, struct pg_error *err)
{
	static const char prefix[] = "0::";
	pg_autofree char *text = NULL;
	char *next;
	int error = read_file(caller, "cgroup", STATUS_MAX, &text, err);

	if (error)
		return error;
	for (char *line = text; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (strncmp(line, prefix, strlen(prefix)) != 0)
			continue;
		*ret_path = strdup(line + strlen(prefix));
		return *ret_path ? 0 : pg_fail(err, -ENOMEM, "no memory for a cgroup's path");
	}
	return pg_fail(err, -ENOENT, "process %d is in no cgroup of version 2", caller->pid);
}

bool pg_caller_in_group(const struct pg_caller *caller, gid_t group)
{
	static const char key[] = "\nGroups:";
	pg_autofree char *text = NULL;
	struct pg_error unused = {};
	char *word, *end;

	if (caller->gid == group)
		return true;
	if (read_file(caller, "status", STATUS_MAX, &text, &unused) < 0)
		return false;
	word = strstr(text, key);
	for (word = word ? word + strlen(key) : NULL; word; word = end) {
		unsigned long id = strtoul(word, &end, 10);

		if (end == word || *word == '\n')
			break;
		if (id == group)
			return true;
		if (*end == '\n')
			break;
	}
	return false;
}
