/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw IPv6 sockets that a member had before it was confined: without a mark they would pass for the
 * kernel's, whose neighbour discovery is always allowed. They are looked for in the processes that
 * are there; one that is on its way between two of them at that moment (SCM_RIGHTS), or that only
 * another thread than the first has, is not found.
 */
#include "host_internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/file.h"

static bool is_raw6(int fd)
{
	int domain, type;
	socklen_t size = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size))
		return false;
	size = sizeof(int);
	return domain == AF_INET6 && !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) &&
	       type == SOCK_RAW;
}

/* The descriptor of the other process, by its number; what is closed meanwhile needs no mark. */
static int mark_descriptor(const struct pg_environment *environment, int pid_fd, int number)
{
	pg_autoclose int fd = (int)syscall(SYS_pidfd_getfd, pid_fd, number, 0);

	if (fd < 0)
		return errno == EBADF || errno == ESRCH ? 0 : -errno;
	return is_raw6(fd) ? pg_raw_mark(environment->host->kernel, fd) : 0;
}

static int mark_process(const struct pg_environment *environment, pid_t pid)
{
	pg_autoclose int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	pg_autoclosedir DIR *dir = NULL;
	struct dirent *entry;
	char path[64];
	int error = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	if (pid_fd >= 0)
		dir = opendir(path);
	if (!dir)
		return pg_cgroup_is_gone(-errno) ? 0 : -errno;
	while (!error && (entry = readdir(dir))) {
		char target[32];
		const ssize_t length =
			readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));

		if (length > 8 && !memcmp(target, "socket:[", 8))
			error = mark_descriptor(environment, pid_fd, atoi(entry->d_name));
	}
	return error;
}

static int mark_cgroup(void *userdata, int cgroup_fd)
{
	const struct pg_environment *environment = userdata;
	pg_autofree pid_t *pids = NULL;
	size_t count = 0;
	int error = pg_cgroup_pids(cgroup_fd, &pids, &count, NULL);

	for (size_t i = 0; i < count && !error; i++)
		error = mark_process(environment, pids[i]);
	return pg_cgroup_is_gone(error) ? 0 : error;
}

int pg_raw_sockets_mark(struct pg_environment *environment, size_t index, struct pg_error *err)
{
	int error = pg_cgroup_walk(environment->places[index].fd, mark_cgroup, environment);

	return error ? pg_fail_errno(err, error, "looking at the sockets of %s",
				     pg_place_path(environment, index))
		     : 0;
}
