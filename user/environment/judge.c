/* SPDX-License-Identifier: Apache-2.0 */
/* What a phase allows, as the kernel has it: from the members' headers and the tables they name. */
#include "host_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>

#include "base/clock.h"

/* Header and state of the member are this Environment's, with the generation that is known. */
static int read_member(const struct pg_environment *environment, const struct pg_place *place,
		       struct pg_header *ret_header, struct pg_state_value *ret_state,
		       struct pg_error *err)
{
	struct pg_kernel *kernel = environment->host->kernel;
	int error = pg_header_read(kernel, place->id, ret_header, err);

	if (error)
		return error;
	if (ret_header->magic != PG_HEADER_MAGIC || ret_header->cgroup_id != place->id ||
	    ret_header->env_id != environment->header.env_id ||
	    ret_header->state != environment->state_index)
		return pg_fail(err, -EPROTO,
			       "the header of cgroup %" PRIu64 " is not that of the Environment",
			       place->id);
	error = pg_state_read(kernel, ret_header->state, ret_state, err);
	if (error)
		return error;
	if (ret_state->generation != environment->state.generation ||
	    ret_state->phase != environment->state.phase)
		return pg_fail(err, -EPROTO,
			       "the kernel's state is not that of the Environment's generation");
	return 0;
}

static int judge_entries(const struct pg_environment *environment, const struct pg_phase_slot *slot,
			 const struct pg_endpoint *remote, bool *ret_allowed, struct pg_error *err)
{
	if (slot->flags & PG_PHASE_DNS_REDIRECT && remote->port == htons(PG_PORT_DNS))
		return 0;
	switch ((enum pg_mode)slot->mode) {
	case PG_MODE_PUBLIC:
		*ret_allowed = true;
		return 0;
	case PG_MODE_NO_NETWORK:
		return 0;
	case PG_MODE_ALLOWLIST:
		if (!pg_host_opens(environment->host, remote))
			return 0;
		return pg_slot_contains(environment->host->kernel, slot, &remote->addr, ret_allowed,
					err);
	}
	return pg_fail(err, -EPROTO, "a header has a phase of no mode");
}

static int judge_at(const struct pg_environment *environment, const struct pg_place *place,
		    enum pg_phase phase, const struct pg_endpoint *remote, bool *ret_allowed,
		    struct pg_error *err)
{
	struct pg_state_value state;
	struct pg_header header;
	bool forbidden = false;
	int error = read_member(environment, place, &header, &state, err);

	if (!error && header.ceiling_tables) {
		const struct pg_phase_slot ceiling = {.set = header.ceiling,
						      .tables = header.ceiling_tables};

		error = pg_slot_contains(environment->host->kernel, &ceiling, &remote->addr,
					 &forbidden, err);
	}
	if (error || forbidden)
		return error;
	return judge_entries(environment, &header.slots[state.bank][phase], remote, ret_allowed,
			     err);
}

int pg_environment_judge(const struct pg_environment *environment, enum pg_phase phase,
			 const struct pg_endpoint *remote, bool *ret_allowed, struct pg_error *err)
{
	size_t asked = 0, allowing = 0;

	for (size_t i = 0; i < pg_place_count(environment); i++) {
		const struct pg_place *place = &environment->places[i];
		bool allowed = false;
		int error;

		if (!place->in_kernel || pg_place_is_gone(place))
			continue;
		error = judge_at(environment, place, phase, remote, &allowed, err);
		if (error)
			return error;
		asked++;
		allowing += allowed;
	}
	if (!asked)
		return pg_fail(err, -ENOENT, "no member is left");
	if (allowing && allowing != asked)
		return pg_fail(err, -EPROTO, "members of the Environment differ");
	*ret_allowed = allowing;
	return 0;
}

/* The first element of a table of learned addresses that has not expired. */
struct wanted {
	struct pg_addr *addr;
	uint64_t now;
};

static int take_first(void *userdata, const struct pg_addr *addr, uint64_t expires)
{
	const struct wanted *wanted = userdata;

	if (expires <= wanted->now)
		return 0;
	*wanted->addr = *addr;
	return -ECANCELED;
}

bool pg_environment_learned_address(const struct pg_environment *environment, enum pg_phase phase,
				    struct pg_addr *ret_addr)
{
	const struct pg_content *content = environment->content;
	const unsigned int index = content->phase_compiled[phase];
	struct wanted wanted = {ret_addr, pg_boottime_ns()};
	struct pg_error unused = {};

	return index && pg_learned_walk(&content->compiled[index - 1].learned, take_first, &wanted,
					&unused) == -ECANCELED;
}
