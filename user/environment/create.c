/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating an Environment. What exists after each step, and what the next start does with it:
 *
 *    1. sets filled         slots without a record                       swept
 *    2. record directory    locked by its owner                          removed
 *    3. K state, policy.0   intent "create"; the record is not written   removed
 *    4. record              names the cgroups                            undone
 *    5. cgroup              if it is one that is made                     undone
 *    6. first program       zero header: no packet leaves                undone
 *    7. all programs        zero headers: everything is denied           undone
 *    8. K members, guard    admitted, still denied                       undone
 *    9. headers             their state has no phase: still denied       undone
 *   10. K state             intent "none", listeners, cgroup ids         undone, while no phase
 *   11. phase in the state  one store: the Environment exists            K: adopted; else ended
 *
 * K: kept ones only (pg_host_options.pins). Undone means: the tree of a cgroup that was made is
 * killed, a given one is let go as it was before. In between everything is denied: what the caller
 * was not told about was never open. 10 comes before 11, so that whatever is in force can be
 * adopted; one of which the state has never had a phase (generation 0) was not created.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/vector.h"
#include "dns.h"
#include "kernel/link.h"
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

static size_t copy_servers(struct pg_endpoint into[static PG_NAMESERVERS_MAX],
			   const struct pg_endpoint *servers, size_t count)
{
	if (count > PG_NAMESERVERS_MAX)
		count = PG_NAMESERVERS_MAX;
	for (size_t i = 0; i < count; i++)
		into[i] = servers[i];
	return count;
}

static int add_host(void *userdata, const char *name, const struct pg_addr *addr)
{
	struct pg_settings *settings = userdata;
	char *copy;

	if (pg_vector_grow(&settings->hosts, settings->host_count, &settings->host_room,
			   sizeof(*settings->hosts)))
		return -ENOMEM;
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	settings->hosts[settings->host_count++] = (struct pg_fixed_host){copy, *addr};
	return 0;
}

static int take_settings(struct pg_environment *environment,
			 const struct pg_environment_options *options, struct pg_error *err)
{
	struct pg_settings *settings = &environment->settings;

	settings->apart = options->apart;
	settings->attached = options->attach;
	settings->report_denials = options->report_denials;
	settings->dns = options->dns;
	settings->owner = options->owner;
	settings->refused_rights = options->refused_rights;
	settings->resolver_count =
		copy_servers(settings->resolvers, options->resolvers, options->resolver_count);
	settings->own_resolver_count = copy_servers(settings->own_resolvers, options->own_resolvers,
						    options->own_resolver_count);
	settings->told_resolver_count = options->told_resolver_count;
	if (options->note && strlen(options->note) > PG_NOTE_MAX)
		return pg_fail(err, -E2BIG, "a note of more than %lu octets", PG_NOTE_MAX);
	settings->note = options->note ? strdup(options->note) : NULL;
	if (options->note && !settings->note)
		return pg_fail(err, -ENOMEM, "not enough memory for a note");
	return options->hosts ? pg_hosts_read(options->hosts, add_host, settings, err) : 0;
}

void pg_environment_set_flags(struct pg_environment *environment)
{
	struct pg_header *header = &environment->header;

	header->magic = PG_HEADER_MAGIC;
	header->flags = PG_HEADER_CHECK_SOURCE | PG_HEADER_CHECK_LO_SOURCE;
	if (pg_place_count(environment) > 1 && !environment->settings.apart)
		header->flags |= PG_HEADER_MEMBERS;
	if (environment->member_addresses)
		header->flags |= PG_HEADER_MEMBER_ADDRESSES;
	if (environment->settings.attached)
		header->flags |= PG_HEADER_ATTACHED;
	if (environment->settings.report_denials)
		header->flags |= PG_HEADER_EVENTS;
	if (environment->host->limit_ports)
		header->flags |= PG_HEADER_HOST_PORTS;
	header->ceiling = environment->host->ceiling.slot;
	header->ceiling_tables = environment->host->ceiling.tables;
}

