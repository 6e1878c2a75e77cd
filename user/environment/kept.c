/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a killed owner has left that is to be adopted: read before anything changes, so that a
 * version that cannot adopt it changes nothing; then settled:
 *
 *   no state file                          no Environment: orphan.c removes it
 *   the state was never in force (create)  undone: see create.c
 *   the maps are not those that its        stays as it is, with the old maps: nobody can adopt it
 *   programs use, its cgroups given ones
 *   intent "kill", "release"               ended: see end.c
 *   the cgroup that was made is gone       ended; given ones may come back, as those of containers
 *                                          that are stopped do, and are confined then
 *   the kernel lacks what is in force, or  denied everything: nobody can adopt it
 *   nothing says which cgroups it has
 *   else                                   its slots, state and tables are marked as used, those
 *                                          of both banks (an update may have been under way)
 *
 * What is in the kernel's tables and in no state file is swept after that.
 */
#include "host_internal.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

/* -EEXIST: phases share it. */
static int occupied(int error)
{
	return error == -EEXIST ? 0 : error;
}

static void clear_kept(struct pg_kept *kept)
{
	for (size_t bank = 0; bank < PG_BANK_COUNT; bank++)
		for (size_t phase = 0; phase < PG_PHASE_COUNT; phase++)
			pg_close_fd(&kept->learned[bank][phase].fd);
	pg_saved_clear(&kept->saved);
	free(kept);
}

struct pg_kept *pg_kept_find(const struct pg_host *host, const char *name)
{
	struct pg_kept *kept;

	LIST_FOREACH (kept, &host->kept, link)
		if (!strcmp(kept->name, name))
			return kept;
	return NULL;
}

void pg_kept_drop(struct pg_host *host, struct pg_kept *kept, bool adopted)
{
	struct pg_kernel_set ceiling = kept->ceiling;

	LIST_REMOVE(kept, link);
	clear_kept(kept);
	host->failed_adoption |= !adopted;
	host->strays |= !adopted;
	if (host->failed_adoption)
		return;
	pg_set_destroy(host->kernel, &ceiling);
	pg_host_tidy_soon(host);
}

void pg_kept_clear(struct pg_host *host)
{
	struct pg_kept *kept, *next;

	for (kept = LIST_FIRST(&host->kept); kept; kept = next) {
		next = LIST_NEXT(kept, link);
		clear_kept(kept);
	}
	LIST_INIT(&host->kept);
}

static int read_one(void *userdata, int record_fd, const struct pg_record *record,
		    struct pg_error *err)
{
	struct pg_host *host = userdata;
	struct pg_kept *kept;
	int error;

	if (!record->kept)
		return 0;
	kept = calloc(1, sizeof(*kept));
	if (!kept)
		return pg_fail(err, -ENOMEM, "not enough memory for %s", record->name);
	for (size_t bank = 0; bank < PG_BANK_COUNT; bank++)
		for (size_t phase = 0; phase < PG_PHASE_COUNT; phase++)
			kept->learned[bank][phase].fd = -1;
	snprintf(kept->name, sizeof(kept->name), "%s", record->name);
	error = pg_saved_read(record_fd, record->name, &kept->saved, err);
	if (error == -EPROTO && pg_saved_is_foreign(record_fd, host->pins)) {
		clear_kept(kept);
		return 0;
	}
	/* No record yet, or none any more; what cannot be read is named there (orphan.c). */
	if (!record->cgroup_count && (error || kept->saved.intent != PG_INTENT_NONE)) {
		clear_kept(kept);
		return 0;
	}
	/* Of another agent, whose directory is another. */
	if (error || strcmp(kept->saved.pins, host->pins) != 0) {
		clear_kept(kept);
		return error;
	}
	kept->unwritten = !record->cgroup_count;
	LIST_INSERT_HEAD(&host->kept, kept, link);
	return 0;
}

/* Of records whose owner can only be dead, since we have the lock of the pins. */
static int wait_for_lock(void *userdata, int record_fd, const struct pg_record *record,
			 struct pg_error *err)
{
	const struct pg_host *host = userdata;
	pg_autosaved struct pg_saved saved = {};
	int error;

	if (!record->kept || pg_saved_read(record_fd, record->name, &saved, NULL) ||
	    strcmp(saved.pins, host->pins) != 0)
		return 0;
	error = pg_heir_lock(record_fd, host->interrupt_fd);
	return error ? pg_fail_errno(err, error, "locking the record %s, which has no owner",
				     record->name)
		     : 0;
}

