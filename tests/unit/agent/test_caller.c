/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/caller.h"

/* A child that has nothing of ours open. */
static pid_t start_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close_range(3, ~0U, 0);
		for (;;)
			pause();
	}
	cr_assert_gt(pid, 0);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

Test(caller, of_a_connection)
{
	PG_CLEANUP(pg_caller_clear) struct pg_caller caller;
	pg_autofree char *cgroup = NULL;
	struct pg_error err = {};
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	cr_assert_eq(pg_caller_of(ends[0], &caller, &err), 0, "%s", err.text);
	cr_expect_eq(caller.pid, getpid());
	cr_expect_eq(caller.uid, getuid());
	cr_expect(pg_caller_in_group(&caller, getgid()));
	cr_expect_not(pg_caller_in_group(&caller, 59999));
	cr_expect_eq(pg_caller_check_place(&caller, &err), 0, "%s", err.text);
	cr_expect_eq(pg_caller_cgroup(&caller, &cgroup, &err), 0, "%s", err.text);
	cr_expect_eq(*cgroup, '/');
	cr_expect_eq(pg_caller_check_socket(&caller, ends[0], &err), 0, "%s", err.text);
}

Test(caller, that_has_not_the_connection)
{
	PG_CLEANUP(pg_caller_clear) struct pg_caller caller;
	struct pg_error err = {};
	int ends[2];
	pid_t pid;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid = start_child();
	cr_assert_eq(pg_caller_of_pid(pid, &caller, &err), 0, "%s", err.text);
	/* It closes its copies some time after it has begun. */
	for (int i = 0; i < 1000 && pg_caller_check_socket(&caller, ends[0], &err) == 0; i++)
		usleep(1000);
	cr_expect_eq(pg_caller_check_socket(&caller, ends[0], &err), -ESRCH, "%s", err.text);
	end_child(pid);
}

/* What is held is the process, not its number. */
Test(caller, that_has_ended)
{
	PG_CLEANUP(pg_caller_clear) struct pg_caller caller, again;
	pg_autofree char *cgroup = NULL;
	struct pg_error err = {};
	pid_t pid = start_child();

	cr_assert_eq(pg_caller_of_pid(pid, &caller, &err), 0, "%s", err.text);
	end_child(pid);
	cr_expect_eq(pg_caller_check_place(&caller, &err), -ESRCH);
	cr_expect_eq(pg_caller_cgroup(&caller, &cgroup, &err), -ESRCH);
	cr_expect_not(pg_caller_in_group(&caller, 12345));
	cr_expect_eq(pg_caller_of_pid(pid, &again, &err), -ESRCH);
}
