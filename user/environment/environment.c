/* SPDX-License-Identifier: Apache-2.0 */
#include "environment.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "dns.h"
#include "kernel/link.h"
#include "steps.h"

struct pg_environment *pg_environment_new(struct pg_host *host)
{
	struct pg_environment *environment = calloc(1, sizeof(*environment));

	if (!environment)
		return NULL;
	environment->host = host;
	environment->number = ++host->environment_count;
	environment->record_fd = -1;
	environment->state.phase = PG_PHASE_NONE;
	return environment;
}

void pg_environment_free(struct pg_environment *environment)
{
	const bool keep = environment->record.kept && environment->record_fd >= 0;

	pg_dns_destroy(environment, keep);
	pg_content_free(environment, environment->content, keep);
	environment->host->in_use |= keep;
	if (!keep)
		pg_state_release(environment->host->kernel, environment->state_index);
	pg_homes_end(environment, keep);
	pg_member_addresses_free(environment);
	for (size_t i = 0; i < pg_place_count(environment); i++)
		pg_place_unwatch(&environment->places[i]);
	pg_links_leave(environment);
	pg_places_close(environment);
	free(environment->places);
	free(environment->connections);
	free(environment->ending_fault);
	pg_close_fd(&environment->record_fd);
	pg_record_clear(&environment->record);
	pg_settings_clear(&environment->settings);
	free(environment);
}

int pg_environment_save(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_saved saved = {
		.intent = environment->intent,
		.pins = environment->host->pins,
		.state = environment->state_index,
		.flags = environment->header.flags,
		.member_count = environment->record.cgroup_count,
		.held = environment->held,
		.listener = {environment->header.listener[0], environment->header.listener[1]},
		.settings = environment->settings,
	};
	int error;

	if (!environment->record.kept)
		return 0;
	for (size_t i = 0; i < saved.member_count; i++)
		saved.members[i] = environment->places[i].id;
	pg_content_save(environment->content, &saved.banks[environment->state.bank]);
	if (environment->next)
		pg_content_save(environment->next, &saved.banks[!environment->state.bank]);
	error = pg_saved_write(environment->record_fd, &saved, err);
	return error ? pg_error_prefix(err, "the Environment %s", environment->record.name) : 0;
}

/* The phase, or none, as another generation. Unchanged if that is in force. */
static int write_phase(struct pg_environment *environment, int phase, struct pg_switch *ret_switch,
		       struct pg_error *err)
{
	struct pg_state_value state = environment->state;
	struct pg_switch result = {.phase = environment->phase, .generation = state.generation};
	uint64_t start;
	int error;

	if (state.phase == phase) {
		*ret_switch = result;
		return 0;
	}
	state.phase = phase;
	result.generation = ++state.generation;
	result.changed = true;
	start = pg_monotonic_ns();
	error = pg_state_write(environment->host->kernel, environment->state_index, &state, err);
	result.took_ns = pg_monotonic_ns() - start;
	if (error)
		return error;
	environment->state = state;
	if (phase != PG_PHASE_NONE)
		environment->phase = result.phase = (enum pg_phase)phase;
	pg_step(PG_STEP_SWITCHED);
	*ret_switch = result;
	return 0;
}

int pg_environment_switch(struct pg_environment *environment, enum pg_phase phase,
			  struct pg_switch *ret_switch, struct pg_error *err)
{
	int error = write_phase(environment, (int)phase, ret_switch, err);

	return error ? pg_error_prefix(err,
				       "switching %s to the %s phase (the %s phase stays in"
				       " force)",
				       environment->record.name, pg_phase_name(phase),
				       pg_phase_name(environment->phase))
		     : 0;
}

int pg_environment_deny(struct pg_environment *environment, struct pg_switch *ret_switch,
			struct pg_error *err)
{
	int error = write_phase(environment, PG_PHASE_NONE, ret_switch, err);

	return error ? pg_error_prefix(err, "denying everything to %s", environment->record.name)
		     : 0;
}

int pg_environment_kill(struct pg_environment *environment, size_t *ret_killed,
			struct pg_error *err)
{
	size_t killed = 0;

	for (size_t i = 0; i < pg_place_count(environment); i++) {
		const struct pg_place *place = &environment->places[i];
		size_t here = 0;
		int error;

		if (pg_place_is_gone(place))
			continue;
		error = pg_cgroup_kill(place->fd, PG_CGROUP_KILL_MS, &here, err);
		if (error)
			return pg_error_prefix(err, "killing the processes of %s",
					       pg_place_path(environment, i));
		killed += here;
	}
	*ret_killed = killed;
	return 0;
}