/* The sets in the kernel, and what names need. */
static int prepare(struct pg_environment *environment, const struct pg_environment_options *options,
		   struct pg_error *err)
{
	uint64_t start;
	int error = choose_name(environment, options->name, err);

	if (!error)
		error = pg_places_choose(environment, options, err);
	if (!error)
		error = pg_member_addresses_choose(environment, options, err);
	if (!error)
		error = take_settings(environment, options, err);
	if (!error)
		error = pg_content_create(environment, options->policy, &environment->content, err);
	if (!error)
		error = pg_state_take(environment->host->kernel, &environment->state_index, err);
	if (error || !environment->content->names)
		return error;
	start = pg_monotonic_ns();
	error = pg_dns_create(environment, err);
	if (!error)
		error = pg_dns_load(environment->dns, environment->content, err);
	environment->cost.names_ns = pg_monotonic_ns() - start;
	return error;
}

/* What is there without a record is somebody else's: undoing must not end or remove it. */
static int refuse_existing(const struct pg_environment *environment, struct pg_error *err)
{
	const struct pg_record *record = &environment->record;
	const char *path = record->cgroups[0].path;

	if (pg_ending_has(environment->host, record->name))
		return pg_fail(err, -EEXIST,
			       "an Environment of the name %s is still being ended; wait, or choose"
			       " another name",
			       record->name);
	if (record->made && !faccessat(environment->host->cgroup_mount_fd, path + 1, F_OK, 0))
		return pg_fail(err, -EEXIST,
			       "the cgroup %s exists already without an Environment, as when a "
			       "container was started in it; remove it, or choose another name",
			       path);
	return 0;
}

static int make_record(struct pg_environment *environment, int records_fd, struct pg_error *err)
{
	PG_CLEANUP(pg_own_records_clear) struct pg_own_records own = {};

	pg_host_own_records(environment->host, &own);
	return pg_record_create(records_fd, &environment->record, &own, &environment->record_fd,
				err);
}

static int write_record(struct pg_environment *environment, int records_fd, struct pg_error *err)
{
	struct pg_record *record = &environment->record;
	int error = make_record(environment, records_fd, err);

	if (error)
		return error;
	record->kept = environment->host->pins != NULL;
	environment->intent = PG_INTENT_CREATE;
	if (record->kept) {
		pg_step(PG_STEP_UNWRITTEN);
		error = pg_environment_save(environment, err);
		if (!error)
			error = pg_saved_policy_write(environment->record_fd, 0,
						      environment->content->policy, err);
		pg_step(PG_STEP_STATED);
	}
	if (!error)
		error = pg_record_write(environment->record_fd, record, err);
	if (!error)
		pg_step(PG_STEP_RECORDED);
	return error;
}

/* Record, cgroups, programs: under the lock, in the order that lets the next start undo them. */
static int confine(struct pg_environment *environment, bool attach, struct pg_error *err)
{
	PG_CLEANUP(pg_records_unlock) int records_fd = -1;
	const unsigned int wait_ms =
		environment->host->pins ? PG_RECORDS_LOCK_SOON_MS : PG_RECORDS_LOCK_MS;
	int error =
		pg_records_lock_within(wait_ms, environment->host->interrupt_fd, &records_fd, err);

	if (error)
		return error;
	pg_step(PG_STEP_LOCKED);
	error = pg_pins_guard_again(environment->host, records_fd, err);
	if (!error)
		error = refuse_existing(environment, err);
	/* A record gives the next start the right to kill what is in the cgroup: a given one must
	 * be looked at first. */
	if (!error && !environment->record.made)
		error = pg_places_open(environment, attach, err);
	if (!error)
		error = write_record(environment, records_fd, err);
	if (!error && environment->record.made)
		error = pg_places_make(environment, err);
	if (error)
		return error;
	pg_step(PG_STEP_CGROUP);
	error = pg_places_attach(environment, environment->content->names, err);
	if (error)
		return error;
	pg_environment_set_flags(environment);
	for (size_t i = 0; attach && i < pg_place_count(environment) && !error; i++)
		error = pg_older_sockets_mark(environment, i, err);
	for (size_t i = 0; attach && i < pg_place_count(environment) && !error; i++)
		error = pg_before_find(environment, i, &environment->before, err);
	return error ? error : pg_places_admit(environment, err);
}

