/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cgroup that an Environment had, used again by the same process, whose header storage still
 * knows it: destroy must have closed it, and create must find it closed. Then names that are taken,
 * and learned addresses in more than their room.
 * usage: reuse CGROUP (absolute below the cgroup2 mount)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "environment/cgroup.h"
#include "kernel/attach.h"
#include "kernel/set.h"
#include "support.h"

static void create(struct confinement *confinement, const char *cgroup)
{
	const struct pg_environment_options options = {
		.members = &cgroup,
		.member_count = 1,
		.policy = confinement->policy,
		.phase = PG_PHASE_SETUP,
	};
	struct pg_error err = {0};

	if (pg_environment_create(confinement->host, &options, &confinement->environment, &err) < 0)
		fail("%s", err.text);
}

/* A name of which something exists that no record knows: create refuses it and leaves that be. */
static void check_taken(struct confinement *confinement)
{
	struct pg_environment_options options = {
		.policy = confinement->policy,
		.phase = PG_PHASE_SETUP,
	};
	struct pg_error err = {0};
	char parent[512], name[32], path[600];

	snprintf(name, sizeof(name), "taken-%d", getpid());
	snprintf(parent, sizeof(parent), "%s/phasegate", pg_host_cgroup_mount(confinement->host));
	snprintf(path, sizeof(path), "%s/%s", parent, name);
	options.name = name;
	/* The last Environment to end, of any process, removes the parent. */
	while (mkdir(path, 0700) < 0)
		if (errno != ENOENT || (mkdir(parent, 0755) < 0 && errno != EEXIST))
			fail("making %s: %s", path, strerror(errno));
	if (pg_environment_create(confinement->host, &options, &confinement->environment, &err) !=
	    -EEXIST)
		fail("with %s: %s", path, err.text);
	if (rmdir(path) < 0)
		fail("what was at %s before is gone: %s", path, strerror(errno));
	rmdir(parent);
}

/* The header that a hook of the cgroup would read, attached anew. */
static struct pg_header header_after_attach(struct pg_host *host, const char *cgroup)
{
	struct pg_kernel *kernel = pg_host_kernel(host);
	struct pg_header header;
	struct pg_error err = {0};
	pg_autoclose int fd = -1;
	char path[512];
	uint64_t id;

	snprintf(path, sizeof(path), "%s%s", pg_host_cgroup_mount(host), cgroup);
	if (pg_cgroup_open(AT_FDCWD, path, &fd, &err) < 0 || pg_cgroup_id(fd, &id, &err) < 0 ||
	    pg_attach(kernel, fd, PG_HOOK_EGRESS, &err) < 0 ||
	    pg_header_read(kernel, id, &header, &err) < 0 || pg_detach(fd, &err) < 0)
		fail("%s", err.text);
	return header;
}

/* A table of learned addresses: expired ones drain until they are removed, a full one says so. */
static void check_learned(struct pg_host *host)
{
	struct pg_kernel *kernel = pg_host_kernel(host);
	const uint64_t past = 1, future = pg_boottime_ns() + 3600 * PG_NSEC_PER_SEC;
	struct pg_kernel_learned learned = {.fd = -1};
	struct pg_addr addr[5];
	struct pg_error err = {0};

	for (size_t i = 0; i < PG_ARRAY_SIZE(addr); i++)
		addr[i] = pg_addr_from_v4(htonl(0xc6336400U + (uint32_t)i));
	if (pg_learned_create(kernel, 4, &learned, &err) < 0)
		fail("%s", err.text);
	for (size_t i = 0; i < 4; i++)
		if (pg_learned_put(&learned, &addr[i], i < 2 ? past : future, &err) < 0)
			fail("address %zu: %s", i, err.text);
	if (pg_learned_put(&learned, &addr[4], future, &err) != -E2BIG)
		fail("a full set takes more");
	/* What is in a full one can still change, in both directions. */
	if (pg_learned_put(&learned, &addr[1], future, &err) < 0 ||
	    pg_learned_put(&learned, &addr[2], past, &err) < 0)
		fail("%s", err.text);
	for (size_t i = 0; i < 5; i++)
		if (pg_learned_contains(&learned, &addr[i], true) != (i < 4) ||
		    pg_learned_contains(&learned, &addr[i], false) != (i == 1 || i == 3))
			fail("address %zu", i);
	pg_learned_remove(&learned, &addr[0]);
	if (pg_learned_contains(&learned, &addr[0], true))
		fail("an address is still there");
	if (pg_learned_put(&learned, &addr[4], future, &err) < 0)
		fail("no room again: %s", err.text);
	pg_learned_destroy(kernel, &learned);
}

int main(int argc, char **argv)
{
	static const struct pg_header zero;
	struct confinement confinement;
	struct pg_header header;
	struct pg_error err = {0};

	if (argc != 2)
		fail("usage: reuse CGROUP");
	confine(&confinement, "{}");
	if (pg_environment_destroy(confinement.environment, PG_DESTROY_KILL, &err) < 0)
		fail("%s", err.text);
	for (int i = 0; i < 2; i++) {
		create(&confinement, argv[1]);
		if (pg_environment_destroy(confinement.environment, PG_DESTROY_KILL, &err) < 0)
			fail("%s", err.text);
		header = header_after_attach(confinement.host, argv[1]);
		if (memcmp(&header, &zero, sizeof(zero)) != 0)
			fail("the header of the phase that was public is still there");
	}
	check_taken(&confinement);
	check_learned(confinement.host);
	create(&confinement, argv[1]);
	confine_end(&confinement);
	puts("reuse: closed each time");
	return 0;
}
