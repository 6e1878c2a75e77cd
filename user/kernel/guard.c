/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Its directory of pins appears whole, by a rename: a process killed before that leaves a guard
 * that admits nobody new, which the next pg_guard_install() replaces.
 */
#include "guard.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <guard.skel.h>

#include "attached.h"
#include "pins.h"

#define NEW_GUARD_PINS "+guard-new"

/* How often, and how long in between, the guard of somebody else is looked for: two seconds. */
#define OTHER_LOOKS    100
#define OTHER_PAUSE_NS 20000000

#define ADMITTED "pg_guard_admitted"

enum guard_hook {
#define PG_X(symbol, program) GUARD_##symbol,
	PG_GUARD_HOOKS(PG_X)
#undef PG_X
	GUARD_COUNT
};

static const char *const guard_names[GUARD_COUNT] = {
#define PG_X(symbol, program) #program,
	PG_GUARD_HOOKS(PG_X)
#undef PG_X
};

static void free_guard(struct guard_bpf **guard)
{
	guard_bpf__destroy(*guard);
}

static int pin(int fd, const char *directory, const char *name, struct pg_error *err)
{
	char path[PATH_MAX];
	int error = pg_pins_join(path, directory, name, err);

	if (!error && bpf_obj_pin(fd, path))
		error = pg_fail_errno(err, -errno, "pinning %s", path);
	return error;
}

static int attach(const struct bpf_program *program, int cgroup_fd, const char *directory,
		  struct pg_error *err)
{
	const char *name = bpf_program__name(program);
	pg_autoclose int link = bpf_link_create(bpf_program__fd(program), cgroup_fd,
						bpf_program__expected_attach_type(program), NULL);

	if (link < 0)
		return pg_fail_errno(err, -errno, "attaching %s to the parent cgroup", name);
	return pin(link, directory, name, err);
}

static int admit(int map, uint64_t cgroup_id, struct pg_error *err)
{
	const uint8_t present = 1;

	if (bpf_map_update_elem(map, &cgroup_id, &present, BPF_ANY))
		return pg_fail_errno(err, -errno, "admitting cgroup %" PRIu64 " past the guard",
				     cgroup_id);
	return 0;
}

static int make(const char *directory, int cgroup_fd, const uint64_t *admitted, size_t count,
		struct pg_error *err)
{
	PG_CLEANUP(free_guard) struct guard_bpf *guard = guard_bpf__open_and_load();
	struct bpf_program *program;
	int map, error;

	if (!guard)
		return pg_fail_errno(err, -errno, "loading the guard's programs");
	map = bpf_map__fd(guard->maps.pg_guard_admitted);
	if (mkdir(directory, 0700))
		return pg_fail_errno(err, -errno, "making the directory %s", directory);
	error = pin(map, directory, ADMITTED, err);
	for (size_t i = 0; i < count && !error; i++)
		error = admit(map, admitted[i], err);
	if (error)
		return error;
	bpf_object__for_each_program(program, guard->obj)
	{
		error = attach(program, cgroup_fd, directory, err);
		if (error)
			break;
	}
	return error;
}

/* -ENOENT without a message: there is no guard. */
static int open_admitted(const char *pins, int *ret_fd, struct pg_error *err)
{
	char directory[PATH_MAX], path[PATH_MAX];
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);
	pg_autoclose int fd = -1;
	int error = pg_pins_join(directory, pins, PG_GUARD_PINS, err);

	if (!error)
		error = pg_pins_join(path, directory, ADMITTED, err);
	if (error)
		return error;
	fd = bpf_obj_get(path);
	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
		return pg_fail_errno(err, -errno, "opening the pinned map %s", path);
	if (info.type != BPF_MAP_TYPE_HASH || info.key_size != sizeof(uint64_t) ||
	    info.value_size != sizeof(uint8_t))
		return pg_fail(err, -EPROTO, "%s is not the guard's map", path);
	*ret_fd = PG_TAKE_FD(fd);
	return 0;
}

/* Whether the pinned link is there and attached to the cgroup. */
static bool is_attached(const char *directory, enum guard_hook hook, uint64_t cgroup_id)
{
	struct bpf_link_info info = {};
	__u32 size = sizeof(info);
	pg_autoclose int fd = -1;
	char path[PATH_MAX];

	if (pg_pins_join(path, directory, guard_names[hook], NULL))
		return false;
	fd = bpf_obj_get(path);
	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &size) &&
	       info.type == BPF_LINK_TYPE_CGROUP && info.cgroup.cgroup_id == cgroup_id;
}

int pg_guard_check(const char *pins, uint64_t cgroup_id, bool *ret_in_force, struct pg_error *err)
{
	pg_autoclose int map = -1;
	char directory[PATH_MAX];
	int error = open_admitted(pins, &map, err);
	bool in_force = !error;

	if (!error || error == -ENOENT)
		error = pg_pins_join(directory, pins, PG_GUARD_PINS, err);
	if (error)
		return error;
	for (size_t i = 0; i < GUARD_COUNT; i++)
		in_force = in_force && is_attached(directory, (enum guard_hook)i, cgroup_id);
	*ret_in_force = in_force;
	return 0;
}

/* The id of the pinned guard's program for egress, or 0. */
static uint32_t own_egress(const char *pins, const char *name)
{
	struct bpf_link_info info = {};
	char directory[PATH_MAX], path[PATH_MAX];
	__u32 size = sizeof(info);
	pg_autoclose int fd = -1;

	if (pg_pins_join(directory, pins, name, NULL) ||
	    pg_pins_join(path, directory, guard_names[GUARD_EGRESS], NULL))
		return 0;
	fd = bpf_obj_get(path);
	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &size) ? info.prog_id : 0;
}

