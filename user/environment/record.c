/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/wait.h"

#define RECORD_FILE "environment"
#define RECORD_NEW  "environment.new"

bool pg_record_name_valid(const char *name)
{
	const size_t length = strlen(name);

	return length > 0 && length <= PG_NAME_MAX && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
		       length;
}

/* Another process holds the lock for milliseconds as a rule; one that was stopped, for ever. */
static int lock_records(int fd, uint64_t deadline, int interrupt_fd, struct pg_error *err)
{
	const int pause_ms = 2;

	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return pg_fail_errno(err, -errno, "locking %s", PG_RECORD_ROOT);
		if (pg_monotonic_ns() > deadline)
			return pg_fail(err, -ETIMEDOUT,
				       "another process holds the lock of %s for over %d s; is a"
				       " phasegate stopped? ('fuser -v %s' names it)",
				       PG_RECORD_ROOT, PG_RECORDS_LOCK_MS / 1000, PG_RECORD_ROOT);
		if (pg_wait_readable(-1, interrupt_fd, pause_ms) == -ECANCELED)
			return pg_fail(err, -ECANCELED,
				       "a signal ended the wait for the lock of %s",
				       PG_RECORD_ROOT);
	}
	return 0;
}

int pg_records_lock(int interrupt_fd, int *ret_fd, struct pg_error *err)
{
	const uint64_t deadline = pg_monotonic_ns() + PG_RECORDS_LOCK_MS * PG_NSEC_PER_MSEC;

	for (;;) {
		pg_autoclose int fd = -1;
		struct stat opened, current;
		int error;

		if (mkdir(PG_RECORD_ROOT, 0700) && errno != EEXIST)
			return pg_fail_errno(err, -errno, "making the directory %s",
					     PG_RECORD_ROOT);
		fd = open(PG_RECORD_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0)
			return pg_fail_errno(err, -errno, "opening %s", PG_RECORD_ROOT);
		error = lock_records(fd, deadline, interrupt_fd, err);
		if (error)
			return error;
		/* The one who had the lock before may have removed the directory. */
		if (!fstat(fd, &opened) && !stat(PG_RECORD_ROOT, &current) &&
		    opened.st_ino == current.st_ino && opened.st_dev == current.st_dev) {
			*ret_fd = PG_TAKE_FD(fd);
			return 0;
		}
	}
}

void pg_records_unlock(int *records_fd)
{
	if (*records_fd < 0)
		return;
	(void)!rmdir(PG_RECORD_ROOT);
	pg_close_fd(records_fd);
}

void pg_record_clear(struct pg_record *record)
{
	free(record->cgroup);
	*record = (struct pg_record){};
}