int pg_kept_read(struct pg_host *host, int records_fd, struct pg_error *err)
{
	int error = pg_records_visit(records_fd, wait_for_lock, host, err);

	return error ? error : pg_records_visit_orphans(records_fd, read_one, host, err);
}

static bool is_there(struct pg_host *host, const struct pg_record *record,
		     const struct pg_saved *saved)
{
	pg_autoclose int fd = -1;
	uint64_t id;

	if (!record->made)
		return true;
	/* It is the only one. */
	return !pg_cgroup_open(host->cgroup_mount_fd, record->cgroups[0].path + 1, &fd, NULL) &&
	       !pg_cgroup_id(fd, &id, NULL) && saved->member_count && id == saved->members[0];
}

/* What ends before its descriptors are used again must not be open for a moment. */
static void close_headers(struct pg_host *host, const struct pg_saved *saved)
{
	for (size_t i = 0; i < saved->member_count; i++)
		if (saved->members[i])
			(void)!pg_header_clear(host->kernel, saved->members[i], NULL);
}

static int end(struct pg_host *host, int records_fd, const struct pg_record *record,
	       const struct pg_saved *saved, bool kill, struct pg_error *err)
{
	const uint64_t env_id = saved->member_count ? saved->members[0] : 0;
	int error;

	if (kill)
		close_headers(host, saved);
	pg_remains_forget(host, env_id);
	error = pg_remains_remove(host, records_fd, record, kill, err);
	if (error)
		return pg_error_prefix(err, "ending the Environment %s, which was half done",
				       record->name);
	if (!kill)
		close_headers(host, saved);
	pg_log_debug("ended what was half done of the Environment %s", record->name);
	return 0;
}

static bool is_repeated(const struct pg_saved_bank *bank, size_t phase)
{
	for (size_t i = 0; i < phase; i++)
		if (bank->compiled[i] == bank->compiled[phase])
			return true;
	return false;
}

/* All or nothing. */
static int occupy_phase(struct pg_host *host, struct pg_kept *kept, unsigned int bank, size_t phase,
			struct pg_error *err)
{
	const struct pg_saved_bank *saved = &kept->saved.banks[bank];
	const struct pg_phase_slot *slot = &saved->slots[phase];
	struct pg_kernel_set set = {};
	int error = 0;

	if (slot->tables && !is_repeated(saved, phase)) {
		set = (struct pg_kernel_set){slot->set, saved->set_ids[phase], slot->tables};
		error = pg_set_occupy(host->kernel, &set, err);
	}
	if (error || !slot->learned)
		return error;
	error = occupied(pg_learned_occupy(host->kernel, slot->learned, saved->learned_ids[phase],
					   &kept->learned[bank][phase], err));
	if (error)
		pg_set_destroy(host->kernel, &set);
	return error;
}

/* Of the first phases. */
static void release_phases(struct pg_host *host, struct pg_kept *kept, unsigned int bank,
			   size_t count)
{
	struct pg_saved_bank *saved = &kept->saved.banks[bank];

	for (size_t phase = 0; saved->there && phase < count; phase++) {
		const struct pg_phase_slot *slot = &saved->slots[phase];
		struct pg_kernel_set set = {slot->set, saved->set_ids[phase], slot->tables};

		if (set.tables && !is_repeated(saved, phase))
			pg_set_destroy(host->kernel, &set);
		pg_learned_destroy(host->kernel, &kept->learned[bank][phase]);
	}
	saved->there = false;
}

void pg_kept_release_bank(struct pg_host *host, struct pg_kept *kept, unsigned int bank)
{
	release_phases(host, kept, bank, PG_PHASE_COUNT);
}

/* All or nothing: then it counts as not being there. */
static int occupy_bank(struct pg_host *host, struct pg_kept *kept, unsigned int bank,
		       struct pg_error *err)
{
	int error = 0;

	for (size_t phase = 0; kept->saved.banks[bank].there && phase < PG_PHASE_COUNT; phase++) {
		error = occupy_phase(host, kept, bank, phase, err);
		if (error)
			release_phases(host, kept, bank, phase);
	}
	return error;
}

