/* SPDX-License-Identifier: Apache-2.0 */
/* What a host that keeps Environments has pinned: the lock, and the guard of their cgroups. */
#include "host_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/vector.h"
#include "kernel/guard.h"

/* The directory itself is the lock: there as long as anything is pinned. */
int pg_pins_lock(struct pg_host *host, struct pg_error *err)
{
	const int parent = mkdir(PG_PIN_ROOT, 0700) && errno != EEXIST ? -errno : 0;

	if (parent || (mkdir(host->pins, 0700) && errno != EEXIST))
		return pg_fail_errno(err, parent ? parent : -errno, "making the directory %s",
				     host->pins);
	host->pins_fd = open(host->pins, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (host->pins_fd < 0)
		return pg_fail_errno(err, -errno, "opening the directory %s", host->pins);
	if (!flock(host->pins_fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno == EWOULDBLOCK)
		return pg_fail(err, -EBUSY, "another process keeps its Environments in %s",
			       host->pins);
	return pg_fail_errno(err, -errno, "locking the directory %s", host->pins);
}

/* Of all Environments that there are, with whatever owner: the guard must not cut off one of them.
 */
struct admitting {
	struct pg_host *host;
	uint64_t *ids;
	size_t count, room;
};

static int admit_child(struct admitting *admitting, int parent_fd, const char *name)
{
	pg_autoclose int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char record[sizeof(PG_RECORD_ROOT) + NAME_MAX + 2];
	uint64_t id;

	snprintf(record, sizeof(record), "%s/%s", PG_RECORD_ROOT, name);
	if (fd < 0 || access(record, F_OK) || pg_cgroup_id(fd, &id, NULL))
		return 0;
	if (pg_vector_grow(&admitting->ids, admitting->count, &admitting->room,
			   sizeof(*admitting->ids)))
		return -ENOMEM;
	admitting->ids[admitting->count++] = id;
	return 0;
}

int pg_pins_guard(struct pg_host *host, struct pg_error *err)
{
	struct admitting admitting = {.host = host};
	pg_autoclose int parent_fd = -1;
	pg_autoclosedir DIR *dir = NULL;
	struct dirent *entry;
	int error;

	if (mkdirat(host->cgroup_mount_fd, host->parent, 0755) && errno != EEXIST)
		return pg_fail_errno(err, -errno, "making the cgroup /%s", host->parent);
	error = pg_cgroup_open(host->cgroup_mount_fd, host->parent, &parent_fd, err);
	if (error)
		return error;
	dir = pg_dir_reopen(parent_fd);
	while (dir && (entry = readdir(dir)) && !error)
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			error = admit_child(&admitting, parent_fd, entry->d_name);
	if (error)
		error = pg_fail_errno(err, error, "listing /%s", host->parent);
	else
		error = pg_guard_install(pg_host_guard_pins(host), parent_fd, admitting.ids,
					 admitting.count, err);
	free(admitting.ids);
	return error;
}

/* With nothing kept, nothing stays pinned. */
void pg_pins_leave(struct pg_host *host)
{
	PG_CLEANUP(pg_records_unlock) int records_fd = -1;

	if (!host->kernel || host->in_use || pg_records_lock(host->interrupt_fd, &records_fd, NULL))
		return;
	(void)!pg_kernel_unpin(host->pins, NULL);
	pg_parent_remove(host);
	(void)!rmdir(host->pins);
	(void)!rmdir(PG_PIN_ROOT);
}