static int describe(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_header *header = &environment->header;
	int error;

	header->state = environment->state_index;
	memcpy(header->slots[0], environment->content->slots, sizeof(header->slots[0]));
	error = environment->dns ? pg_dns_start(environment->dns, err) : 0;
	if (!error)
		error = pg_member_addresses_start(environment, err);
	if (!error)
		error = pg_places_watch(environment, err);
	if (!error && environment->before.lived)
		error = pg_link_bar(environment->host->kernel, header->env_id,
				    environment->before.sent, err);
	/* With what is there now: its processes are denied everything so far. */
	return error ? error : pg_homes_start(environment, PG_HOMES_CREATE, err);
}

static int put_in_force(struct pg_environment *environment, enum pg_phase phase,
			struct pg_error *err)
{
	const struct pg_state_value state = {.generation = 1, .phase = (int)phase};
	struct pg_kernel *kernel = environment->host->kernel;
	int error = pg_self_probe_denied(environment, err);

	if (error)
		return error;
	pg_step(PG_STEP_DENIED);
	error = environment->before.sent ? pg_flows_bar(kernel, environment->header.env_id, err)
					 : pg_flows_allow(kernel, environment->header.env_id, err);
	if (!error)
		error = pg_places_write(environment, err);
	if (error)
		return error;
	pg_step(PG_STEP_HEADER);
	environment->intent = PG_INTENT_NONE;
	error = pg_environment_save(environment, err);
	if (error)
		return error;
	if (environment->record.kept)
		pg_step(PG_STEP_SAVED);
	error = pg_state_write(kernel, environment->state_index, &state, err);
	if (error)
		return error;
	environment->state = state;
	environment->phase = phase;
	pg_step(PG_STEP_FORCED);
	error = pg_self_probe_in_force(environment, err);
	if (!error)
		pg_step(PG_STEP_PROBED);
	return error;
}

static int create(struct pg_environment *environment, const struct pg_environment_options *options,
		  struct pg_error *err)
{
	uint64_t start;
	int error = prepare(environment, options, err);

	if (error)
		return error;
	pg_step(PG_STEP_FILLED);
	start = pg_monotonic_ns();
	error = confine(environment, options->attach, err);
	if (error)
		return error;
	environment->cost.attach_ns = pg_monotonic_ns() - start;
	error = describe(environment, err);
	if (error)
		return error;
	start = pg_monotonic_ns();
	error = put_in_force(environment, options->phase, err);
	environment->cost.probe_ns = pg_monotonic_ns() - start;
	if (!error && options->attach)
		error = pg_connections_settle(environment, err);
	return error;
}

int pg_environment_create(struct pg_host *host, const struct pg_environment_options *options,
			  struct pg_environment **ret_environment, struct pg_error *err)
{
	struct pg_environment *environment = pg_environment_new(host);
	struct pg_error undo_err = {};
	int error;

	if (!environment)
		return pg_fail(err, -ENOMEM, "not enough memory for an Environment");
	error = create(environment, options, err);
	if (error) {
		/* Given cgroups were somebody's before; nobody was told that they are confined. */
		environment->intent = environment->record.made || !options->attach
					      ? PG_INTENT_KILL
					      : PG_INTENT_RELEASE;
		if (pg_environment_undo(environment, &undo_err))
			pg_error_prefix(err, "%s; and before that", undo_err.text);
		if (!undo_err.number || !pg_ending_take(environment))
			pg_environment_free(environment);
		return error;
	}
	LIST_INSERT_HEAD(&host->environments, environment, link);
	*ret_environment = environment;
	return 0;
}
