/* SPDX-License-Identifier: Apache-2.0 */
#include "fork.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file.h"
#include "wait.h"

/* For a child to run; much more than it takes. */
#define BIRTH_MS   1000
#define EVENTS_MAX 4096

struct birth {
	int read_fd, write_fd;
};

static int open_birth(struct birth *birth)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	*birth = (struct birth){ends[0], ends[1]};
	return 0;
}

static void close_birth(struct birth *birth)
{
	pg_close_fd(&birth->read_fd);
	pg_close_fd(&birth->write_fd);
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Does nothing before it has been moved. */
static pid_t fork_and_move(int cgroup_fd)
{
	PG_CLEANUP(close_birth) struct birth birth = {-1, -1};
	char text[16], byte = 0;
	int error = open_birth(&birth);
	pid_t pid = error ? error : fork();

	if (pid < 0)
		return error ? error : -errno;
	if (!pid) {
		pg_close_fd(&birth.write_fd);
		if (read(birth.read_fd, &byte, 1) != 1)
			_exit(1);
		return 0;
	}
	snprintf(text, sizeof(text), "%d", (int)pid);
	error = pg_file_write_at(cgroup_fd, "cgroup.procs", text, NULL);
	if (!error && write(birth.write_fd, &byte, 1) == 1)
		return pid;
	kill(pid, SIGKILL);
	reap(pid);
	return error ? error : -EIO;
}

/* Frozen ones are; they run later. */
static bool is_born(int cgroup_fd, const struct birth *birth, int interrupt_fd)
{
	pg_autofree char *events = NULL;
	size_t size;
	char byte;

	if (!pg_file_read_at(cgroup_fd, "cgroup.events", EVENTS_MAX, &events, &size, NULL) &&
	    strstr(events, "frozen 1"))
		return true;
	return pg_wait_readable(birth->read_fd, interrupt_fd, BIRTH_MS) <= 0 ||
	       read(birth->read_fd, &byte, 1) == 1;
}

pid_t pg_fork_into(int cgroup_fd, int interrupt_fd)
{
	struct clone_args arguments = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (__u64)cgroup_fd,
	};
	PG_CLEANUP(close_birth) struct birth birth = {-1, -1};
	char byte = 0;
	int error = open_birth(&birth);
	pid_t pid;

	if (error)
		return error;
	pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
	if (pid < 0)
		return -errno;
	if (!pid) {
		(void)!write(birth.write_fd, &byte, 1);
		return 0;
	}
	pg_close_fd(&birth.write_fd);
	if (is_born(cgroup_fd, &birth, interrupt_fd))
		return pid;
	reap(pid);
	return fork_and_move(cgroup_fd);
}
