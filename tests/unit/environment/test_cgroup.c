/* SPDX-License-Identifier: Apache-2.0 */
#include "environment/cgroup.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"

/* A directory of any file system that was removed looks like a cgroup that was. */
Test(cgroup, one_that_is_gone_has_no_processes)
{
	char path[] = "/tmp/pgt-cgroup-XXXXXX";
	bool populated = true;
	size_t killed = 1;
	pg_autoclose int fd = -1;

	cr_assert(mkdtemp(path));
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(rmdir(path), 0);
	cr_expect_eq(pg_cgroup_populated(fd, &populated, NULL), 0);
	cr_expect_not(populated);
	cr_expect_eq(pg_cgroup_kill(fd, PG_CGROUP_KILL_MS, &killed, NULL), 0);
	cr_expect_eq(killed, 0);
}

Test(cgroup, what_is_no_cgroup_is_an_error)
{
	pg_autoclose int fd = open("/dev/null", O_PATH | O_CLOEXEC);
	bool populated;

	cr_expect_eq(pg_cgroup_populated(fd, &populated, NULL), -ENOTDIR);
	cr_expect_eq(pg_cgroup_kill(fd, PG_CGROUP_KILL_MS, NULL, NULL), -ENOTDIR);
}