static bool is_guard(uint32_t id)
{
	pg_autoclose int fd = bpf_prog_get_fd_by_id(id);
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	/* The kernel cuts the names of programs. */
	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &size) &&
	       !strncmp(info.name, guard_names[GUARD_EGRESS], sizeof(info.name) - 1);
}

static int find_other(const char *pins, int cgroup_fd, bool *ret_found, struct pg_error *err)
{
	const uint32_t own[] = {own_egress(pins, PG_GUARD_PINS), own_egress(pins, NEW_GUARD_PINS)};
	struct pg_attached_ids attached;
	int error = pg_attached_ids(cgroup_fd, BPF_CGROUP_INET_EGRESS, &attached);

	if (error)
		return pg_fail_errno(err, error, "listing the parent cgroup's programs");
	*ret_found = false;
	for (uint32_t i = 0; i < attached.count; i++)
		*ret_found |= attached.items[i] != own[0] && attached.items[i] != own[1] &&
			      is_guard(attached.items[i]);
	return 0;
}

/*
 * A guard of other pins admits nothing that is made by these: with two of them, neither owner could
 * make a cgroup any more that reaches anything. One whose pins have just gone may be there for a
 * moment (Linux 5.10).
 */
static int refuse_other(const char *pins, int cgroup_fd, struct pg_error *err)
{
	const struct timespec pause = {.tv_nsec = OTHER_PAUSE_NS};
	bool found;

	for (int i = 0; i < OTHER_LOOKS; i++) {
		int error = find_other(pins, cgroup_fd, &found, err);

		if (error || !found)
			return error;
		nanosleep(&pause, NULL);
	}
	return pg_fail(err, -EBUSY,
		       "the parent cgroup has the guard of an agent with other pins: use a"
		       " cgroup_parent of your own, or end that agent and its Environments, and"
		       " remove its pins");
}

static bool is_among(const uint64_t *ids, size_t count, uint64_t id)
{
	for (size_t i = 0; i < count; i++)
		if (ids[i] == id)
			return true;
	return false;
}

static int admit_only(const char *pins, const uint64_t *admitted, size_t count,
		      struct pg_error *err)
{
	uint64_t key, next, *previous = NULL;
	pg_autoclose int map = -1;
	int error = open_admitted(pins, &map, err);

	for (size_t i = 0; i < count && !error; i++)
		error = admit(map, admitted[i], err);
	/* A key deleted meanwhile makes the walk start again; the table's size bounds it. */
	for (size_t i = 0; !error && i < 2UL * PG_GUARD_MAX; i++) {
		if (bpf_map_get_next_key(map, previous, &next))
			break;
		if (!is_among(admitted, count, next) && !bpf_map_delete_elem(map, &next))
			continue;
		key = next;
		previous = &key;
	}
	return error;
}

static int replace(const char *pins, int cgroup_fd, const uint64_t *admitted, size_t count,
		   struct pg_error *err)
{
	char directory[PATH_MAX], new[PATH_MAX];
	int error = pg_pins_join(directory, pins, PG_GUARD_PINS, err);

	if (!error)
		error = pg_pins_join(new, pins, NEW_GUARD_PINS, err);
	if (!error)
		error = pg_pins_remove(new, err);
	if (!error && mkdir(pins, 0700) && errno != EEXIST)
		error = pg_fail_errno(err, -errno, "making the directory %s", pins);
	if (error)
		return error;
	/* What is there of the old one goes when the new one is in force. */
	error = make(new, cgroup_fd, admitted, count, err);
	if (!error)
		error = pg_pins_remove(directory, err);
	if (!error && rename(new, directory))
		error = pg_fail_errno(err, -errno, "renaming %s to %s", new, directory);
	if (error && pg_pins_remove(new, NULL))
		pg_error_prefix(err, "%s stays behind", new);
	return error;
}

int pg_guard_install(const char *pins, int cgroup_fd, const uint64_t *admitted, size_t count,
		     struct pg_error *err)
{
	struct stat status;
	bool in_force;
	int error;

	if (fstat(cgroup_fd, &status))
		return pg_fail_errno(err, -errno, "reading the parent cgroup's number");
	error = pg_guard_check(pins, status.st_ino, &in_force, err);
	if (error)
		return error;
	if (in_force)
		return admit_only(pins, admitted, count, err);
	error = refuse_other(pins, cgroup_fd, err);
	return error ? error : replace(pins, cgroup_fd, admitted, count, err);
}

bool pg_guard_is_attached(int cgroup_fd)
{
	__u32 flags = 0, count = 0;

	return !bpf_prog_query(cgroup_fd, BPF_CGROUP_INET_EGRESS, 0, &flags, NULL, &count) && count;
}

int pg_guard_remove(const char *pins, struct pg_error *err)
{
	char path[PATH_MAX];
	int error = pg_pins_join(path, pins, PG_GUARD_PINS, err);

	if (!error)
		error = pg_pins_remove(path, err);
	if (!error)
		error = pg_pins_join(path, pins, NEW_GUARD_PINS, err);
	return error ? error : pg_pins_remove(path, err);
}

int pg_guard_admit(const char *pins, uint64_t cgroup_id, struct pg_error *err)
{
	pg_autoclose int map = -1;
	int error = open_admitted(pins, &map, err);

	if (error == -ENOENT)
		return 0;
	return error ? error : admit(map, cgroup_id, err);
}

int pg_guard_withdraw(const char *pins, uint64_t cgroup_id, struct pg_error *err)
{
	pg_autoclose int map = -1;
	int error = open_admitted(pins, &map, err);

	if (error == -ENOENT)
		return 0;
	if (!error && bpf_map_delete_elem(map, &cgroup_id) && errno != ENOENT)
		error = pg_fail_errno(err, -errno, "taking back what the guard admitted");
	return error;
}
