/* SPDX-License-Identifier: Apache-2.0 */
/* Removing an Environment's remains: of one that is destroyed, or whose owner was killed. */
#include "host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>

#include "base/log.h"

/* Shorter than for a tree of our own: what cannot be ended must not delay every start for long, and
 * stays confined. */
#define KILL_MS 1000

/* The cgroup is below mount_fd; path is absolute below the mount. */
static int end_cgroup(struct pg_host *host, const struct pg_record *record, struct pg_error *err)
{
	pg_autoclose int cgroup_fd = -1;
	uint64_t id;
	int error = pg_cgroup_open(host->cgroup_mount_fd, record->cgroup + 1, &cgroup_fd, err);

	if (error == -ENOENT)
		return 0;
	if (!error && record->cgroup_id) {
		error = pg_cgroup_id(cgroup_fd, &id, err);
		/* Ours was removed, and somebody made another of that name. */
		if (!error && id != record->cgroup_id)
			return 0;
	}
	if (!error)
		error = pg_cgroup_kill(cgroup_fd, KILL_MS, NULL, err);
	if (!error)
		error = pg_cgroup_remove_children(cgroup_fd, err);
	if (error)
		return pg_error_prefix(err, "ending the tree of %s", record->cgroup);
	return 0;
}

static int remove_cgroup(struct pg_host *host, const struct pg_record *record, struct pg_error *err)
{
	if (!record->made)
		return 0;
	if (unlinkat(host->cgroup_mount_fd, record->cgroup + 1, AT_REMOVEDIR) && errno != ENOENT)
		return pg_fail_errno(err, -errno, "removing the cgroup %s", record->cgroup);
	/* The parent of all Environments; stays while there are others. */
	unlinkat(host->cgroup_mount_fd, PG_CGROUP_PARENT, AT_REMOVEDIR);
	return 0;
}

int pg_remains_remove(struct pg_host *host, int records_fd, const struct pg_record *record,
		      struct pg_error *err)
{
	char pins[PATH_MAX];
	int error = 0;

	snprintf(pins, sizeof(pins), "%s/%s", PG_PIN_ROOT, record->name);
	/* The tree first: the pins confine it until it is gone. */
	if (record->cgroup)
		error = end_cgroup(host, record, err);
	if (!error)
		error = pg_pins_remove(pins, err);
	if (!error && record->cgroup)
		error = remove_cgroup(host, record, err);
	if (!error)
		error = pg_record_remove(records_fd, record->name, err);
	(void)!rmdir(PG_PIN_ROOT);
	return error;
}

struct orphans {
	struct pg_host *host;
	int records_fd;
};

/* One that cannot be ended stays confined by its pins: no reason to refuse a new start. */
static int end_orphan(void *userdata, const struct pg_record *record, struct pg_error *err)
{
	const struct orphans *orphans = userdata;
	struct pg_error orphan_err = {};

	if (pg_remains_remove(orphans->host, orphans->records_fd, record, &orphan_err)) {
		pg_error_prefix(&orphan_err, "cleaning up after the killed Environment %s",
				record->name);
		pg_host_warn(orphans->host, "orphan", orphan_err.text);
	} else {
		pg_log_debug("ended what the killed Environment %s had left behind", record->name);
	}
	return 0;
}

int pg_orphans_end(struct pg_host *host, int records_fd, struct pg_error *err)
{
	struct orphans orphans = {host, records_fd};
	int error = pg_records_visit_orphans(records_fd, end_orphan, &orphans, err);

	return error ? pg_error_prefix(err, "cleaning up after a killed process") : 0;
}