/* The ceiling that the headers name; all that are there name the same one. */
static int occupy_ceiling(struct pg_host *host, struct pg_kept *kept, struct pg_error *err)
{
	struct pg_header header;
	int error;

	for (size_t i = 0; i < kept->saved.member_count; i++) {
		if (pg_header_read(host->kernel, kept->saved.members[i], &header, NULL) ||
		    !header.ceiling_tables)
			continue;
		kept->ceiling = (struct pg_kernel_set){
			.slot = header.ceiling,
			.tables = header.ceiling_tables,
		};
		error = pg_set_occupy(host->kernel, &kept->ceiling, err);
		if (error)
			kept->ceiling = (struct pg_kernel_set){};
		return error;
	}
	return 0;
}

static int occupy(struct pg_host *host, struct pg_kept *kept, struct pg_error *err)
{
	struct pg_state_value state;
	int error = pg_state_occupy(host->kernel, kept->saved.state, err);

	if (!error)
		error = pg_state_read(host->kernel, kept->saved.state, &state, err);
	if (!error)
		error = occupy_ceiling(host, kept, err);
	for (unsigned int bank = 0; bank < PG_BANK_COUNT; bank++) {
		if (error) {
			kept->saved.banks[bank].there = false;
			continue;
		}
		error = occupy_bank(host, kept, bank, err);
		/* Of the other bank: an update had begun, or was over. */
		if (error && bank != state.bank) {
			kept->stale = true;
			error = 0;
		}
	}
	return error;
}

/* Whether it goes on, or how it ends. */
static int judge(struct pg_host *host, const struct pg_record *record, struct pg_kept *kept,
		 enum pg_intent *ret_intent, struct pg_error *err)
{
	struct pg_state_value state;
	int error = pg_state_read(host->kernel, kept->saved.state, &state, err);

	if (error)
		return error;
	*ret_intent = kept->saved.intent;
	if (kept->saved.intent == PG_INTENT_KILL || kept->saved.intent == PG_INTENT_RELEASE)
		return 0;
	/* Nobody was told that it exists. What is in a given cgroup is not ours to end. */
	if (kept->saved.intent == PG_INTENT_CREATE || !state.generation)
		*ret_intent = record->made ? PG_INTENT_KILL : PG_INTENT_RELEASE;
	else if (!is_there(host, record, &kept->saved))
		*ret_intent = PG_INTENT_KILL;
	return 0;
}

/* Somebody has changed pinned maps or the state file: whatever its headers name may become another
 * one's. The others can be adopted all the same. The state stays its own, and what it is: the next
 * start would take one that is 0 for an Environment that was not created. */
static void shut(struct pg_host *host, const struct pg_record *record, struct pg_kept *kept,
		 struct pg_error *why)
{
	close_headers(host, &kept->saved);
	pg_links_shut(host, kept->name);
	pg_kernel_synchronize(host->kernel);
	for (unsigned int bank = 0; bank < PG_BANK_COUNT; bank++)
		pg_kept_release_bank(host, kept, bank);
	pg_set_destroy(host->kernel, &kept->ceiling);
	pg_error_prefix(why,
			"the Environment %s cannot be adopted, and everything is denied to it; end"
			" its processes and remove the cgroup %s, and the next start removes the"
			" rest",
			kept->name, record->cgroups[0].path);
	pg_host_warn(host, "orphan", why->text);
	LIST_REMOVE(kept, link);
	clear_kept(kept);
}

/* Whether somebody has removed the pinned maps of what is in force: in those that are there now a
 * member that exists has no header. One that was never in force has. */
static bool has_lost_maps(struct pg_host *host, const struct pg_record *record,
			  const struct pg_saved *saved)
{
	if (record->made || saved->intent != PG_INTENT_NONE)
		return false;
	for (size_t i = 0; i < record->cgroup_count && i < saved->member_count; i++) {
		pg_autoclose int fd = -1;
		struct pg_header header;
		uint64_t id;

		if (pg_cgroup_open(host->cgroup_mount_fd, record->cgroups[i].path + 1, &fd, NULL) ||
		    pg_cgroup_id(fd, &id, NULL) || id != saved->members[i])
			continue;
		if (pg_header_read(host->kernel, id, &header, NULL) == -ENOENT)
			return true;
	}
	return false;
}

