/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that have been removed and made anew, as the cgroup of a container that is restarted: the
 * hooks have gone with the old one. What exists after each step, and what the next owner does:
 *
 *   1. all programs        zero header: everything is denied       finds them, goes on with 2
 *   2. admitted, header    in force                                the same
 *   3. record, K state     the new cgroup's id                     adopts it
 *
 * Until 1 what is in it is not confined: only a parent that is made beforehand has no such gap.
 */
#include <errno.h>

#include "host_internal.h"
#include "kernel/link.h"

static bool is_made_anew(const struct pg_environment *environment, size_t index)
{
	const char *path = pg_place_path(environment, index);
	pg_autoclose int fd = -1;
	struct pg_error unused = {};

	/* Below the parent everything is denied without an Environment. */
	return !pg_host_is_below_parent(environment->host, path) &&
	       !pg_cgroup_open(environment->host->cgroup_mount_fd, path + 1, &fd, &unused);
}

enum pg_member_state pg_environment_member_state(const struct pg_environment *environment,
						 size_t index)
{
	if (!pg_place_is_gone(&environment->places[index]))
		return PG_MEMBER_CONFINED;
	return is_made_anew(environment, index) ? PG_MEMBER_UNCONFINED : PG_MEMBER_GONE;
}

static int write_places(struct pg_environment *environment, struct pg_error *err)
{
	PG_CLEANUP(pg_records_unlock) int records_fd = -1;
	int error = pg_places_admit(environment, err);

	if (!error)
		error = pg_places_write(environment, err);
	if (!error)
		error = pg_records_lock(environment->host->interrupt_fd, &records_fd, err);
	if (!error)
		error = pg_record_write(environment->record_fd, &environment->record, err);
	return error ? error : pg_environment_save(environment, err);
}

/* What comes in may be the answer to something that nobody has recorded. */
static int bar(struct pg_environment *environment, size_t index, struct pg_error *err)
{
	struct pg_kernel *kernel = environment->host->kernel;
	const uint64_t env_id = environment->header.env_id;
	struct pg_before before = {};
	int error = pg_before_find(environment, index, &before, err);

	if (!error && before.lived)
		error = pg_link_bar(kernel, env_id, before.sent, err);
	return error || !before.sent ? error : pg_flows_bar(kernel, env_id, err);
}

int pg_environment_reconfine(struct pg_environment *environment, size_t index, struct pg_error *err)
{
	int error = pg_place_reopen(environment, index, err);

	if (!error)
		error = pg_older_sockets_mark(environment, index, err);
	if (!error)
		error = bar(environment, index, err);
	if (!error)
		error = pg_places_watch(environment, err);
	if (!error)
		error = pg_homes_renew(environment, PG_HOMES_LATER, err);
	if (!error)
		pg_member_addresses_renew(environment, index);
	/* Its runtime is at work there as a rule. */
	pg_homes_follow(environment);
	if (!error) {
		/* It may have sockets from before. */
		environment->settings.attached = true;
		environment->header.flags |= PG_HEADER_ATTACHED;
		error = write_places(environment, err);
	}
	return error ? pg_error_prefix(err, "confining %s again", pg_place_path(environment, index))
		     : 0;
}
