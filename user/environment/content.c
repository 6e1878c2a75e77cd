/* SPDX-License-Identifier: Apache-2.0 */
/* What the phases of an Environment allow: from the policy to sets in the kernel. */
#include "dns.h"

#include <netinet/in.h>

#include "base/clock.h"

static int compile_phases(struct pg_environment *environment, struct pg_error *err)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		const struct pg_phase_policy *phase = &environment->policy->phases[i];
		struct pg_compiled *compiled;
		size_t known = 0;
		int error;

		if (!phase->entries)
			continue;
		while (known < environment->compiled_count &&
		       environment->compiled[known].entries != phase->entries)
			known++;
		environment->phase_compiled[i] = (unsigned int)known + 1;
		if (known < environment->compiled_count)
			continue;
		compiled = &environment->compiled[environment->compiled_count++];
		*compiled = (struct pg_compiled){
			.entries = phase->entries,
			.learned.fd = -1,
			.has_names = pg_phase_policy_has_names(phase),
		};
		error = pg_compile_phase(phase, &compiled->addresses, err);
		if (error)
			return pg_error_prefix(err, "compiling the %s phase",
					       pg_phase_name((enum pg_phase)i));
	}
	return 0;
}

static int fill_sets(struct pg_environment *environment, struct pg_error *err)
{
	for (size_t i = 0; i < environment->compiled_count; i++) {
		struct pg_compiled *compiled = &environment->compiled[i];
		const struct pg_address_set *set = &compiled->addresses;
		int error = pg_set_create(environment->host->kernel, set, &compiled->set, err);

		if (error)
			return error;
		environment->cost.addresses += set->exact4_count + set->prefix4_count +
					       set->exact6_count + set->prefix6_count;
	}
	return 0;
}

int pg_content_create(struct pg_environment *environment,
		      const struct pg_environment_options *options, struct pg_error *err)
{
	struct pg_environment_cost *cost = &environment->cost;
	uint64_t start = pg_monotonic_ns();
	int error = compile_phases(environment, err);

	if (error)
		return error;
	cost->compile_ns = pg_monotonic_ns() - start;
	start = pg_monotonic_ns();
	error = fill_sets(environment, err);
	if (error)
		return error;
	cost->fill_ns = pg_monotonic_ns() - start;
	start = pg_monotonic_ns();
	error = pg_dns_create(environment, options, err);
	cost->names_ns = pg_monotonic_ns() - start;
	return error;
}

void pg_content_destroy(struct pg_environment *environment)
{
	pg_dns_destroy(environment);
	for (size_t i = 0; i < environment->compiled_count; i++) {
		pg_set_destroy(environment->host->kernel, &environment->compiled[i].set);
		pg_learned_destroy(environment->host->kernel, &environment->compiled[i].learned);
		pg_address_set_clear(&environment->compiled[i].addresses);
	}
}

void pg_content_describe(const struct pg_environment *environment, struct pg_header *header)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		struct pg_phase_slot *slot = &header->phases[i];
		const struct pg_compiled *compiled;

		slot->mode = (__u8)environment->policy->phases[i].mode;
		if (!environment->phase_compiled[i])
			continue;
		compiled = &environment->compiled[environment->phase_compiled[i] - 1];
		slot->set = compiled->set.slot;
		slot->tables = compiled->set.tables;
		slot->learned = compiled->learned.slot;
	}
}

/* What the phase in force lists; NULL: nothing. */
static const struct pg_compiled *in_force(const struct pg_environment *environment)
{
	const unsigned int index = environment->phase_compiled[environment->header.phase];

	return index ? &environment->compiled[index - 1] : NULL;
}

static bool has_address(const struct pg_environment *environment, const struct pg_addr *addr,
			bool draining)
{
	const struct pg_compiled *compiled = in_force(environment);

	return compiled && (pg_address_set_contains(&compiled->addresses, addr) ||
			    pg_learned_contains(&compiled->learned, addr, draining));
}

bool pg_content_has_address(const struct pg_environment *environment, const struct pg_addr *addr)
{
	return has_address(environment, addr, false);
}

static bool is_listener(const struct pg_header *header, const struct pg_endpoint *remote)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(header->listener); i++)
		if (header->listener[i].port && header->listener[i].port == remote->port &&
		    !pg_addr_compare(&header->listener[i].addr, &remote->addr))
			return true;
	return false;
}

bool pg_content_allows(const struct pg_environment *environment, const struct pg_endpoint *remote)
{
	const struct pg_header *header = &environment->header;
	const struct pg_phase_slot *slot = &header->phases[header->phase];

	if (slot->flags & PG_PHASE_DNS_REDIRECT) {
		if (is_listener(header, remote))
			return true;
		if (remote->port == htons(PG_PORT_DNS))
			return false;
	}
	switch ((enum pg_mode)slot->mode) {
	case PG_MODE_PUBLIC:
		return true;
	case PG_MODE_NO_NETWORK:
		return false;
	case PG_MODE_ALLOWLIST:
		return has_address(environment, &remote->addr, true);
	}
	return false;
}
