/* SPDX-License-Identifier: Apache-2.0 */
/* The member cgroups of an Environment: which they are, and what is attached to them. */
#include "host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "kernel/guard.h"
#include "kernel/mountinfo.h"
#include "steps.h"

/* An absolute path of plain components below the mount; the root itself is refused. */
static bool is_path_valid(const char *path)
{
	const char *last = strrchr(path, '/');

	return last && path[0] == '/' && last[1] && !strstr(path, "//") && !strstr(path, "/../") &&
	       !strstr(path, "/./") && strcmp(last, "/..") != 0 && strcmp(last, "/.") != 0;
}

/* Depth below the root of the hierarchy. */
static unsigned int level_of(const char *path)
{
	unsigned int level = 0;

	for (; *path; path++)
		level += *path == '/';
	return level;
}

static int choose_given(struct pg_environment *environment, const char *given, struct pg_error *err)
{
	struct pg_record *record = &environment->record;
	pg_autofree char *path = strdup(given);

	if (!path)
		return pg_fail(err, -ENOMEM, "not enough memory for a path");
	for (size_t length = strlen(path); length && path[length - 1] == '/';)
		path[--length] = '\0';
	if (!is_path_valid(path) || level_of(path) > UINT8_MAX)
		return pg_fail(err, -EINVAL,
			       "\"%s\" is not the path of a cgroup: give it absolute below the"
			       " cgroup2 mount, as in \"/mygroup\", and not the root",
			       given);
	/* What is deeper is for the guard a part of its child, which is no Environment. */
	if (pg_host_is_below_parent(environment->host, path) &&
	    level_of(path) != PG_GUARD_CHILD_LEVEL)
		return pg_fail(err, -EINVAL,
			       "\"%s\" cannot be an Environment: below /%s its children can, and"
			       " what is in them belongs to them",
			       given, environment->host->parent);
	if (pg_record_overlap(record, path))
		return pg_fail(err, -EINVAL, "%s and %s overlap: each place once", path,
			       pg_record_overlap(record, path));
	record->cgroups[record->cgroup_count++].path = PG_TAKE_PTR(path);
	return 0;
}

/* None is open yet. */
static int make_places(struct pg_environment *environment, size_t count, struct pg_error *err)
{
	environment->places = calloc(count, sizeof(*environment->places));
	if (!environment->places)
		return pg_fail(err, -ENOMEM, "not enough memory for members");
	for (size_t i = 0; i < count; i++)
		environment->places[i] = (struct pg_place){
			.environment = environment,
			.fd = -1,
			.events_watch = -1,
			.cgroups_watch = -1,
			.events_fd = -1,
		};
	return 0;
}

int pg_places_choose(struct pg_environment *environment,
		     const struct pg_environment_options *options, struct pg_error *err)
{
	struct pg_record *record = &environment->record;
	const size_t count = options->member_count ? options->member_count : 1;
	int error;

	if (count > PG_MEMBERS_MAX)
		return pg_fail(err, -E2BIG, "an Environment can have %d members, these are %zu",
			       PG_MEMBERS_MAX, count);
	record->cgroups = calloc(count, sizeof(*record->cgroups));
	if (!record->cgroups)
		return pg_fail(err, -ENOMEM, "not enough memory for members");
	error = make_places(environment, count, err);
	if (error)
		return error;
	record->made = !options->member_count;
	for (size_t i = 0; i < options->member_count && !error; i++)
		error = choose_given(environment, options->members[i], err);
	if (!record->made)
		return error;
	if (asprintf(&record->cgroups[0].path, "/%s/%s", environment->host->parent, record->name) <
	    0) {
		record->cgroups[0].path = NULL;
		return pg_fail(err, -ENOMEM, "not enough memory for a path");
	}
	record->cgroup_count = 1;
	return 0;
}

static int count_cgroup(void *userdata, int cgroup_fd)
{
	++*(size_t *)userdata;
	return 0;
}

