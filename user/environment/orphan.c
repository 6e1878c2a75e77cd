/* SPDX-License-Identifier: Apache-2.0 */
/* Removing an Environment's remains: of one that is destroyed, or whose owner was killed. */
#include "host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/log.h"
#include "kernel/attach.h"
#include "kernel/guard.h"
#include "steps.h"

/* Shorter than for a tree of our own: what cannot be ended must not delay every start for long, and
 * stays confined. */
#define KILL_MS 1000

/* The cgroup of the record, if it is still that one; -1: it is not. */
static int open_cgroup(struct pg_host *host, const struct pg_record_cgroup *cgroup, int *ret_fd,
		       struct pg_error *err)
{
	pg_autoclose int fd = -1;
	uint64_t id;
	int error = pg_cgroup_open(host->cgroup_mount_fd, cgroup->path + 1, &fd, err);

	if (error == -ENOENT)
		return 0;
	if (!error && cgroup->id)
		error = pg_cgroup_id(fd, &id, err);
	if (error)
		return error;
	/* Ours was removed, and somebody made another of that name. */
	if (!cgroup->id || id == cgroup->id)
		*ret_fd = PG_TAKE_FD(fd);
	return 0;
}

static int end_cgroup(struct pg_host *host, const struct pg_record_cgroup *cgroup,
		      struct pg_error *err)
{
	pg_autoclose int fd = -1;
	int error = open_cgroup(host, cgroup, &fd, err);

	if (error || fd < 0)
		return error;
	error = pg_cgroup_kill(fd, KILL_MS, NULL, err);
	if (!error)
		error = pg_cgroup_remove_children(fd, err);
	return error ? pg_error_prefix(err, "ending the tree of %s", cgroup->path) : 0;
}

/*
 * Whatever is at the path now: a killed owner may have confined anew what was made there since, and
 * another Environment cannot have the place before the record goes.
 */
static int detach(struct pg_host *host, const struct pg_record *record, struct pg_error *err)
{
	int error = 0;

	for (size_t i = 0; i < record->cgroup_count && !error; i++) {
		const char *path = record->cgroups[i].path;
		pg_autoclose int fd = -1;

		error = pg_cgroup_open(host->cgroup_mount_fd, path + 1, &fd, err);
		if (!error)
			error = pg_detach(fd, err);
		error = pg_cgroup_is_gone(error) ? 0 : error;
		if (error)
			pg_error_prefix(err, "%s", path);
	}
	return error;
}

/* Somebody's who keeps Environments: without its parent the guard would be gone. */
static bool is_parent_guarded(const struct pg_host *host)
{
	pg_autoclose int fd = -1;

	return !pg_cgroup_open(host->cgroup_mount_fd, host->parent, &fd, NULL) &&
	       pg_guard_is_attached(fd);
}

void pg_parent_remove(struct pg_host *host)
{
	const char *pins = pg_host_guard_pins(host);

	/* With its cgroup the guard has gone; its pins are what is left. */
	if (!unlinkat(host->cgroup_mount_fd, host->parent, AT_REMOVEDIR) && pins)
		(void)!pg_guard_remove(pins, NULL);
}

static int remove_cgroup(struct pg_host *host, const struct pg_record *record, bool kill,
			 struct pg_error *err)
{
	const struct pg_record_cgroup *cgroup = record->cgroups;
	const char *pins = pg_host_guard_pins(host);
	pg_autoclose int fd = -1;
	uint64_t id;

	for (size_t i = 0; i < record->cgroup_count; i++) {
		if (!pins || !pg_host_is_below_parent(host, cgroup[i].path) ||
		    open_cgroup(host, &cgroup[i], &fd, NULL) || fd < 0)
			continue;
		if (!pg_cgroup_id(fd, &id, NULL))
			(void)!pg_guard_withdraw(pins, id, NULL);
		pg_close_fd(&fd);
	}
	if (!record->made)
		return 0;
	if (unlinkat(host->cgroup_mount_fd, cgroup->path + 1, AT_REMOVEDIR) && errno != ENOENT &&
	    (kill || errno != EBUSY))
		return pg_fail_errno(err, -errno, "removing the cgroup %s", cgroup->path);
	/* The parent of all Environments; stays while there are others. */
	if (!host->pins && !is_parent_guarded(host))
		pg_parent_remove(host);
	return 0;
}

int pg_remains_remove(struct pg_host *host, int records_fd, const struct pg_record *record,
		      bool kill, struct pg_error *err)
{
	int error = 0;

	/* The tree first: the programs confine it until it is gone. */
	for (size_t i = 0; kill && i < record->cgroup_count && !error; i++)
		error = end_cgroup(host, &record->cgroups[i], err);
	if (!error)
		error = pg_links_remains_remove(host, record->name, err);
	if (!error)
		error = detach(host, record, err);
	if (!error && record->cgroup_count)
		error = remove_cgroup(host, record, kill, err);
	if (error)
		return error;
	if (record->kept)
		pg_step(PG_STEP_END_DETACHED);
	error = pg_record_remove(records_fd, record->name, err);
	if (!error && record->kept)
		pg_step(PG_STEP_END_REMOVED);
	(void)!rmdir(PG_PIN_ROOT);
	return error;
}

