/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "inspect/inspect.h"
#include "inspect/parts.h"

static pid_t start(void)
{
	const pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid)
		return pid;
	for (;;)
		pause();
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Looks at the process with that many descriptors left. */
static void look(pid_t pid, unsigned int left, struct pg_exposure_list *found)
{
	struct pg_inspection inspection = {.name = "the container c1", .found = found};
	const int next = open("/", O_PATH | O_CLOEXEC);
	struct rlimit limit, before;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	cr_assert_geq(next, 0);
	close(next);
	limit = before;
	limit.rlim_cur = (rlim_t)next + left;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	pg_inspect_process(&inspection, pid);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}

Test(process, one_that_cannot_be_looked_at_is_told)
{
	const pid_t pid = start();

	for (unsigned int left = 0; left < 3; left++) {
		pg_autoexposures struct pg_exposure_list found = {0};

		look(pid, left, &found);
		cr_expect(pg_exposures_have(&found, PG_EXPOSURE_NOT_INSPECTED, 0), "%u", left);
	}
	end(pid);
}

Test(process, one_that_can_is_not)
{
	pg_autoexposures struct pg_exposure_list found = {0};
	const pid_t pid = start();

	look(pid, 32, &found);
	cr_expect_not(pg_exposures_have(&found, PG_EXPOSURE_NOT_INSPECTED, 0));
	end(pid);
}

Test(process, one_that_has_ended_is_not)
{
	pg_autoexposures struct pg_exposure_list found = {0};
	const pid_t pid = start();

	end(pid);
	look(pid, 32, &found);
	cr_expect_eq(found.count, 0);
}