/* The end kills and removes all that is below a cgroup, so all of it must be the Environment's. */
static int refuse_used(const char *path, int cgroup_fd, struct pg_error *err)
{
	size_t cgroups = 0;
	bool populated;
	int error = pg_cgroup_populated(cgroup_fd, &populated, err);

	if (error)
		return error;
	if (populated)
		return pg_fail(err, -EBUSY,
			       "the cgroup %s has processes already; give an empty one", path);
	error = pg_cgroup_walk(cgroup_fd, count_cgroup, &cgroups);
	if (error)
		return pg_fail_errno(err, error, "listing the cgroups below %s", path);
	if (cgroups > 1)
		return pg_fail(err, -EBUSY,
			       "the cgroup %s has other cgroups below it already; give an empty"
			       " one",
			       path);
	return 0;
}

/* It would lock itself in. */
static int refuse_caller(const char *path, struct pg_error *err)
{
	pg_autofree char *text = NULL, *own = NULL;
	size_t size;
	int error = pg_file_read("/proc/self/cgroup", PG_PROC_FILE_MAX, &text, &size, err);

	if (error)
		return error;
	error = pg_cgroup2_path(text, &own);
	if (error)
		return pg_fail_errno(err, error, "finding the own cgroup in /proc/self/cgroup");
	if (pg_path_is_within(own, path))
		return pg_fail(err, -EBUSY, "the cgroup %s holds this process (%s)", path, own);
	return 0;
}

static int refuse_missing(const char *mount, const char *path, struct pg_error *err)
{
	const size_t length = strlen(mount);

	if (!strncmp(path, mount, length) && path[length] == '/')
		return pg_fail(err, -ENOENT,
			       "the cgroup %s does not exist below %s: give the path below the"
			       " mount: %s",
			       path, mount, path + length);
	return pg_fail(err, -ENOENT, "the cgroup %s%s does not exist: make it first", mount, path);
}

static int open_place(struct pg_environment *environment, size_t index, bool attach,
		      struct pg_error *err)
{
	struct pg_record_cgroup *cgroup = &environment->record.cgroups[index];
	struct pg_place *place = &environment->places[index];
	int error = pg_cgroup_open(environment->host->cgroup_mount_fd, cgroup->path + 1, &place->fd,
				   err);

	if (error == -ENOENT)
		return refuse_missing(environment->host->cgroup_mount, cgroup->path, err);
	if (!error)
		error = pg_cgroup_id(place->fd, &place->id, err);
	if (!error)
		error = pg_cgroup_refuse_unfit(place->fd, cgroup->path, err);
	if (!error)
		error = attach ? refuse_caller(cgroup->path, err)
			       : refuse_used(cgroup->path, place->fd, err);
	if (!error && !environment->record.made)
		cgroup->id = place->id;
	return error;
}

int pg_places_open(struct pg_environment *environment, bool attach, struct pg_error *err)
{
	int error = 0;

	for (size_t i = 0; i < pg_place_count(environment) && !error; i++)
		error = open_place(environment, i, attach, err);
	environment->header.env_id = environment->places[0].id;
	environment->header.epoch = pg_boottime_ns();
	return error;
}

int pg_places_make(struct pg_environment *environment, struct pg_error *err)
{
	const char *path = pg_place_path(environment, 0);
	const int mount_fd = environment->host->cgroup_mount_fd;
	const char *parent = environment->host->parent;
	char limit[2 * NAME_MAX];
	int error;

	if (mkdirat(mount_fd, parent, 0755) && errno != EEXIST)
		return pg_fail_errno(err, -errno, "making the cgroup /%s", parent);
	if (mkdirat(mount_fd, path + 1, 0755))
		return pg_fail_errno(err, -errno, "making the cgroup %s", path);
	snprintf(limit, sizeof(limit), "%s/cgroup.max.depth", path + 1);
	error = pg_file_write_at(mount_fd, limit, PG_STRING(PG_CGROUP_DEPTH_MAX), err);
	return error ? error : pg_places_open(environment, false, err);
}

static int adopt_place(struct pg_environment *environment, size_t index, uint64_t id,
		       struct pg_error *err)
{
	struct pg_kernel *kernel = environment->host->kernel;
	struct pg_place *place = &environment->places[index];
	uint64_t found;
	int error = pg_cgroup_open(environment->host->cgroup_mount_fd,
				   pg_place_path(environment, index) + 1, &place->fd, err);

