/* SPDX-License-Identifier: Apache-2.0 */
/* Children of this process that begin their life inside the Environment's cgroup. */
#include "host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fork.h"
#include "base/wait.h"
#include "steps.h"

/* In the child: no signal blocked (the parent waits for them by descriptor), death with the parent.
 */
static void prepare_child(pid_t parent)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1); /* it died before the line above */
}

int pg_spawn_function(int cgroup_fd, int (*function)(void *userdata), void *userdata,
		      pid_t *ret_pid, struct pg_error *err)
{
	const pid_t parent = getpid();
	pid_t pid = pg_fork_into(cgroup_fd, -1);

	if (pid < 0)
		return pg_fail_errno(err, pid, "starting a process in the cgroup");
	if (!pid) {
		prepare_child(parent);
		_exit(function(userdata));
	}
	*ret_pid = pid;
	return 0;
}

/* close_range() is of Linux 5.9, so there on every kernel that we support. */
static void close_inherited(unsigned int first)
{
	if (syscall(SYS_close_range, first, ~0U, 0))
		_exit(1);
}

/* Of the child, if it could not do as it was told. */
struct failure {
	int error; /* negative errno */
	bool confining;
};

static int confine(const struct pg_spawn *spawn)
{
	return spawn->confine ? spawn->confine(spawn->userdata) : 0;
}

/* Runs in the child; returns only if it fails, with what failed in the pipe. */
static void execute(const struct pg_spawn *spawn, int report_fd)
{
	const int report = STDERR_FILENO + 1;
	struct failure failure = {};

	if (report_fd != report && dup3(report_fd, report, O_CLOEXEC) < 0)
		return;
	/* Descriptors from outside could be sockets that this cgroup does not judge. */
	close_inherited(report + 1);
	failure.error = confine(spawn);
	failure.confining = failure.error != 0;
	if (!failure.error) {
		execvp(spawn->argv[0], spawn->argv);
		failure.error = -errno;
	}
	(void)!write(report, &failure, sizeof(failure));
}

/*
 * A command that sees the cgroups could have made one of a name that it foresees, and frozen it:
 * so the name is random, and one that exists is not taken.
 */
int pg_spawn_cgroup(const struct pg_environment *environment, const char *stem, char *name,
		    size_t room, int *ret_fd, struct pg_error *err)
{
	uint32_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return pg_fail_errno(err, -errno, "drawing a random name");
	snprintf(name, room, "%s-%08" PRIx32, stem, random);
	if (mkdirat(environment->places[0].fd, name, 0755))
		return pg_fail_errno(err, -errno, "making the cgroup %s/%s",
				     pg_place_path(environment, 0), name);
	return pg_cgroup_open(environment->places[0].fd, name, ret_fd, err);
}

/* Waits for the child's report: 0 once it has executed, or the negative errno that kept it. */
static int wait_executed(int read_fd, int interrupt_fd, struct failure *ret_failure)
{
	int error;

	do
		error = pg_wait_readable(read_fd, interrupt_fd, -1);
	while (!error);
	/* Executed and a signal at once: the signal is for the command, which has started. */
	if (error == -ECANCELED && pg_wait_readable(read_fd, -1, 0) > 0)
		error = 1;
	if (error < 0)
		return error;
	if (read(read_fd, ret_failure, sizeof(*ret_failure)) != (ssize_t)sizeof(*ret_failure))
		return 0;
	return ret_failure->error;
}

int pg_environment_spawn(struct pg_environment *environment, struct pg_spawn *spawn, pid_t *ret_pid,
			 struct pg_error *err)
{
	pg_autoclose int cgroup_fd = -1, read_fd = -1, write_fd = -1;
	const pid_t parent = getpid();
	struct failure failure = {};
	int pipe_fds[2], error;
	char name[64];
	pid_t pid;

	spawn->not_executable = false;
	error = pg_spawn_cgroup(environment, spawn->cgroup, name, sizeof(name), &cgroup_fd, err);
	if (error)
		return error;
	if (pipe2(pipe_fds, O_CLOEXEC))
		return pg_fail_errno(err, -errno, "making a pipe to the command");
	read_fd = pipe_fds[0];
	write_fd = pipe_fds[1];
	pid = pg_fork_into(cgroup_fd, environment->host->interrupt_fd);
	if (pid < 0)
		return pg_fail_errno(err, pid, "starting a process in the cgroup %s/%s",
				     pg_place_path(environment, 0), spawn->cgroup);
	if (!pid) {
		prepare_child(parent);
		execute(spawn, write_fd);
		_exit(1);
	}
	pg_close_fd(&write_fd);
	error = wait_executed(read_fd, environment->host->interrupt_fd, &failure);
	if (error) {
		spawn->not_executable = failure.error && !failure.confining;
		kill(pid, SIGKILL); /* which ends a frozen one, too */
		waitpid(pid, NULL, 0);
		return pg_fail_errno(err, error, "%s %s",
				     failure.confining ? "taking privileges from" : "executing",
				     spawn->argv[0]);
	}
	*ret_pid = pid;
	pg_step(PG_STEP_SPAWNED);
	return 0;
}