struct orphans {
	struct pg_host *host;
	int records_fd;
};

static bool is_populated(struct pg_host *host, const struct pg_record *record)
{
	for (size_t i = 0; i < record->cgroup_count; i++) {
		pg_autoclose int fd = -1;
		bool populated = false;

		if (open_cgroup(host, &record->cgroups[i], &fd, NULL) ||
		    (fd >= 0 && (pg_cgroup_populated(fd, &populated, NULL) || populated)))
			return true;
	}
	return false;
}

/* Whether a kept one has nobody to wait for: the pins of its owners are gone. Its links confine it
 * all the same, so there is nothing to be done while somebody is in it. */
static bool is_abandoned(struct pg_host *host, int record_fd, const struct pg_record *record)
{
	pg_autosaved struct pg_saved saved = {};
	struct pg_error err = {};

	if (!host->pins || pg_saved_read(record_fd, record->name, &saved, NULL) ||
	    !access(saved.pins, F_OK) || errno != ENOENT)
		return false;
	if (!is_populated(host, record))
		return true;
	pg_fail(&err, -ENOENT,
		"the Environment %s stays confined, but nobody can adopt it, since %s is gone: end"
		" the processes in the cgroup %s, and the next start removes it",
		record->name, saved.pins, record->cgroups[0].path);
	pg_host_warn(host, "orphan", err.text);
	return false;
}

#define LISTED_MAX 8

/* The tests of find(1) for its cgroups, whose inodes have their ids; "": none is known, since
 * somebody has changed the state. */
static void print_tests(const struct pg_saved *saved, char text[static LISTED_MAX * 32])
{
	size_t listed = 0;

	*text = '\0';
	for (size_t i = 0; i < saved->member_count && listed < LISTED_MAX; i++)
		if (saved->members[i])
			text += sprintf(text, "%s -inum %" PRIu64, listed++ ? " -o" : "",
					saved->members[i]);
}

void pg_orphan_warn_unwritten(const struct pg_host *host, const char *name,
			      const struct pg_saved *saved, const char *what)
{
	char tests[LISTED_MAX * 32];
	struct pg_error err = {};

	print_tests(saved, tests);
	pg_fail(&err, -ENOENT,
		"the Environment %s is in force, but nobody can adopt it, since the list of its"
		" cgroups is gone from %s/%s; %s: end its processes and remove its cgroups"
		" (%s%s%s%s), and then that directory",
		name, PG_RECORD_ROOT, name, what,
		*tests ? "find "
		       : "those with our programs that no other record there names:"
			 " bpftool cgroup tree ",
		host->cgroup_mount, tests,
		saved->member_count > LISTED_MAX ? "; its state.json has all members" : "");
	pg_host_warn(host, "orphan", err.text);
}

/*
 * Whether a record that was not written is of an Environment that does not exist yet, or any more.
 * Of any other somebody has removed it, and what confines it must not be forgotten.
 */
static bool is_of_nothing(const struct pg_host *host, int record_fd, const struct pg_record *record)
{
	pg_autosaved struct pg_saved saved = {};
	struct pg_error err = {}, why = {};

	if (!record->kept)
		return true;
	if (pg_saved_read(record_fd, record->name, &saved, &why)) {
		pg_fail(&err, -EPROTO,
			"%s/%s is left as it is, since it cannot be told what it is of: %s; end"
			" what it describes by hand, and remove it",
			PG_RECORD_ROOT, record->name, why.text);
		pg_host_warn(host, "orphan", err.text);
		return false;
	}
	if (saved.intent != PG_INTENT_NONE)
		return true;
	/* What is ours is denied everything as soon as there are maps (kept.c). */
	if (!host->pins || strcmp(saved.pins, host->pins) != 0)
		pg_orphan_warn_unwritten(host, record->name, &saved, "it stays confined as it is");
	return false;
}

/* One that cannot be ended stays confined by its pins: no reason to refuse a new start. */
static int end_orphan(void *userdata, int record_fd, const struct pg_record *record,
		      struct pg_error *err)
{
	const struct orphans *orphans = userdata;
	struct pg_error orphan_err = {};

	if (!record->cgroup_count && !is_of_nothing(orphans->host, record_fd, record))
		return 0;
	/* It waits for its next owner. */
	if (record->kept && record->cgroup_count && !is_abandoned(orphans->host, record_fd, record))
		return 0;
	if (pg_remains_remove(orphans->host, orphans->records_fd, record, true, &orphan_err)) {
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
