/* SPDX-License-Identifier: Apache-2.0 */
/* What a host that keeps Environments has pinned: the lock, and the guard of their cgroups. */
#include "host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/file.h"
#include "base/vector.h"
#include "kernel/exec.h"
#include "kernel/guard.h"

#define BPFFS "/sys/fs/bpf"

static int open_private(const char *path, int *ret_fd, struct pg_error *err)
{
	pg_autoclose int fd = -1;
	int error;

	if (mkdir(path, 0700) && errno != EEXIST)
		return pg_fail_errno(err, -errno, "making the directory %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return pg_fail_errno(err, -errno, "opening the directory %s", path);
	error = pg_dir_refuse_shared(fd, path, err);
	if (!error)
		*ret_fd = PG_TAKE_FD(fd);
	return error;
}

int pg_pins_root(struct pg_error *err)
{
	pg_autoclose int fd = -1;

	return open_private(PG_PIN_ROOT, &fd, err);
}

int pg_host_check_pins(const char *pins, struct pg_error *err)
{
	char path[PATH_MAX];
	struct statfs status;
	char *slash;

	if (snprintf(path, sizeof(path), "%s", pins) >= (int)sizeof(path))
		return pg_fail(err, -ENAMETOOLONG, "the path %s is too long for pins", pins);
	/* It may be made yet, and the directory above it. */
	while (statfs(path, &status) && errno == ENOENT && (slash = strrchr(path, '/')) &&
	       slash != path)
		*slash = '\0';
	if (statfs(path, &status))
		return pg_fail_errno(err, -errno, "looking at the directory %s", path);
	/* There one is mounted at the start, if need be. */
	if (status.f_type != BPF_FS_MAGIC && strncmp(pins, BPFFS "/", sizeof(BPFFS)) != 0)
		return pg_fail(err, -EINVAL,
			       "the pins %s are not on a BPF file system: name a directory below"
			       " " BPFFS,
			       pins);
	return 0;
}

/* The directory itself is the lock: there as long as anything is pinned. */
int pg_pins_lock(struct pg_host *host, struct pg_error *err)
{
	int error = pg_host_check_pins(host->pins, err);

	if (!error)
		error = pg_pins_root(err);

	if (!error)
		error = open_private(host->pins, &host->pins_fd, err);
	if (error)
		return error;
	error = pg_heir_lock(host->pins_fd, host->interrupt_fd);
	if (error == -EWOULDBLOCK)
		return pg_fail(
			err, -EBUSY,
			"another process keeps its Environments in %s: end that one first, or"
			" use pins and a cgroup_parent of your own",
			host->pins);
	return error ? pg_fail_errno(err, error, "locking the directory %s", host->pins) : 0;
}

/* What is in the children of the parent and has an Environment, with whatever owner. */
struct admitting {
	struct pg_host *host;
	uint64_t *ids;
	size_t count, room;
};

/* One whose hooks are all in force: a record alone confines nobody. */
static int admit_member(struct admitting *admitting, const struct pg_record *record, size_t index)
{
	const char *path = record->cgroups[index].path;
	pg_autoclose int fd = -1;
	pg_hook_set hooks;
	uint64_t id;

	if (!pg_host_is_below_parent(admitting->host, path) ||
	    pg_cgroup_open(admitting->host->cgroup_mount_fd, path + 1, &fd, NULL) ||
	    pg_cgroup_id(fd, &id, NULL) || pg_attached(NULL, fd, &hooks, NULL))
		return 0;
	if (pg_vector_grow(&admitting->ids, admitting->count, &admitting->room,
			   sizeof(*admitting->ids)))
		return -ENOMEM;
	admitting->ids[admitting->count++] = id;
	return 0;
}

static int admit_record(void *userdata, int record_fd, const struct pg_record *record,
			struct pg_error *err)
{
	struct admitting *admitting = userdata;
	int error = 0;

	for (size_t i = 0; i < record->cgroup_count && !error; i++)
		error = admit_member(admitting, record, i);
	return error ? pg_fail_errno(err, error, "looking for the cgroups of %s", record->name) : 0;
}

int pg_pins_guard(struct pg_host *host, int records_fd, struct pg_error *err)
{
	struct admitting admitting = {.host = host};
	pg_autoclose int parent_fd = -1;
	int error;

	if (mkdirat(host->cgroup_mount_fd, host->parent, 0755) && errno != EEXIST)
		return pg_fail_errno(err, -errno, "making the cgroup /%s", host->parent);
	error = pg_cgroup_open(host->cgroup_mount_fd, host->parent, &parent_fd, err);
	if (!error)
		error = pg_records_visit(records_fd, admit_record, &admitting, err);
	if (!error)
		error = pg_guard_install(pg_host_guard_pins(host), parent_fd, admitting.ids,
					 admitting.count, err);
	free(admitting.ids);
	return error;
}

int pg_pins_guard_again(struct pg_host *host, int records_fd, struct pg_error *err)
{
	pg_autoclose int fd = -1;
	bool in_force = false;
	uint64_t id;
	int error = 0;

	if (!host->pins)
		return 0;
	if (!pg_cgroup_open(host->cgroup_mount_fd, host->parent, &fd, NULL) &&
	    !pg_cgroup_id(fd, &id, NULL))
		error = pg_guard_check(pg_host_guard_pins(host), id, &in_force, err);
	return error || in_force ? error : pg_pins_guard(host, records_fd, err);
}

/* With nothing kept, nothing stays pinned. */
void pg_pins_leave(struct pg_host *host)
{
	PG_CLEANUP(pg_records_unlock) int records_fd = -1;

	if (!host->kernel || host->in_use || pg_records_lock(host->interrupt_fd, &records_fd, NULL))
		return;
	(void)!pg_exec_watch_unpin(host->pins, NULL);
	(void)!pg_kernel_unpin(host->pins, NULL);
	pg_parent_remove(host);
	(void)!rmdir(host->pins);
	(void)!rmdir(PG_PIN_ROOT);
}
