/* SPDX-License-Identifier: Apache-2.0 */
/* A cgroup that exists only while the probe runs. */
#include "kernel/probe_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fork.h"

/* Times 1 ms: how long the kernel may take to let a cgroup go after its last process. */
#define REMOVE_TRIES 200

int pg_scratch_make(struct pg_scratch *scratch, struct pg_error *err)
{
	pg_autofree char *mount = NULL;
	pg_autofree char *path = NULL;
	sigset_t all;
	int r = pg_cgroup2_mount(&mount, err);

	if (r < 0)
		return r;
	if (asprintf(&path, "%s/phasegate-probe-%d", mount, getpid()) < 0) {
		path = NULL;
		return pg_fail_errno(err, -ENOMEM, "path of the scratch cgroup");
	}
	/* SIGSYS tells of a system call that is denied, which must not end the process. */
	sigfillset(&all);
	sigdelset(&all, SIGSYS);
	sigprocmask(SIG_BLOCK, &all, &scratch->blocked);
	/* One of the same name was left by a probe that was killed. */
	if (mkdir(path, 0755) < 0 && errno != EEXIST) {
		r = -errno;
		sigprocmask(SIG_SETMASK, &scratch->blocked, NULL);
		return pg_fail_errno(err, r, "making the scratch cgroup %s", path);
	}
	scratch->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scratch->path = PG_TAKE_PTR(path);
	if (scratch->fd < 0) {
		r = pg_fail_errno(err, -errno, "open of the scratch cgroup %s", scratch->path);
		pg_scratch_remove(scratch);
		return r;
	}
	return 0;
}

void pg_scratch_remove(struct pg_scratch *scratch)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	if (!scratch->path)
		return;
	pg_close_fd(&scratch->fd);
	for (int i = 0; i < REMOVE_TRIES && rmdir(scratch->path) < 0 && errno == EBUSY; i++)
		nanosleep(&pause, NULL);
	free(scratch->path);
	scratch->path = NULL;
	sigprocmask(SIG_SETMASK, &scratch->blocked, NULL);
}

int pg_scratch_run(const struct pg_scratch *scratch, int (*action)(void), int *ret_status)
{
	pid_t pid = pg_fork_into(scratch->fd, -1);
	int status;

	if (pid < 0)
		return pid;
	if (pid == 0)
		_exit(action());
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return 0;
}