/* -ENOENT: the owner was killed before the record was whole, so nothing else exists. */
static int read_record(int record_fd, const char *name, struct pg_record *ret_record,
		       struct pg_error *err)
{
	char text[PATH_MAX + 32];
	pg_autoclose int fd = openat(record_fd, RECORD_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct pg_record record = {};
	ssize_t got;
	char *path;

	if (fd < 0)
		return pg_fail_errno(err, -errno, "opening the record of %s", name);
	got = read(fd, text, sizeof(text) - 1);
	if (got < 0)
		return pg_fail_errno(err, -errno, "reading the record of %s", name);
	text[got] = '\0';
	/* One line: the id of a given cgroup, or 0, a space, the path. */
	record.cgroup_id = strtoull(text, &path, 10);
	if (path == text || path[0] != ' ' || path[1] != '/' || text[got - 1] != '\n')
		return pg_fail(err, -EBADMSG,
			       "the record %s/%s/%s is damaged: remove what it describes by hand",
			       PG_RECORD_ROOT, name, RECORD_FILE);
	text[got - 1] = '\0';
	record.made = !record.cgroup_id;
	record.cgroup = strdup(path + 1);
	if (!record.cgroup)
		return pg_fail(err, -ENOMEM, "not enough memory for the record of %s", name);
	snprintf(record.name, sizeof(record.name), "%s", name);
	*ret_record = record;
	return 0;
}

/* Calls back with each record's open directory. */
typedef int (*record_visit)(void *userdata, int record_fd, const char *name, struct pg_error *err);

static int visit_records(int records_fd, record_visit visit, void *userdata, struct pg_error *err)
{
	pg_autoclosedir DIR *dir = pg_dir_reopen(records_fd);
	struct dirent *entry;
	int error;

	if (!dir)
		return pg_fail_errno(err, -errno, "listing %s", PG_RECORD_ROOT);
	while ((entry = readdir(dir))) {
		pg_autoclose int record_fd = -1;

		if (!pg_record_name_valid(entry->d_name))
			continue;
		record_fd = openat(records_fd, entry->d_name,
				   O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (record_fd < 0)
			continue;
		error = visit(userdata, record_fd, entry->d_name, err);
		if (error)
			return error;
	}
	return 0;
}

static bool is_within(const char *path, const char *ancestor)
{
	const size_t length = strlen(ancestor);

	return !strncmp(path, ancestor, length) && (path[length] == '/' || path[length] == '\0');
}

static int refuse_overlap(void *userdata, int record_fd, const char *name, struct pg_error *err)
{
	const char *cgroup = userdata;
	PG_CLEANUP(pg_record_clear) struct pg_record other = {};
	int error = read_record(record_fd, name, &other, err);

	if (error == -ENOENT)
		return 0;
	if (error)
		return error;
	if (is_within(cgroup, other.cgroup) || is_within(other.cgroup, cgroup))
		return pg_fail(err, -EBUSY,
			       "the cgroup %s overlaps with %s of the Environment %s; choose"
			       " another, or end that one first",
			       cgroup, other.cgroup, name);
	return 0;
}

static int refuse_inside(void *userdata, int record_fd, const char *name, struct pg_error *err)
{
	const char *cgroup = userdata;
	PG_CLEANUP(pg_record_clear) struct pg_record other = {};
	int error = read_record(record_fd, name, &other, err);

	if (error)
		return error == -ENOENT ? 0 : error;
	if (is_within(cgroup, other.cgroup))
		return pg_fail(err, -EBUSY,
			       "this process is already inside the Environment %s, whose policy a"
			       " command in a new cgroup would leave; start it outside of %s",
			       name, other.cgroup);
	return 0;
}

int pg_records_refuse_inside(int records_fd, const char *cgroup, struct pg_error *err)
{
	return visit_records(records_fd, refuse_inside, (void *)cgroup, err);
}

static int write_record(int record_fd, const struct pg_record *record, struct pg_error *err)
{
	pg_autoclose int fd =
		openat(record_fd, RECORD_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return pg_fail_errno(err, -errno, "creating the record of %s", record->name);
	if (dprintf(fd, "%" PRIu64 " %s\n", record->cgroup_id, record->cgroup) < 0 ||
	    renameat(record_fd, RECORD_NEW, record_fd, RECORD_FILE))
		return pg_fail_errno(err, -errno, "writing the record of %s", record->name);
	return 0;
}

int pg_record_create(int records_fd, const struct pg_record *record, int *ret_fd,
		     struct pg_error *err)
{
	pg_autoclose int fd = -1;
	int error = visit_records(records_fd, refuse_overlap, record->cgroup, err);

	if (error)
		return error;
	if (mkdirat(records_fd, record->name, 0700))
		return pg_fail_errno(err, -errno, "making the record %s/%s", PG_RECORD_ROOT,
				     record->name);
	fd = openat(records_fd, record->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB))
		error = pg_fail_errno(err, -errno, "locking the record %s", record->name);
	if (!error)
		error = write_record(fd, record, err);
	if (error) {
		(void)!pg_record_remove(records_fd, record->name, NULL);
		return error;
	}
	*ret_fd = PG_TAKE_FD(fd);
	return 0;
}

int pg_record_remove(int records_fd, const char *name, struct pg_error *err)
{
	pg_autoclose int fd = openat(records_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0) {
		unlinkat(fd, RECORD_NEW, 0);
		unlinkat(fd, RECORD_FILE, 0);
	}
	if (unlinkat(records_fd, name, AT_REMOVEDIR) && errno != ENOENT)
		return pg_fail_errno(err, -errno, "removing the record %s/%s", PG_RECORD_ROOT,
				     name);
	return 0;
}

struct orphans {
	pg_orphan_visit visit;
	void *userdata;
};

static int visit_if_orphan(void *userdata, int record_fd, const char *name, struct pg_error *err)
{
	const struct orphans *orphans = userdata;
	PG_CLEANUP(pg_record_clear) struct pg_record record = {};
	int error;

	if (flock(record_fd, LOCK_EX | LOCK_NB))
		return 0; /* its owner lives */
	error = read_record(record_fd, name, &record, err);
	if (error == -ENOENT)
		snprintf(record.name, sizeof(record.name), "%s", name);
	else if (error)
		return error;
	return orphans->visit(orphans->userdata, &record, err);
}

int pg_records_visit_orphans(int records_fd, pg_orphan_visit visit, void *userdata,
			     struct pg_error *err)
{
	struct orphans orphans = {visit, userdata};

	return visit_records(records_fd, visit_if_orphan, &orphans, err);
}
