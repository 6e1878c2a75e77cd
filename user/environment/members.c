/* SPDX-License-Identifier: Apache-2.0 */
#include "members.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/vector.h"
#include "cgroup.h"

void pg_members_clear(struct pg_members *members)
{
	for (size_t i = 0; i < members->namespace_count; i++)
		pg_close_fd(&members->namespaces[i].fd);
	free(members->namespaces);
	free(members->cgroups);
	*members = (struct pg_members){};
}

size_t pg_members_of(const struct pg_members *members, uint64_t cgroup_id)
{
	for (size_t i = 0; i < members->cgroup_count; i++)
		if (members->cgroups[i].cgroup_id == cgroup_id)
			return members->cgroups[i].member;
	return SIZE_MAX;
}

bool pg_members_have_cgroup(const struct pg_members *members, uint64_t cgroup_id)
{
	return pg_members_of(members, cgroup_id) != SIZE_MAX;
}

bool pg_members_have_namespace(const struct pg_members *members, ino_t inode)
{
	for (size_t i = 0; i < members->namespace_count; i++)
		if (members->namespaces[i].inode == inode)
			return true;
	return false;
}

/* Whether there was no room to look; what is not seen then may be there. */
static bool is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

/* Adds the namespace unless it is there; a thread that has gone meanwhile is no error. */
static int add_namespace(struct pg_members *members, const char *path)
{
	pg_autoclose int fd = -1;
	struct stat status;

	if (stat(path, &status) || pg_members_have_namespace(members, status.st_ino))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status))
		return is_shortage(-errno) ? -errno : 0;
	if (pg_members_have_namespace(members, status.st_ino))
		return 0;
	if (pg_vector_grow(&members->namespaces, members->namespace_count, &members->namespace_room,
			   sizeof(*members->namespaces)))
		return -ENOMEM;
	members->namespaces[members->namespace_count++] =
		(struct pg_member_namespace){PG_TAKE_FD(fd), status.st_ino};
	return 0;
}

static int visit_cgroup(void *userdata, int cgroup_fd)
{
	struct pg_members *members = userdata;
	pg_autofree pid_t *tids = NULL;
	size_t count = 0;
	uint64_t id;
	int error = pg_cgroup_id(cgroup_fd, &id, NULL);

	if (!error)
		error = pg_cgroup_threads(cgroup_fd, &tids, &count, NULL);
	if (error)
		return pg_cgroup_is_gone(error) ? 0 : error;
	if (pg_vector_grow(&members->cgroups, members->cgroup_count, &members->cgroup_room,
			   sizeof(*members->cgroups)))
		return -ENOMEM;
	members->cgroups[members->cgroup_count++] = (struct pg_member_of){id, members->collecting};
	for (size_t i = 0; i < count && !error; i++) {
		char path[64];

		if (members->until && pg_monotonic_ns() > members->until)
			return -ETIMEDOUT;
		snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)tids[i]);
		error = add_namespace(members, path);
	}
	return error;
}

int pg_members_add(struct pg_members *members, size_t member, int cgroup_fd)
{
	int error;

	members->collecting = member;
	error = pg_cgroup_walk(cgroup_fd, visit_cgroup, members);
	return pg_cgroup_is_gone(error) ? 0 : error;
}

/* What both callbacks of pg_sockets_close() need. */
struct judging {
	const struct pg_members *members;
	pg_socket_judge judge;
	void *userdata;
};

static bool is_member(void *userdata, uint64_t cgroup_id)
{
	const struct judging *judging = userdata;

	return pg_members_have_cgroup(judging->members, cgroup_id);
}

static bool pass_on(void *userdata, const struct pg_socket *socket)
{
	const struct judging *judging = userdata;

	return judging->judge(judging->userdata, socket);
}

int pg_members_close_sockets(const struct pg_members *members, int mark_map_fd,
			     pg_socket_judge judge, void *userdata, uint64_t deadline,
			     size_t *ret_closed, struct pg_error *err)
{
	struct judging judging = {members, judge, userdata};
	size_t closed = 0;

	*ret_closed = 0;
	for (size_t i = 0; i < members->namespace_count; i++) {
		const struct pg_sockets_query query = {
			.netns_fd = members->namespaces[i].fd,
			.mark_map_fd = mark_map_fd,
			.member = is_member,
			.judge = pass_on,
			.userdata = &judging,
			.until = members->until,
		};
		size_t here = 0;
		int error = pg_sockets_close(&query, &here, err);

		closed += here;
		*ret_closed = closed;
		if (error)
			return error;
		if (pg_monotonic_ns() > deadline && i + 1 < members->namespace_count)
			return pg_fail(err, -ETIMEDOUT,
				       "there was time for %zu of %zu network namespaces", i + 1,
				       members->namespace_count);
	}
	return 0;
}
