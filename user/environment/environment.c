/* SPDX-License-Identifier: Apache-2.0 */
#include "environment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "dns.h"
#include "steps.h"

static int choose_name(struct pg_environment *environment, const char *name, struct pg_error *err)
{
	uint32_t random;

	if (name && !pg_record_name_valid(name))
		return pg_fail(err, -EINVAL,
			       "\"%s\" cannot be the name of an Environment: use up to %d letters,"
			       " digits, '-', '_' and '.'",
			       name, PG_NAME_MAX);
	if (name) {
		snprintf(environment->record.name, sizeof(environment->record.name), "%s", name);
		return 0;
	}
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return pg_fail_errno(err, -errno, "drawing a random name");
	snprintf(environment->record.name, sizeof(environment->record.name), "run-%d-%08" PRIx32,
		 (int)getpid(), random);
	return 0;
}

/* An absolute path of plain components below the mount; the root itself is refused. */
static bool cgroup_path_valid(const char *path)
{
	const char *last = strrchr(path, '/');

	return last && path[0] == '/' && last[1] && !strstr(path, "//") && !strstr(path, "/../") &&
	       !strstr(path, "/./") && strcmp(last, "/..") != 0 && strcmp(last, "/.") != 0;
}

/* Depth below the root of the hierarchy. */
static unsigned int cgroup_level(const char *path)
{
	unsigned int level = 0;

	for (; *path; path++)
		level += *path == '/';
	return level;
}

static int choose_cgroup(struct pg_environment *environment, const char *cgroup,
			 struct pg_error *err)
{
	struct pg_record *record = &environment->record;
	pg_autofree char *path = cgroup ? strdup(cgroup) : NULL;

	if (cgroup && !path)
		return pg_fail(err, -ENOMEM, "not enough memory for a path");
	for (size_t length = path ? strlen(path) : 0; length && path[length - 1] == '/';)
		path[--length] = '\0';
	if (cgroup && (!cgroup_path_valid(path) || cgroup_level(path) > UINT8_MAX))
		return pg_fail(err, -EINVAL,
			       "\"%s\" is not the path of a cgroup: give it absolute below the"
			       " cgroup2 mount, as in \"/mygroup\", and not the root",
			       cgroup);
	record->made = !cgroup;
	if (cgroup)
		record->cgroup = PG_TAKE_PTR(path);
	else if (asprintf(&record->cgroup, "/%s/%s", PG_CGROUP_PARENT, record->name) < 0)
		record->cgroup = NULL;
	return record->cgroup ? 0 : pg_fail(err, -ENOMEM, "not enough memory for a path");
}

static int make_cgroup(const struct pg_environment *environment, struct pg_error *err)
{
	const struct pg_record *record = &environment->record;
	const int mount_fd = environment->host->cgroup_mount_fd;
	char limit[sizeof(PG_CGROUP_PARENT) + PG_NAME_MAX + 32];

	if (mkdirat(mount_fd, PG_CGROUP_PARENT, 0755) && errno != EEXIST)
		return pg_fail_errno(err, -errno, "making the cgroup /%s", PG_CGROUP_PARENT);
	if (mkdirat(mount_fd, record->cgroup + 1, 0755))
		return pg_fail_errno(err, -errno, "making the cgroup %s", record->cgroup);
	snprintf(limit, sizeof(limit), "%s/cgroup.max.depth", record->cgroup + 1);
	return pg_file_write_at(mount_fd, limit, PG_STRING(PG_CGROUP_DEPTH_MAX), err);
}

static int count_cgroup(void *userdata, int cgroup_fd)
{
	++*(size_t *)userdata;
	return 0;
}

