/* SPDX-License-Identifier: Apache-2.0 */
#include "environment/members.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "environment/cgroup.h"
#include "kernel/mountinfo.h"
#include "kernel/probe.h"

/* More descriptors than looking into one cgroup within another takes. */
#define ENOUGH 16

static char *mount;
static char path[256], below[300];
static pid_t child;

static void write_text(const char *directory, const char *file, int number)
{
	char name[400], text[32];
	int fd, size = snprintf(text, sizeof(text), "%d", number);

	snprintf(name, sizeof(name), "%s/%s", directory, file);
	fd = open(name, O_WRONLY | O_CLOEXEC);
	cr_assert_eq(write(fd, text, (size_t)size), size, "%s", name);
	close(fd);
}

/* A process with a network namespace of its own, in a cgroup below another. */
static void start(void)
{
	struct pg_error err = {};
	int ready[2];
	char octet;

	if (geteuid() != 0 || pg_cgroup2_mount(&mount, &err))
		cr_skip_test("needs root and cgroup2");
	snprintf(path, sizeof(path), "%s/phasegate-members-%d", mount, getpid());
	snprintf(below, sizeof(below), "%s/below", path);
	cr_assert_eq(mkdir(path, 0755), 0);
	cr_assert_eq(mkdir(below, 0755), 0);
	cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		if (unshare(CLONE_NEWNET) || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	cr_assert_eq(read(ready[0], &octet, 1), 1);
	close(ready[0]);
	close(ready[1]);
	write_text(below, "cgroup.procs", child);
}

static void stop(void)
{
	if (child <= 0)
		return;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	/* A zombie leaves its cgroup a moment after its end. */
	for (int i = 0; i < 1000 && rmdir(below) && errno == EBUSY; i++)
		usleep(1000);
	rmdir(path);
	free(mount);
}

TestSuite(members, .init = start, .fini = stop);

static rlim_t count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	rlim_t count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	/* Without itself, "." and "..". */
	return count - 3;
}

/* Who leaves out a namespace for want of a descriptor would close its listener. */
Test(members, all_or_an_error)
{
	pg_autoclose int cgroup_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pg_autoclose int below_fd = open(below, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const rlim_t open_now = count_descriptors();
	struct rlimit limit = {.rlim_max = 1024};
	unsigned int failed = 0, complete = 0;
	char namespace[64];
	struct stat status;
	uint64_t id;

	snprintf(namespace, sizeof(namespace), "/proc/%d/ns/net", child);
	cr_assert_eq(stat(namespace, &status), 0);
	cr_assert_eq(pg_cgroup_id(below_fd, &id, NULL), 0);
	for (unsigned int more = 0; more <= ENOUGH; more++) {
		pg_automembers struct pg_members members = {};
		int error;

		limit.rlim_cur = open_now + more;
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		error = pg_members_add(&members, 0, cgroup_fd);
		if (error) {
			cr_expect_eq(error, -EMFILE, "%d", error);
			failed++;
			continue;
		}
		complete++;
		cr_expect(pg_members_have_cgroup(&members, id), "%u descriptors", more);
		cr_expect(pg_members_have_namespace(&members, status.st_ino), "%u descriptors",
			  more);
	}
	cr_expect_gt(failed, 0);
	cr_expect_gt(complete, 0);
}