/* What is in it is not ours to end, and letting it go would open what is closed. */
static void leave(struct pg_host *host, const struct pg_record *record, struct pg_kept *kept)
{
	struct pg_error err = {};

	pg_fail(&err, -ENOENT,
		"the Environment %s stays confined as it is, but nobody can adopt it, since the "
		"maps"
		" in %s are not those that it was made with: end its processes and remove the "
		"cgroup"
		" %s, and the next start removes the rest",
		kept->name, host->pins, record->cgroups[0].path);
	pg_host_warn(host, "orphan", err.text);
	LIST_REMOVE(kept, link);
	clear_kept(kept);
}

/* For headers that cannot be cleared, since somebody has changed whose they are. */
static void close_state(struct pg_host *host, uint32_t index)
{
	struct pg_state_value state;
	struct pg_error unused = {};

	if (pg_state_occupy(host->kernel, index, &unused) ||
	    pg_state_read(host->kernel, index, &state, &unused) || state.phase == PG_PHASE_NONE)
		return;
	state.phase = PG_PHASE_NONE;
	state.generation++;
	(void)!pg_state_write(host->kernel, index, &state, &unused);
}

/* Where its cgroups are, nobody knows, but their headers and links are known. Its state stays its
 * own. */
static void shut_unwritten(struct pg_host *host, struct pg_kept *kept)
{
	host->strays = true;
	close_headers(host, &kept->saved);
	close_state(host, kept->saved.state);
	pg_links_shut(host, kept->name);
	pg_kernel_synchronize(host->kernel);
	pg_orphan_warn_unwritten(host, kept->name, &kept->saved, "everything is denied to it");
	LIST_REMOVE(kept, link);
	clear_kept(kept);
}

static bool is_damage(int error)
{
	return error == -ENOENT || error == -EEXIST || error == -ERANGE;
}

static int settle(struct pg_host *host, int records_fd, struct pg_kept *kept, struct pg_error *err)
{
	PG_CLEANUP(pg_record_clear) struct pg_record record = {};
	enum pg_intent intent = PG_INTENT_NONE;
	pg_autoclose int record_fd = -1;
	struct pg_error fault = {}, why = {};
	int error = pg_record_open(records_fd, kept->name, &record, &record_fd, err);

	if (!error && has_lost_maps(host, &record, &kept->saved)) {
		leave(host, &record, kept);
		return 0;
	}
	if (!error)
		error = judge(host, &record, kept, &intent, err);
	if (!error && intent != PG_INTENT_NONE &&
	    !end(host, records_fd, &record, &kept->saved, intent == PG_INTENT_KILL, &fault)) {
		LIST_REMOVE(kept, link);
		clear_kept(kept);
		return 0;
	}
	if (!error) {
		error = occupy(host, kept, &why);
		if (is_damage(error)) {
			host->strays = true;
			shut(host, &record, kept, &why);
			return 0;
		}
		if (error && err)
			*err = why;
	}
	if (error)
		return pg_error_prefix(err, "the kept Environment %s", kept->name);
	if (intent != PG_INTENT_NONE) {
		/* It stays as it is, not to be adopted, until the next start. */
		host->strays = true;
		pg_host_warn(host, "orphan", fault.text);
		LIST_REMOVE(kept, link);
		clear_kept(kept);
	}
	return 0;
}

int pg_kept_settle(struct pg_host *host, int records_fd, struct pg_error *err)
{
	struct pg_kept *kept, *next;
	int error = 0;

	for (kept = LIST_FIRST(&host->kept); kept && !error; kept = next) {
		next = LIST_NEXT(kept, link);
		if (kept->unwritten)
			shut_unwritten(host, kept);
		else
			error = settle(host, records_fd, kept, err);
	}
	if (error)
		return error;
	pg_links_sweep(host);
	pg_kernel_sweep(host->kernel);
	return pg_flows_recount(host->kernel, err);
}

int pg_host_kept(const struct pg_host *host, char ***ret_names, size_t *ret_count,
		 struct pg_error *err)
{
	const struct pg_kept *kept;
	size_t count = 0;
	char **names, *text;

	LIST_FOREACH (kept, &host->kept, link)
		count++;
	names = malloc(count * (sizeof(*names) + sizeof(kept->name)) + 1);
	if (!names)
		return pg_fail(err, -ENOMEM, "not enough memory for %zu names", count);
	text = (char *)(names + count);
	count = 0;
	LIST_FOREACH (kept, &host->kept, link) {
		names[count++] = memcpy(text, kept->name, sizeof(kept->name));
		text += sizeof(kept->name);
	}
	*ret_names = names;
	*ret_count = count;
	return 0;
}
