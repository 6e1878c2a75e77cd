// SPDX-License-Identifier: Apache-2.0
/*
 * The guard: in a child that was not admitted, and below it, nothing connects or sends, loopback
 * too; in one that was, everything does. It stays when its process has gone, and comes back when
 * its cgroup was made anew. The guarded cgroup is the test's outer one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "kernel/guard.h"
#include "lab.h"
#include "place.h"

#define DISCARD 9

struct bench {
	struct check check;
	struct place place;
	char pins[64], below[340];
};

enum way {
	CONNECT,
	SENDTO,
	SEND, /* by a raw socket, which only egress sees */
	WAYS,
};

static const char *const way_names[WAYS] = {"connect", "sendto", "raw"};

static int attempt(int family, enum way way)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET,
				       .sin_port = htons(DISCARD),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
					.sin6_port = way == SEND ? 0 : htons(DISCARD),
					.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const struct sockaddr *to =
		family == AF_INET ? (const struct sockaddr *)&v4 : (const void *)&v6;
	const socklen_t size = family == AF_INET ? sizeof(v4) : sizeof(v6);
	const int type = way == SEND ? SOCK_RAW : SOCK_DGRAM;
	const int fd = socket(family, type | SOCK_CLOEXEC, way == SEND ? 253 : 0);

	if (fd < 0)
		return -1;
	if (way == CONNECT)
		return connect(fd, to, size) ? errno : 0;
	return sendto(fd, "x", 1, 0, to, size) == 1 ? 0 : errno;
}

/* The errno of the attempt in the cgroup. */
static int try(const char *cgroup, int family, enum way way)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(place_enter(cgroup) ? attempt(family, way) : EXIT_FAILURE);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : -1;
}

static void check_cgroup(struct bench *bench, const char *cgroup, bool allowed, const char *when)
{
	static const int families[] = {AF_INET, AF_INET6};

	for (size_t i = 0; i < 2; i++)
		for (enum way way = 0; way < WAYS; way++) {
			const int error = try(cgroup, families[i], way);

			CHECK(&bench->check, error == (allowed ? 0 : EPERM),
			      "%s: %s, family %d in %s: %s", when, way_names[way], families[i],
			      cgroup, strerror(error));
		}
}

static uint64_t id_of(const char *cgroup)
{
	struct stat status;

	return stat(cgroup, &status) ? 0 : status.st_ino;
}

static int install(struct bench *bench, const uint64_t *admitted, size_t count,
		   struct pg_error *err)
{
	pg_autoclose int fd = open(bench->place.outer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return pg_guard_install(bench->pins, fd, admitted, count, err);
}

static bool in_force(struct bench *bench)
{
	struct pg_error err = {};
	bool found = false;

	CHECK(&bench->check, !pg_guard_check(bench->pins, id_of(bench->place.outer), &found, &err),
	      "%s", err.text);
	return found;
}

static void admit_and_withdraw(struct bench *bench)
{
	const uint64_t inner = id_of(bench->place.inner);
	struct check *check = &bench->check;
	struct pg_error err = {};

	CHECK(check, !in_force(bench), "a guard that nobody has installed");
	CHECK(check, !pg_guard_admit(bench->pins, inner, &err), "%s", err.text);
	CHECK(check, !install(bench, NULL, 0, &err) && in_force(bench), "%s", err.text);
	check_cgroup(bench, bench->place.inner, false, "not admitted");
	check_cgroup(bench, bench->below, false, "not admitted");
	check_cgroup(bench, bench->place.outer, false, "no child");
	check_cgroup(bench, bench->place.other, true, "elsewhere");
	CHECK(check, !pg_guard_admit(bench->pins, inner, &err), "%s", err.text);
	check_cgroup(bench, bench->place.inner, true, "admitted");
	check_cgroup(bench, bench->below, true, "admitted");
	CHECK(check, !install(bench, &inner, 1, &err), "%s", err.text);
	check_cgroup(bench, bench->place.inner, true, "installed once more");
	CHECK(check, !install(bench, NULL, 0, &err), "%s", err.text);
	check_cgroup(bench, bench->place.inner, false, "installed without it");
	CHECK(check, !install(bench, &inner, 1, &err), "%s", err.text);
	check_cgroup(bench, bench->place.inner, true, "installed with it");
	CHECK(check, !pg_guard_withdraw(bench->pins, inner, &err), "%s", err.text);
	CHECK(check, !pg_guard_withdraw(bench->pins, inner, &err), "%s", err.text);
	check_cgroup(bench, bench->below, false, "withdrawn");
}

/* Its cgroup is removed and made anew, or a part of it is missing. */
static void install_anew(struct bench *bench)
{
	struct check *check = &bench->check;
	struct pg_error err = {};
	char path[160];
	uint64_t inner;

	CHECK(check,
	      !rmdir(bench->below) && !rmdir(bench->place.inner) && !rmdir(bench->place.outer) &&
		      !mkdir(bench->place.outer, 0755) && !mkdir(bench->place.inner, 0755) &&
		      !mkdir(bench->below, 0755),
	      "%s", strerror(errno));
	CHECK(check, !in_force(bench), "a guard of a cgroup that is gone");
	inner = id_of(bench->place.inner);
	CHECK(check, !install(bench, &inner, 1, &err) && in_force(bench), "%s", err.text);
	check_cgroup(bench, bench->place.inner, true, "admitted from the start");
	snprintf(path, sizeof(path), "%s/" PG_GUARD_PINS "/pg_guard_egress", bench->pins);
	CHECK(check, !unlink(path) && !in_force(bench), "a guard without egress");
	CHECK(check, !install(bench, NULL, 0, &err) && in_force(bench), "%s", err.text);
	check_cgroup(bench, bench->place.inner, false, "whole again");
	CHECK(check, !pg_guard_remove(bench->pins, &err) && !in_force(bench), "%s", err.text);
	/* Linux 5.10 detaches a while after the last reference to a link has gone. */
	for (int i = 0; i < 100 && try(bench->place.inner, AF_INET6, SENDTO); i++)
		usleep(20000);
	check_cgroup(bench, bench->place.inner, true, "removed");
	CHECK(check, !rmdir(bench->pins), "%s", strerror(errno));
}

int main(void)
{
	struct bench bench = {};
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	if (!place_make(&bench.place))
		return EXIT_FAILURE;
	snprintf(bench.pins, sizeof(bench.pins), "/sys/fs/bpf/phasegate-test-%d", getpid());
	snprintf(bench.below, sizeof(bench.below), "%s/below", bench.place.inner);
	if (CHECK(&bench.check, !mkdir(bench.below, 0755) && !system("ip link set lo up"), "%s",
		  strerror(errno))) {
		admit_and_withdraw(&bench);
		check_group(&bench.check, "children without an Environment have no network");
		install_anew(&bench);
	}
	rmdir(bench.below);
	place_remove(&bench.place);
	lab_close(&lab);
	check_group(&bench.check, "the guard is made whole, and removed");
	return check_end(&bench.check);
}