int pg_environment_populated(const struct pg_environment *environment, bool *ret_populated,
			     struct pg_error *err)
{
	bool populated = false;

	for (size_t i = 0; i < pg_place_count(environment) && !populated; i++) {
		const struct pg_place *place = &environment->places[i];
		int error = pg_place_is_gone(place)
				    ? 0
				    : pg_cgroup_populated(place->fd, &populated, err);

		if (error && !pg_place_is_gone(place))
			return pg_error_prefix(err, "%s", pg_place_path(environment, i));
	}
	*ret_populated = populated;
	return 0;
}

static void add_counters(struct pg_counters *sum, const struct pg_counters *counters)
{
	/* It has nothing but counters. */
	const size_t words = sizeof(*sum) / sizeof(uint64_t);

	for (size_t word = 0; word < words; word++)
		((uint64_t *)sum)[word] += ((const uint64_t *)counters)[word];
}

int pg_environment_counters(const struct pg_environment *environment,
			    struct pg_counters *ret_counters, struct pg_error *err)
{
	struct pg_counters sum = {}, counters;
	int error = pg_link_counters_read(environment->host->kernel, environment->header.env_id,
					  &sum, err);

	if (error)
		return error;
	for (size_t i = 0; i < pg_place_count(environment); i++) {
		const struct pg_place *place = &environment->places[i];

		if (place->fd < 0)
			continue;
		error = pg_counters_read(environment->host->kernel, place->id, &counters, err);
		if (error && pg_place_is_gone(place))
			continue;
		if (error)
			return error;
		add_counters(&sum, &counters);
		sum.events_suppressed += pg_member_suppressed(environment->host->kernel, place->id);
	}
	*ret_counters = sum;
	return 0;
}

int pg_environment_set_note(struct pg_environment *environment, const char *note,
			    struct pg_error *err)
{
	char *old = environment->settings.note;
	int error;

	if (strlen(note) > PG_NOTE_MAX)
		return pg_fail(err, -E2BIG, "a note of more than %lu octets", PG_NOTE_MAX);
	environment->settings.note = strdup(note);
	if (!environment->settings.note) {
		environment->settings.note = old;
		return pg_fail(err, -ENOMEM, "not enough memory for a note");
	}
	error = pg_environment_save(environment, err);
	if (error) {
		free(environment->settings.note);
		environment->settings.note = old;
		return error;
	}
	free(old);
	return 0;
}

const char *pg_environment_note(const struct pg_environment *environment)
{
	return environment->settings.note ? environment->settings.note : "";
}

uid_t pg_environment_owner(const struct pg_environment *environment)
{
	return environment->settings.owner;
}

const char *pg_environment_name(const struct pg_environment *environment)
{
	return environment->record.name;
}

size_t pg_environment_member_count(const struct pg_environment *environment)
{
	return pg_place_count(environment);
}

const char *pg_environment_member(const struct pg_environment *environment, size_t index)
{
	return pg_place_path(environment, index);
}

uint64_t pg_environment_member_id(const struct pg_environment *environment, size_t index)
{
	return environment->places[index].id;
}

bool pg_environment_member_gone(const struct pg_environment *environment, size_t index)
{
	return pg_place_is_gone(&environment->places[index]);
}

bool pg_environment_has_resolvers(const struct pg_environment *environment)
{
	const struct pg_settings *settings = &environment->settings;

	return settings->resolver_count + settings->own_resolver_count > 0;
}

bool pg_environment_made(const struct pg_environment *environment)
{
	return environment->record.made;
}

uint64_t pg_environment_id(const struct pg_environment *environment)
{
	return environment->header.env_id;
}

const struct pg_policy *pg_environment_policy(const struct pg_environment *environment)
{
	return environment->content->policy;
}

enum pg_phase pg_environment_phase(const struct pg_environment *environment)
{
	return environment->phase;
}

bool pg_environment_denied(const struct pg_environment *environment)
{
	return environment->state.phase == PG_PHASE_NONE;
}

uint64_t pg_environment_generation(const struct pg_environment *environment)
{
	return environment->state.generation;
}

const struct pg_environment_cost *pg_environment_cost(const struct pg_environment *environment)
{
	return &environment->cost;
}
