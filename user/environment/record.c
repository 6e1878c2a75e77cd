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
#include "base/text.h"
#include "base/wait.h"

#define RECORD_FILE "environment"
/* PG_MEMBERS_MAX lines. */
#define RECORD_MAX  (64UL * (PATH_MAX + 32))

bool pg_record_name_valid(const char *name)
{
	const size_t length = strlen(name);

	return length > 0 && length <= PG_NAME_MAX && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
		       length;
}

/* Another process holds the lock for milliseconds as a rule; one that was stopped, for ever. */
static int lock_records(int fd, unsigned int wait_ms, uint64_t deadline, int interrupt_fd,
			struct pg_error *err)
{
	const int pause_ms = 2;

	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return pg_fail_errno(err, -errno, "locking %s", PG_RECORD_ROOT);
		if (pg_monotonic_ns() > deadline)
			return pg_fail(err, -EAGAIN,
				       "another process holds the lock of %s for over %u s; is a"
				       " phasegate stopped? ('fuser -v %s' names it)",
				       PG_RECORD_ROOT, wait_ms / 1000, PG_RECORD_ROOT);
		if (pg_wait_readable(-1, interrupt_fd, pause_ms) == -ECANCELED)
			return pg_fail(err, -ECANCELED,
				       "a signal ended the wait for the lock of %s",
				       PG_RECORD_ROOT);
	}
	return 0;
}

int pg_heir_lock(int fd, int interrupt_fd)
{
	const uint64_t deadline = pg_monotonic_ns() + PG_HEIR_MS * PG_NSEC_PER_MSEC;

	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EINTR && (errno != EWOULDBLOCK || pg_monotonic_ns() > deadline))
			return -errno;
		if (pg_wait_readable(-1, interrupt_fd, 2) == -ECANCELED)
			return -ECANCELED;
	}
	return 0;
}

int pg_records_lock(int interrupt_fd, int *ret_fd, struct pg_error *err)
{
	return pg_records_lock_within(PG_RECORDS_LOCK_MS, interrupt_fd, ret_fd, err);
}

int pg_records_lock_within(unsigned int wait_ms, int interrupt_fd, int *ret_fd,
			   struct pg_error *err)
{
	const uint64_t deadline = pg_monotonic_ns() + wait_ms * PG_NSEC_PER_MSEC;

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
		error = pg_dir_refuse_shared(fd, PG_RECORD_ROOT, err);
		if (!error)
			error = lock_records(fd, wait_ms, deadline, interrupt_fd, err);
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
	for (size_t i = 0; i < record->cgroup_count; i++)
		free(record->cgroups[i].path);
	free(record->cgroups);
	*record = (struct pg_record){};
}

/* A line: the id of a given cgroup, or 0, a space, the path. Ends the line with a NUL. */
static int parse_line(char *line, char **ret_next, struct pg_record *record)
{
	char *end = strchr(line, '\n'), *path;
	struct pg_record_cgroup *cgroups;
	uint64_t id;

	id = strtoull(line, &path, 10);
	if (!end || path == line || path[0] != ' ' || path[1] != '/')
		return -EBADMSG;
	*end = '\0';
	cgroups = reallocarray(record->cgroups, record->cgroup_count + 1, sizeof(*cgroups));
	if (!cgroups)
		return -ENOMEM;
	record->cgroups = cgroups;
	cgroups[record->cgroup_count] = (struct pg_record_cgroup){strdup(path + 1), id};
	if (!cgroups[record->cgroup_count].path)
		return -ENOMEM;
	record->cgroup_count++;
	record->made |= !id;
	*ret_next = end + 1;
	return 0;
}

/* -ENOENT: the owner was killed before the record was written, so nothing else exists. */
static int read_record(int record_fd, const char *name, struct pg_record *ret_record,
		       struct pg_error *err)
{
	PG_CLEANUP(pg_record_clear) struct pg_record record = {};
	pg_autofree char *text = NULL;
	char *line;
	size_t size;
	int error;

	snprintf(record.name, sizeof(record.name), "%s", name);
	record.kept = !faccessat(record_fd, PG_STATE_FILE, F_OK, 0);
	error = pg_file_read_at(record_fd, RECORD_FILE, RECORD_MAX, &text, &size, err);
	if (error)
		return pg_error_prefix(err, "the record of %s", name);
	for (line = text; !error && (line == text || *line);)
		error = parse_line(line, &line, &record);
	if (error == -ENOMEM)
		return pg_fail(err, error, "not enough memory for the record of %s", name);
	if (error)
		return pg_fail(err, error,
			       "the record %s/%s/%s is damaged: remove what it describes by hand",
			       PG_RECORD_ROOT, name, RECORD_FILE);
	*ret_record = record;
	record = (struct pg_record){};
	return 0;
}

/* Calls back with each record's open directory. */
typedef int (*record_visit)(void *userdata, int record_fd, const char *name, struct pg_error *err);

