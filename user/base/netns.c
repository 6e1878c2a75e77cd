/* SPDX-License-Identifier: Apache-2.0 */
#include "netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int pg_netns_open(pid_t pid, ino_t inode)
{
	pg_autoclose int fd = -1;
	struct stat status;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) || status.st_ino != inode)
		return -1;
	return PG_TAKE_FD(fd);
}

int pg_netns_enter(int netns_fd, int *ret_back, struct pg_error *err)
{
	pg_autoclose int back = -1;

	if (netns_fd < 0) {
		*ret_back = -1;
		return 0;
	}
	back = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (back < 0)
		return pg_fail_errno(err, -errno, "open of /proc/thread-self/ns/net");
	if (setns(netns_fd, CLONE_NEWNET) < 0)
		return pg_fail_errno(err, -errno,
				     "setns into the network namespace of descriptor %d "
				     "(needs CAP_SYS_ADMIN)",
				     netns_fd);
	*ret_back = PG_TAKE_FD(back);
	return 0;
}

void pg_netns_leave(int *back)
{
	if (*back >= 0 && setns(*back, CLONE_NEWNET) < 0)
		abort();
	pg_close_fd(back);
}