/* The end kills and removes all that is below a cgroup, so all of it must be the Environment's. */
static int refuse_used_cgroup(const struct pg_environment *environment, struct pg_error *err)
{
	const char *path = environment->record.cgroup;
	size_t cgroups = 0;
	bool populated;
	int error = pg_cgroup_populated(environment->cgroup_fd, &populated, err);

	if (error)
		return error;
	if (populated)
		return pg_fail(err, -EBUSY,
			       "the cgroup %s has processes already; give an empty one", path);
	error = pg_cgroup_walk(environment->cgroup_fd, count_cgroup, &cgroups);
	if (error)
		return pg_fail_errno(err, error, "listing the cgroups below %s", path);
	if (cgroups > 1)
		return pg_fail(err, -EBUSY,
			       "the cgroup %s has other cgroups below it already; give an empty"
			       " one",
			       path);
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

static int open_cgroup(struct pg_environment *environment, struct pg_error *err)
{
	const char *path = environment->record.cgroup;
	uint64_t id;
	int error;

	error = pg_cgroup_open(environment->host->cgroup_mount_fd, path + 1,
			       &environment->cgroup_fd, err);
	if (error == -ENOENT)
		return refuse_missing(environment->host->cgroup_mount, path, err);
	if (!error)
		error = pg_cgroup_id(environment->cgroup_fd, &id, err);
	if (!error)
		error = pg_cgroup_refuse_unfit(environment->cgroup_fd, path, err);
	if (!error)
		error = refuse_used_cgroup(environment, err);
	if (error)
		return error;
	environment->header.env_id = environment->header.cgroup_id = id;
	if (!environment->record.made)
		environment->record.cgroup_id = id;
	return 0;
}

/* What is there without a record is somebody else's: undoing must not end or remove it. */
static int refuse_existing(const struct pg_environment *environment, const char *pins,
			   struct pg_error *err)
{
	const struct pg_record *record = &environment->record;

	if (record->made &&
	    !faccessat(environment->host->cgroup_mount_fd, record->cgroup + 1, F_OK, 0))
		return pg_fail(err, -EEXIST, "the cgroup %s exists already; choose another name",
			       record->cgroup);
	if (!access(pins, F_OK))
		return pg_fail(err, -EEXIST, "the directory %s exists already; choose another name",
			       pins);
	return 0;
}

static int make_pin_directory(const char *path, struct pg_error *err)
{
	if (mkdir(PG_PIN_ROOT, 0700) && errno != EEXIST)
		return pg_fail_errno(err, -errno, "making the directory %s", PG_PIN_ROOT);
	if (mkdir(path, 0700))
		return pg_fail_errno(err, -errno, "making the directory %s", path);
	return 0;
}

static bool needs_hook(const struct pg_environment *environment, size_t hook)
{
	return environment->dns || !(pg_hook_flags((enum pg_hook)hook) & PG_HOOK_FOR_DNS);
}

/* Attaches and pins every hook; the header is zero throughout, so everything is denied. */
static int attach(struct pg_environment *environment, const char *pins, struct pg_error *err)
{
	struct pg_kernel *kernel = environment->host->kernel;
	int error = 0;

	for (size_t i = 0; i < PG_HOOK_COUNT && !error; i++) {
		if (!needs_hook(environment, i))
			continue;
		error = pg_attach(kernel, environment->cgroup_fd, (enum pg_hook)i,
				  &environment->attachment, err);
		/* A cgroup that had a header before keeps it: close it with the first link. */
		if (!error && !i) {
			error = pg_header_clear(kernel, environment->header.cgroup_id, err);
			environment->in_kernel = !error;
			pg_step(PG_STEP_CLEARED);
		}
	}
	if (error)
		return pg_error_prefix(err, "confining the cgroup %s", environment->record.cgroup);
	pg_step(PG_STEP_ATTACHED);
	for (size_t i = 0; i < PG_HOOK_COUNT && !error; i++)
		if (needs_hook(environment, i))
			error = pg_attachment_pin(&environment->attachment, (enum pg_hook)i, pins,
						  err);
	if (!error)
		pg_step(PG_STEP_PINNED);
	return error;
}

/* Record, cgroup, pins: under the lock, in the order that lets the next start undo them. */
static int confine(struct pg_environment *environment, struct pg_error *err)
{
	PG_CLEANUP(pg_records_unlock) int records_fd = -1;
	char pins[sizeof(PG_PIN_ROOT) + 1 + PG_NAME_MAX + 1];
	int error = pg_records_lock(environment->host->interrupt_fd, &records_fd, err);

	if (error)
		return error;
	pg_step(PG_STEP_LOCKED);
	snprintf(pins, sizeof(pins), "%s/%s", PG_PIN_ROOT, environment->record.name);
	error = refuse_existing(environment, pins, err);
	/* A record gives the next start the right to kill what is in the cgroup: a given one must
	 * be seen empty first. */
	if (!error && !environment->record.made)
		error = open_cgroup(environment, err);
	if (!error)
		error = pg_record_create(records_fd, &environment->record, &environment->record_fd,
					 err);
	if (error)
		return error;
	pg_step(PG_STEP_RECORDED);
	if (environment->record.made) {
		error = make_cgroup(environment, err);
		if (!error)
			error = open_cgroup(environment, err);
	}
	if (!error)
		error = make_pin_directory(pins, err);
	if (error)
		return error;
	pg_step(PG_STEP_CGROUP);
	return attach(environment, pins, err);
}

static int describe(struct pg_environment *environment,
		    const struct pg_environment_options *options, struct pg_error *err)
{
	struct pg_header *header = &environment->header;
	int error;

	header->magic = PG_HEADER_MAGIC;
	header->level = (__u8)cgroup_level(environment->record.cgroup);
	header->flags = PG_HEADER_CHECK_LO_SOURCE;
	pg_content_describe(environment, header);
	environment->state = (struct pg_state_value){.generation = 1, .phase = (int)options->phase};
	error = pg_state_take(environment->host->kernel, &header->state, err);
	if (!error && environment->dns)
		error = pg_dns_start(environment->dns, err);
	return error;
}

static int put_in_force(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_kernel *kernel = environment->host->kernel;
	struct pg_header written;
	int error = pg_self_probe_denied(environment, err);

	if (error)
		return error;
	pg_step(PG_STEP_DENIED);
	error = pg_flows_allow(kernel, environment->header.env_id, err);
	if (!error)
		error = pg_header_write(kernel, &environment->header, err);
	if (!error)
		error = pg_header_read(kernel, environment->header.cgroup_id, &written, err);
	if (error)
		return error;
	if (memcmp(&written, &environment->header, sizeof(written)) != 0)
		return pg_fail(err, -EIO,
			       "the header of %s reads back different from what was"
			       " written",
			       environment->record.cgroup);
	error = pg_state_write(kernel, environment->header.state, &environment->state, err);
	if (error)
		return error;
	pg_step(PG_STEP_HEADER);
	error = pg_self_probe_in_force(environment, err);
	if (!error)
		pg_step(PG_STEP_PROBED);
	return error;
}

static void free_environment(struct pg_environment *environment)
{
	pg_own_addresses_stop(environment);
	pg_content_destroy(environment);
	pg_attachment_close(&environment->attachment);
	pg_close_fd(&environment->cgroup_fd);
	pg_close_fd(&environment->record_fd);
	pg_record_clear(&environment->record);
	free(environment);
}

/*
 * Closes the header and kills the tree: without the lock of the records, so that none who holds it
 * can keep the tree open or alive, and each even if the other fails.
 */
static int close_and_kill(struct pg_environment *environment, struct pg_error *err)
{
	int error = 0, killed;

	/* Only an empty cgroup can have been removed meanwhile; its header is gone with it. */
	if (faccessat(environment->cgroup_fd, "cgroup.events", F_OK, 0) && errno == ENOENT)
		return 0;
	if (environment->in_kernel)
		error = pg_header_clear(environment->host->kernel, environment->header.cgroup_id,
					err);
	killed =
		pg_cgroup_kill(environment->cgroup_fd, PG_CGROUP_KILL_MS, NULL, error ? NULL : err);
	return error ? error : killed;
}

/* Ends whatever exists of the Environment, closed first; the record goes last. */
static int undo(struct pg_environment *environment, struct pg_error *err)
{
	PG_CLEANUP(pg_records_unlock) int records_fd = -1;
	struct pg_host *host = environment->host;
	const uint64_t env_id = environment->header.env_id;
	int error = 0;

	if (environment->record_fd < 0)
		return 0;
	if (environment->cgroup_fd >= 0)
		error = close_and_kill(environment, err);
	if (!error)
		error = pg_records_lock(-1, &records_fd, err);
	if (error)
		return error;
	pg_attachment_close(&environment->attachment);
	pg_close_fd(&environment->cgroup_fd);
	error = pg_remains_remove(host, records_fd, &environment->record, err);
	pg_state_release(host->kernel, environment->header.state);
	if (env_id)
		pg_flows_expire(host->kernel, env_id);
	return error;
}

static int create(struct pg_environment *environment, const struct pg_environment_options *options,
		  struct pg_error *err)
{
	uint64_t start;
	int error = choose_name(environment, options->name, err);

	if (!error)
		error = choose_cgroup(environment,
				      options->member_count ? options->members[0] : NULL, err);
	if (!error)
		error = pg_content_create(environment, options, err);
	if (error)
		return error;
	pg_step(PG_STEP_FILLED);
	start = pg_monotonic_ns();
	error = confine(environment, err);
	if (error)
		return error;
	environment->cost.attach_ns = pg_monotonic_ns() - start;
	error = describe(environment, options, err);
	if (!error)
		error = pg_own_addresses_start(environment, err);
	if (error)
		return error;
	start = pg_monotonic_ns();
	error = put_in_force(environment, err);
	environment->cost.probe_ns = pg_monotonic_ns() - start;
	return error;
}

int pg_environment_create(struct pg_host *host, const struct pg_environment_options *options,
			  struct pg_environment **ret_environment, struct pg_error *err)
{
	struct pg_environment *environment = calloc(1, sizeof(*environment));
	struct pg_error undo_err = {};
	int error;

	if (!environment)
		return pg_fail(err, -ENOMEM, "not enough memory for an Environment");
	environment->host = host;
	environment->policy = options->policy;
	environment->cgroup_fd = environment->record_fd = -1;
	environment->attachment = (struct pg_attachment)PG_ATTACHMENT_INIT;
	error = create(environment, options, err);
	if (error) {
		if (undo(environment, &undo_err))
			pg_error_prefix(err, "%s; and before that", undo_err.text);
		free_environment(environment);
		return error;
	}
	LIST_INSERT_HEAD(&host->environments, environment, link);
	*ret_environment = environment;
	return 0;
}

int pg_environment_destroy(struct pg_environment *environment, enum pg_destroy how,
			   struct pg_error *err)
{
	int error = undo(environment, err);

	if (error)
		pg_error_prefix(err, "ending the Environment %s", environment->record.name);
	LIST_REMOVE(environment, link);
	free_environment(environment);
	return error;
}

int pg_environment_switch(struct pg_environment *environment, enum pg_phase phase,
			  struct pg_switch *ret_switch, struct pg_error *err)
{
	struct pg_state_value state = environment->state;
	struct pg_switch result = {.phase = phase, .generation = state.generation};
	uint64_t start;
	int error;

	if (state.phase == (int)phase) {
		*ret_switch = result;
		return 0;
	}
	state.phase = (int)phase;
	result.generation = ++state.generation;
	result.changed = true;
	start = pg_monotonic_ns();
	error = pg_state_write(environment->host->kernel, environment->header.state, &state, err);
	result.took_ns = pg_monotonic_ns() - start;
	if (error)
		return pg_error_prefix(err,
				       "switching %s to the %s phase (the %s phase stays in"
				       " force)",
				       environment->record.name, pg_phase_name(phase),
				       pg_phase_name((enum pg_phase)environment->state.phase));
	environment->state = state;
	*ret_switch = result;
	return 0;
}

int pg_environment_kill(struct pg_environment *environment, size_t *ret_killed,
			struct pg_error *err)
{
	int error = pg_cgroup_kill(environment->cgroup_fd, PG_CGROUP_KILL_MS, ret_killed, err);

	return error ? pg_error_prefix(err, "killing the processes of %s",
				       environment->record.cgroup)
		     : 0;
}

int pg_environment_counters(const struct pg_environment *environment,
			    struct pg_counters *ret_counters, struct pg_error *err)
{
	return pg_counters_read(environment->host->kernel, environment->header.cgroup_id,
				ret_counters, err);
}

const char *pg_environment_name(const struct pg_environment *environment)
{
	return environment->record.name;
}

const char *pg_environment_member(const struct pg_environment *environment, size_t index)
{
	return environment->record.cgroup;
}

uint64_t pg_environment_id(const struct pg_environment *environment)
{
	return environment->header.env_id;
}

enum pg_phase pg_environment_phase(const struct pg_environment *environment)
{
	return (enum pg_phase)environment->state.phase;
}

uint64_t pg_environment_generation(const struct pg_environment *environment)
{
	return environment->state.generation;
}

const struct pg_environment_cost *pg_environment_cost(const struct pg_environment *environment)
{
	return &environment->cost;
}