	place->id = id;
	if (!error)
		error = pg_cgroup_id(place->fd, &found, err);
	/* Gone, and perhaps made anew by somebody since. */
	if (pg_cgroup_is_gone(error) || (!error && found != id)) {
		pg_close_fd(&place->fd);
		return 0;
	}
	if (error)
		return error;
	error = pg_attached(kernel, place->fd, &place->hooks, err);
	if (!error)
		error = pg_attach_all(kernel, place->fd, place->hooks, err);
	place->in_kernel = !error;
	return error ? pg_error_prefix(err, "adopting the cgroup %s",
				       pg_place_path(environment, index))
		     : 0;
}

/* That of the first member's cgroup, as it was at first, and the epoch: what is in the maps has
 * them. */
static void recall_identity(struct pg_environment *environment, const struct pg_saved *saved)
{
	struct pg_header header;

	for (size_t i = 0; i < pg_place_count(environment); i++)
		if (environment->places[i].fd >= 0 &&
		    !pg_header_read(environment->host->kernel, environment->places[i].id, &header,
				    NULL) &&
		    header.env_id) {
			environment->header.env_id = header.env_id;
			environment->header.epoch = header.epoch;
			return;
		}
	environment->header.env_id = saved->members[0];
	environment->header.epoch = pg_boottime_ns();
}

int pg_places_adopt(struct pg_environment *environment, const struct pg_saved *saved,
		    struct pg_error *err)
{
	const size_t count = environment->record.cgroup_count;
	bool any = false;
	int error;

	if (saved->member_count != count)
		return pg_fail(err, -EPROTO, "the record of %s and its state do not agree",
			       environment->record.name);
	error = make_places(environment, count, err);
	if (error)
		return error;
	for (size_t i = 0; i < count && !error; i++) {
		error = adopt_place(environment, i, saved->members[i], err);
		any |= pg_environment_member_state(environment, i) != PG_MEMBER_GONE;
	}
	recall_identity(environment, saved);
	if (!error && !any && environment->record.made)
		return pg_fail(err, -ENOENT, "the cgroup of %s is gone", environment->record.name);
	return error;
}

/* A cgroup that had a header before keeps it: it is closed with the first program. */
static int attach_first(struct pg_environment *environment, struct pg_place *place,
			struct pg_error *err)
{
	struct pg_kernel *kernel = environment->host->kernel;
	int error = pg_attach(kernel, place->fd, PG_HOOK_EGRESS, err);

	if (error)
		return error;
	place->hooks = (pg_hook_set)1 << PG_HOOK_EGRESS;
	error = pg_header_clear(kernel, place->id, err);
	place->in_kernel = !error;
	pg_step(PG_STEP_CLEARED);
	return error;
}

static int attach_place(struct pg_environment *environment, size_t index, bool for_dns,
			struct pg_error *err)
{
	struct pg_place *place = &environment->places[index];
	const pg_hook_set hooks = pg_hooks(for_dns);
	int error = place->in_kernel ? 0 : attach_first(environment, place, err);

	if (!error)
		error = pg_attach_all(environment->host->kernel, place->fd, hooks & ~place->hooks,
				      err);
	if (error)
		return pg_error_prefix(err, "confining the cgroup %s",
				       pg_place_path(environment, index));
	place->hooks |= hooks;
	pg_step(PG_STEP_ATTACHED);
	return 0;
}

int pg_places_attach(struct pg_environment *environment, bool for_dns, struct pg_error *err)
{
	int error = 0;

	for (size_t i = 0; i < pg_place_count(environment) && !error; i++)
		if (environment->places[i].fd >= 0)
			error = attach_place(environment, i, for_dns, err);
	return error;
}

static int attach_anew(struct pg_environment *environment, size_t index, struct pg_error *err)
{
	struct pg_kernel *kernel = environment->host->kernel;
	struct pg_place *place = &environment->places[index];
	int error = open_place(environment, index, true, err);

	if (error)
		return error;
	/* An owner that was killed in the midst of this has attached them already, or but for those
	 * that are for names. */
	place->in_kernel = !pg_attached(kernel, place->fd, &place->hooks, NULL);
	if (place->in_kernel)
		error = pg_attach_all(kernel, place->fd, place->hooks, err);
	return error ? error : attach_place(environment, index, environment->dns, err);
}

