/* SPDX-License-Identifier: Apache-2.0 */
/* Where this process is, and what it knows of the records without reading them. */
#include "host.h"

#include <errno.h>
#include <fcntl.h>

#include "base/file.h"
#include "host_internal.h"
#include "kernel/mountinfo.h"

void pg_host_own_records(const struct pg_host *host, struct pg_own_records *own)
{
	const struct pg_environment *environment;

	LIST_FOREACH (environment, &host->environments, link)
		/* What there was no memory for is read. */
		if (environment->record_fd >= 0 && pg_own_records_add(own, &environment->record))
			return;
}

int pg_host_refuse_inside(const struct pg_host *host, const char *cgroup, struct pg_error *err)
{
	PG_CLEANUP(pg_own_records_clear) struct pg_own_records own = {};
	pg_autoclose int records_fd = open(PG_RECORD_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (records_fd < 0 && errno == ENOENT)
		return 0;
	if (records_fd < 0)
		return pg_fail_errno(err, -errno, "opening %s", PG_RECORD_ROOT);
	pg_host_own_records(host, &own);
	return pg_records_refuse_inside(records_fd, cgroup, &own, err);
}

static int own_cgroup(char **ret_path, struct pg_error *err)
{
	pg_autofree char *text = NULL;
	size_t size;
	int error = pg_file_read("/proc/self/cgroup", PG_PROC_FILE_MAX, &text, &size, err);

	if (error)
		return error;
	error = pg_cgroup2_path(text, ret_path);
	return error ? pg_fail_errno(err, error, "finding the own cgroup in /proc/self/cgroup") : 0;
}

int pg_records_refuse_here(int records_fd, struct pg_error *err)
{
	const struct pg_own_records none = {};
	pg_autofree char *own = NULL;
	int error = own_cgroup(&own, err);

	return error ? error : pg_records_refuse_inside(records_fd, own, &none, err);
}
