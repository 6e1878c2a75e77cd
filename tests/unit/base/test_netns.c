/* SPDX-License-Identifier: Apache-2.0 */
#include "base/netns.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#define HERE "/proc/thread-self/ns/net"

static ino_t inode_of(int fd)
{
	struct stat status;

	cr_assert_eq(fd < 0 ? stat(HERE, &status) : fstat(fd, &status), 0);
	return status.st_ino;
}

static int descriptor_count(void)
{
	pg_autoclosedir DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	cr_assert(dir);
	while (readdir(dir))
		count++;
	return count;
}

/* A namespace that is not the thread's, which is in another new one afterwards. */
static int make_netns(void)
{
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		cr_skip_test("needs root for a network namespace: %s", strerror(errno));
	fd = open(HERE, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(unshare(CLONE_NEWNET), 0);
	cr_assert_neq(inode_of(fd), inode_of(-1));
	return fd;
}

Test(netns, goes_and_comes_back)
{
	int netns = make_netns(), count = descriptor_count(), back;
	ino_t home = inode_of(-1);
	struct pg_error err = {};

	cr_assert_eq(pg_netns_enter(netns, &back, &err), 0, "%s", err.text);
	cr_expect_eq(inode_of(-1), inode_of(netns));
	cr_expect(fcntl(back, F_GETFD) & FD_CLOEXEC);
	pg_netns_leave(&back);
	cr_expect_eq(inode_of(-1), home);
	cr_expect_eq(back, -1);
	cr_expect_eq(descriptor_count(), count);
	close(netns);
}

Test(netns, comes_back_at_the_end_of_the_scope)
{
	int netns = make_netns();
	ino_t home = inode_of(-1);

	{
		PG_CLEANUP(pg_netns_leave) int back = -1;

		cr_assert_eq(pg_netns_enter(netns, &back, NULL), 0);
		cr_expect_neq(inode_of(-1), home);
	}
	cr_expect_eq(inode_of(-1), home);
	close(netns);
}

Test(netns, stays)
{
	int back = 7;
	ino_t home = inode_of(-1);

	cr_assert_eq(pg_netns_enter(-1, &back, NULL), 0);
	cr_expect_eq(back, -1);
	pg_netns_leave(&back);
	cr_expect_eq(inode_of(-1), home);
}

Test(netns, what_is_not_a_namespace)
{
	int fd = open("/dev/null", O_RDONLY), count = descriptor_count(), back = -1;
	struct pg_error err = {};

	cr_expect_lt(pg_netns_enter(fd, &back, &err), 0);
	cr_expect(strstr(err.text, "setns"), "%s", err.text);
	cr_expect_eq(back, -1);
	cr_expect_eq(descriptor_count(), count);
	close(fd);
}