int pg_place_reopen(struct pg_environment *environment, size_t index, struct pg_error *err)
{
	struct pg_place *place = &environment->places[index];
	int error;

	/* What is watched is gone; the timer of names looks at the new one. */
	pg_place_unwatch(place);
	pg_close_fd(&place->fd);
	place->hooks = 0;
	place->in_kernel = false;
	pg_member_remove(environment->host->kernel, place->id);
	error = attach_anew(environment, index, err);
	/* It counts as gone, so that it is tried again. */
	if (error)
		pg_close_fd(&place->fd);
	return error;
}

int pg_places_admit(struct pg_environment *environment, struct pg_error *err)
{
	const bool together = environment->header.flags & PG_HEADER_MEMBERS;
	const char *pins = pg_host_guard_pins(environment->host);
	int error = 0;

	for (size_t i = 0; i < pg_place_count(environment) && !error; i++) {
		const struct pg_place *place = &environment->places[i];
		const char *path = pg_place_path(environment, i);
		struct pg_member member;

		if (place->fd < 0)
			continue;
		member = (struct pg_member){.env_id = environment->header.env_id,
					    .level = level_of(path),
					    .refused = environment->settings.refused_rights};
		if (pg_place_count(environment) == 1)
			error = pg_member_add_alone(environment->host->kernel, place->id, &member,
						    err);
		else if (together || level_of(path) <= PG_MEMBER_LEVEL_MAX)
			error = pg_member_add(environment->host->kernel, place->id, &member, err);
		if (!error && pins && pg_host_is_below_parent(environment->host, path))
			error = pg_guard_admit(pins, place->id, err);
	}
	return error;
}

bool pg_place_is_gone(const struct pg_place *place)
{
	return place->fd < 0 || (faccessat(place->fd, "cgroup.events", F_OK, 0) && errno == ENOENT);
}

void pg_place_header(const struct pg_environment *environment, size_t index,
		     struct pg_header *ret_header)
{
	*ret_header = environment->header;
	ret_header->cgroup_id = environment->places[index].id;
	ret_header->level = (__u8)level_of(pg_place_path(environment, index));
}

static int write_place(struct pg_environment *environment, size_t index, struct pg_error *err)
{
	struct pg_kernel *kernel = environment->host->kernel;
	struct pg_header header, written;
	int error;

	pg_place_header(environment, index, &header);
	error = pg_header_write(kernel, &header, err);
	if (!error)
		error = pg_header_read(kernel, header.cgroup_id, &written, err);
	if (error)
		return error;
	if (memcmp(&written, &header, sizeof(written)) != 0)
		return pg_fail(err, -EIO,
			       "the header of %s reads back different from what was written",
			       pg_place_path(environment, index));
	return 0;
}

int pg_places_write(struct pg_environment *environment, struct pg_error *err)
{
	/* What was let out a moment ago was so by what the headers were. */
	environment->header.epoch++;
	for (size_t i = 0; i < pg_place_count(environment); i++) {
		const struct pg_place *place = &environment->places[i];
		int error = place->fd < 0 ? 0 : write_place(environment, i, err);

		/* With its cgroup its header has gone. */
		if (error && !pg_place_is_gone(place))
			return error;
	}
	return pg_links_write(environment, err);
}

void pg_places_close(struct pg_environment *environment)
{
	for (size_t i = 0; i < pg_place_count(environment); i++)
		pg_close_fd(&environment->places[i].fd);
}

int pg_places_collect(const struct pg_environment *environment, uint64_t until,
		      struct pg_members *ret_members)
{
	int error = 0;

	*ret_members = (struct pg_members){.until = until};
	for (size_t i = 0; i < pg_place_count(environment) && !error; i++)
		if (environment->places[i].fd >= 0)
			error = pg_members_add(ret_members, i, environment->places[i].fd);
	return error;
}