/* But those that are to be passed over. */
static int visit_some(int records_fd, bool (*pass)(void *userdata, const char *name),
		      record_visit visit, void *userdata, struct pg_error *err)
{
	pg_autoclosedir DIR *dir = pg_dir_reopen(records_fd);
	struct dirent *entry;
	int error;

	if (!dir)
		return pg_fail_errno(err, -errno, "listing %s", PG_RECORD_ROOT);
	while ((entry = readdir(dir))) {
		pg_autoclose int record_fd = -1;

		if (!pg_record_name_valid(entry->d_name) || (pass && pass(userdata, entry->d_name)))
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

static int visit_records(int records_fd, record_visit visit, void *userdata, struct pg_error *err)
{
	return visit_some(records_fd, NULL, visit, userdata, err);
}

const char *pg_record_overlap(const struct pg_record *record, const char *path)
{
	for (size_t i = 0; i < record->cgroup_count; i++)
		if (pg_path_is_within(path, record->cgroups[i].path) ||
		    pg_path_is_within(record->cgroups[i].path, path))
			return record->cgroups[i].path;
	return NULL;
}

static int refuse_overlap(const struct pg_record *record, const struct pg_record *other,
			  struct pg_error *err)
{
	const char *name = other->name;

	for (size_t i = 0; i < record->cgroup_count; i++) {
		const char *path = record->cgroups[i].path;
		const char *found = pg_record_overlap(other, path);

		if (found && strcmp(found, path) == 0)
			return pg_fail(err, -EBUSY,
				       "the cgroup %s is in the Environment %s; choose another, or"
				       " end that one first",
				       path, name);
		if (found)
			return pg_fail(err, -EBUSY,
				       "the cgroup %s overlaps with %s of the Environment %s;"
				       " choose another, or end that one first",
				       path, found, name);
	}
	return 0;
}

struct newcomer {
	const struct pg_record *record; /* or */
	const char *cgroup;
	const struct pg_own_records *own;
};

static int refuse_overlap_with(void *userdata, int record_fd, const char *name,
			       struct pg_error *err)
{
	const struct newcomer *newcomer = userdata;
	PG_CLEANUP(pg_record_clear) struct pg_record other = {};
	int error = read_record(record_fd, name, &other, err);

	if (error)
		return error == -ENOENT ? 0 : error;
	return refuse_overlap(newcomer->record, &other, err);
}

static bool is_own(void *userdata, const char *name)
{
	const struct pg_own_records *own = ((const struct newcomer *)userdata)->own;

	return pg_own_records_find(own, name) != NULL;
}

static int refuse_overlaps(int records_fd, const struct pg_record *record,
			   const struct pg_own_records *own, struct pg_error *err)
{
	struct newcomer newcomer = {.record = record, .own = own};
	int error = 0;

	for (size_t i = 0; i < own->count && !error; i++)
		error = refuse_overlap(record, own->records[i], err);
	return error ? error : visit_some(records_fd, is_own, refuse_overlap_with, &newcomer, err);
}

static int refuse_inside(const char *cgroup, const struct pg_record *record, struct pg_error *err)
{
	for (size_t i = 0; i < record->cgroup_count; i++)
		if (pg_path_is_within(cgroup, record->cgroups[i].path))
			return pg_fail(err, -EBUSY,
				       "this process is already inside the Environment %s, whose"
				       " policy a command in a new cgroup would leave; start it"
				       " outside of %s",
				       record->name, record->cgroups[i].path);
	return 0;
}

static int refuse_inside_of(void *userdata, int record_fd, const char *name, struct pg_error *err)
{
	const struct newcomer *newcomer = userdata;
	PG_CLEANUP(pg_record_clear) struct pg_record other = {};
	int error = read_record(record_fd, name, &other, err);

	if (error)
		return error == -ENOENT ? 0 : error;
	return refuse_inside(newcomer->cgroup, &other, err);
}

int pg_records_refuse_inside(int records_fd, const char *cgroup, const struct pg_own_records *own,
			     struct pg_error *err)
{
	struct newcomer newcomer = {.cgroup = cgroup, .own = own};
	int error = 0;

	for (size_t i = 0; i < own->count && !error; i++)
		error = refuse_inside(cgroup, own->records[i], err);
	return error ? error : visit_some(records_fd, is_own, refuse_inside_of, &newcomer, err);
}

int pg_record_put(int record_fd, const char *file, const char *text, size_t size,
		  struct pg_error *err)
{
	char temporary[64];
	pg_autoclose int fd = -1;

	snprintf(temporary, sizeof(temporary), "%s.new", file);
	fd = openat(record_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    0600);
	if (fd < 0)
		return pg_fail_errno(err, -errno, "creating %s of a record", temporary);
	for (size_t done = 0; done < size;) {
		const ssize_t put = write(fd, text + done, size - done);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return pg_fail_errno(err, -errno, "writing %s of a record", temporary);
		done += (size_t)put;
	}
	/* No fsync: /run is gone with the kernel, whose state this describes. */
	if (renameat(record_fd, temporary, record_fd, file))
		return pg_fail_errno(err, -errno, "replacing %s of a record", file);
	return 0;
}

int pg_record_write(int record_fd, const struct pg_record *record, struct pg_error *err)
{
	pg_autofree char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int error;

	if (!out)
		return pg_fail(err, -ENOMEM, "not enough memory for the record of %s",
			       record->name);
	for (size_t i = 0; i < record->cgroup_count; i++)
		fprintf(out, "%" PRIu64 " %s\n", record->cgroups[i].id, record->cgroups[i].path);
	if (fclose(out))
		return pg_fail(err, -ENOMEM, "not enough memory for the record of %s",
			       record->name);
	error = pg_record_put(record_fd, RECORD_FILE, text, size, err);
	return error ? pg_error_prefix(err, "%s", record->name) : 0;
}

int pg_record_create(int records_fd, const struct pg_record *record,
		     const struct pg_own_records *own, int *ret_fd, struct pg_error *err)
{
	pg_autoclose int fd = -1;
	int error = refuse_overlaps(records_fd, record, own, err);

	if (error)
		return error;
	if (mkdirat(records_fd, record->name, 0700))
		return pg_fail_errno(err, -errno, "making the record %s/%s", PG_RECORD_ROOT,
				     record->name);
	fd = openat(records_fd, record->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB)) {
		error = pg_fail_errno(err, -errno, "locking the record %s", record->name);
		(void)!pg_record_remove(records_fd, record->name, NULL);
		return error;
	}
	*ret_fd = PG_TAKE_FD(fd);
	return 0;
}

int pg_record_open(int records_fd, const char *name, struct pg_record *ret_record, int *ret_fd,
		   struct pg_error *err)
{
	pg_autoclose int fd = -1;
	int error;

	if (!pg_record_name_valid(name))
		return pg_fail(err, -ENOENT, "there is no Environment \"%s\"", name);
	fd = openat(records_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return pg_fail_errno(err, -errno, "opening the record of %s", name);
	if (flock(fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK
			       ? pg_fail(err, -EBUSY, "the Environment %s has an owner", name)
			       : pg_fail_errno(err, -errno, "locking the record %s", name);
	error = read_record(fd, name, ret_record, err);
	if (error)
		return error;
	*ret_fd = PG_TAKE_FD(fd);
	return 0;
}

/* Its files, whichever there are. */
static void empty_record(int record_fd)
{
	pg_autoclosedir DIR *dir = pg_dir_reopen(record_fd);
	struct dirent *entry;

	/* The record proper after what it may need, and the state last: without a record there is
	 * nothing but these files. */
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, RECORD_FILE) != 0 &&
		    strcmp(entry->d_name, PG_STATE_FILE) != 0)
			unlinkat(record_fd, entry->d_name, 0);
	unlinkat(record_fd, RECORD_FILE, 0);
	unlinkat(record_fd, PG_STATE_FILE, 0);
}

int pg_record_remove(int records_fd, const char *name, struct pg_error *err)
{
	pg_autoclose int fd = openat(records_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		empty_record(fd);
	if (unlinkat(records_fd, name, AT_REMOVEDIR) && errno != ENOENT)
		return pg_fail_errno(err, -errno, "removing the record %s/%s", PG_RECORD_ROOT,
				     name);
	return 0;
}

struct visiting {
	pg_record_visit visit;
	void *userdata;
};

/* Of one that is not written there is its name, and whether it has a state. */
static int read_any(int record_fd, const char *name, struct pg_record *ret_record,
		    struct pg_error *err)
{
	const int error = read_record(record_fd, name, ret_record, err);

	if (error != -ENOENT)
		return error;
	snprintf(ret_record->name, sizeof(ret_record->name), "%s", name);
	ret_record->kept = !faccessat(record_fd, PG_STATE_FILE, F_OK, 0);
	return 0;
}

static int visit_if_orphan(void *userdata, int record_fd, const char *name, struct pg_error *err)
{
	const struct visiting *visiting = userdata;
	PG_CLEANUP(pg_record_clear) struct pg_record record = {};
	int error;

	if (flock(record_fd, LOCK_EX | LOCK_NB))
		return 0; /* its owner lives */
	error = read_any(record_fd, name, &record, err);
	return error ? error : visiting->visit(visiting->userdata, record_fd, &record, err);
}

int pg_records_visit_orphans(int records_fd, pg_record_visit visit, void *userdata,
			     struct pg_error *err)
{
	struct visiting visiting = {visit, userdata};

	return visit_records(records_fd, visit_if_orphan, &visiting, err);
}

static int visit_any(void *userdata, int record_fd, const char *name, struct pg_error *err)
{
	const struct visiting *visiting = userdata;
	PG_CLEANUP(pg_record_clear) struct pg_record record = {};
	int error = read_any(record_fd, name, &record, err);

	return error ? error : visiting->visit(visiting->userdata, record_fd, &record, err);
}

int pg_records_visit(int records_fd, pg_record_visit visit, void *userdata, struct pg_error *err)
{
	struct visiting visiting = {visit, userdata};

	return visit_records(records_fd, visit_any, &visiting, err);
}
