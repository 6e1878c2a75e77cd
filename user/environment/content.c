/* SPDX-License-Identifier: Apache-2.0 */
/* What the phases of an Environment allow: from the policy to sets in the kernel. */
#include "host_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"

/* Room for addresses learned per name; rotating names have dozens at a time. */
#define LEARNED_PER_NAME 64
#define LEARNED_MIN	 4096
#define LEARNED_MAX	 1048576
/* Names without an address that are warned of one by one. */
#define UNRESOLVED_SHOWN 10

static int refuse_wildcards(const struct pg_policy *policy, struct pg_error *err)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		const struct pg_entries *entries = policy->phases[i].entries;

		for (size_t j = 0; entries && j < entries->count; j++) {
			if (entries->items[j].kind != PG_ENTRY_WILDCARD)
				continue;
			return pg_fail(
				err, -EOPNOTSUPP,
				"the entry \"*.%s\" of the %s phase is a wildcard, which this"
				" version cannot enforce yet: list the host names instead",
				entries->items[j].name, pg_phase_name((enum pg_phase)i));
		}
	}
	return 0;
}

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
		size_t capacity = 0;
		int error = pg_set_create(environment->host->kernel, set, &compiled->set, err);

		if (error)
			return error;
		environment->cost.addresses += set->exact4_count + set->prefix4_count +
					       set->exact6_count + set->prefix6_count;
		if (!compiled->has_names)
			continue;
		capacity = compiled->entries->count * LEARNED_PER_NAME;
		capacity = capacity < LEARNED_MIN ? LEARNED_MIN : capacity;
		capacity = capacity > LEARNED_MAX ? LEARNED_MAX : capacity;
		error = pg_learned_create(environment->host->kernel, capacity, &compiled->learned,
					  err);
		if (error)
			return error;
	}
	return 0;
}

static int compare_wanted(const void *a, const void *b)
{
	const struct pg_wanted_name *first = a, *second = b;

	return strcmp(first->name, second->name);
}

static size_t merge_wanted(struct pg_wanted_name *wanted, size_t count)
{
	size_t kept = 0;

	if (!count)
		return 0;
	qsort(wanted, count, sizeof(*wanted), compare_wanted);
	for (size_t i = 1; i < count; i++) {
		if (!strcmp(wanted[i].name, wanted[kept].name))
			wanted[kept].compiled |= wanted[i].compiled;
		else
			wanted[++kept] = wanted[i];
	}
	return kept + 1;
}

/* The names of all phases, each once. */
static int collect_names(struct pg_environment *environment, struct pg_error *err)
{
	size_t count = 0;

	for (size_t i = 0; i < environment->compiled_count; i++)
		if (environment->compiled[i].has_names)
			count += environment->compiled[i].entries->count;
	if (!count)
		return 0;
	environment->wanted = calloc(count, sizeof(*environment->wanted));
	environment->wanted_names = calloc(count, sizeof(*environment->wanted_names));
	if (!environment->wanted || !environment->wanted_names)
		return pg_fail(err, -ENOMEM, "not enough memory for %zu names", count);
	count = 0;
	for (size_t i = 0; i < environment->compiled_count; i++) {
		const struct pg_entries *entries = environment->compiled[i].entries;

		for (size_t j = 0; j < entries->count; j++)
			if (entries->items[j].kind == PG_ENTRY_HOST &&
			    strcmp(entries->items[j].name, "localhost") != 0)
				environment->wanted[count++] =
					(struct pg_wanted_name){.name = entries->items[j].name,
								.compiled = 1U << i};
	}
	environment->wanted_count = merge_wanted(environment->wanted, count);
	for (size_t i = 0; i < environment->wanted_count; i++)
		environment->wanted_names[i] = environment->wanted[i].name;
	return 0;
}

static int store_learned(void *userdata, size_t name, const struct pg_addr *addr, uint32_t ttl)
{
	struct pg_environment *environment = userdata;
	struct pg_wanted_name *wanted = &environment->wanted[name];
	const uint64_t seconds =
		(ttl > PG_LEARNED_FLOOR_S ? ttl : PG_LEARNED_FLOOR_S) + PG_LEARNED_GRACE_S;
	const uint64_t expires = pg_boottime_ns() + seconds * PG_NSEC_PER_SEC;
	struct pg_error err = {};

	for (size_t i = 0; i < environment->compiled_count; i++) {
		struct pg_compiled *compiled = &environment->compiled[i];
		int error;

		if (!(wanted->compiled & 1U << i))
			continue;
		error = pg_learned_add(&compiled->learned, addr, expires, &err);
		if (error && !wanted->warned) {
			wanted->warned = true;
			pg_error_prefix(&err, "%s (further addresses of it are not reported)",
					wanted->name);
			pg_host_warn(environment->host, "learned_full", err.text);
		}
		if (error)
			return error;
	}
	return 0;
}

static int process_names(void *userdata, struct pg_error *err)
{
	struct pg_environment *environment = userdata;

	return pg_names_process(environment->names, err);
}

/* A list of thousands may be at fault for one reason, so a few of them say it. */
static void warn_unresolved(const struct pg_environment *environment, size_t unresolved)
{
	char message[512];
	size_t shown = 0;

	for (size_t i = 0; shown < unresolved && i < environment->wanted_count; i++) {
		const char *failure = pg_names_failure(environment->names, i);

		if (!failure)
			continue;
		if (shown == UNRESOLVED_SHOWN) {
			snprintf(message, sizeof(message), "%zu more names have no address",
				 unresolved - shown);
			pg_host_warn(environment->host, "unresolved", message);
			return;
		}
		snprintf(message, sizeof(message), "%s has no address: %s",
			 environment->wanted[i].name, failure);
		pg_host_warn(environment->host, "unresolved", message);
		shown++;
	}
}

static int load_names(struct pg_environment *environment,
		      const struct pg_environment_options *options, struct pg_error *err)
{
	int error;

	if (!environment->wanted_count)
		return 0;
	if (!options->resolver_count)
		return pg_fail(err, -EINVAL,
			       "the policy has host names, but no resolver is given to ask for"
			       " their addresses");
	error = pg_names_new(options->resolvers, options->resolver_count, environment->wanted_names,
			     environment->wanted_count, store_learned, environment,
			     &environment->names, err);
	if (error)
		return error;
	error = pg_names_load(environment->names, PG_NAMES_LOAD_MS, environment->host->interrupt_fd,
			      err);
	if (error < 0)
		return error;
	warn_unresolved(environment, (size_t)error);
	environment->names_source = (struct pg_source){process_names, environment};
	return pg_host_add_source(environment->host, pg_names_fd(environment->names),
				  &environment->names_source, err);
}

int pg_content_create(struct pg_environment *environment,
		      const struct pg_environment_options *options, struct pg_error *err)
{
	struct pg_environment_cost *cost = &environment->cost;
	uint64_t start = pg_monotonic_ns();
	int error = refuse_wildcards(environment->policy, err);

	if (!error)
		error = compile_phases(environment, err);
	if (error)
		return error;
	cost->compile_ns = pg_monotonic_ns() - start;
	start = pg_monotonic_ns();
	error = fill_sets(environment, err);
	if (error)
		return error;
	cost->fill_ns = pg_monotonic_ns() - start;
	start = pg_monotonic_ns();
	error = collect_names(environment, err);
	if (!error)
		error = load_names(environment, options, err);
	cost->names_ns = pg_monotonic_ns() - start;
	return error;
}

void pg_content_destroy(struct pg_environment *environment)
{
	if (environment->names)
		pg_host_remove_source(environment->host, pg_names_fd(environment->names));
	pg_names_free(environment->names);
	free(environment->wanted);
	free(environment->wanted_names);
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
		slot->flags = compiled->has_names ? PG_PHASE_DNS_RESOLVER : 0;
	}
}

static bool is_resolver(const struct pg_header *header, uint8_t protocol,
			const struct pg_endpoint *remote)
{
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return false;
	for (size_t i = 0; i < PG_RESOLVER_MAX; i++)
		if (header->resolvers[i].port && header->resolvers[i].port == remote->port &&
		    !pg_addr_compare(&header->resolvers[i].addr, &remote->addr))
			return true;
	return false;
}

bool pg_content_allows(const struct pg_environment *environment, uint8_t protocol,
		       const struct pg_endpoint *remote)
{
	const struct pg_header *header = &environment->header;
	const unsigned int index = environment->phase_compiled[header->phase];
	const struct pg_compiled *compiled;

	switch ((enum pg_mode)header->phases[header->phase].mode) {
	case PG_MODE_PUBLIC:
		return true;
	case PG_MODE_NO_NETWORK:
		return false;
	case PG_MODE_ALLOWLIST:
		break;
	}
	if (!index)
		return false;
	compiled = &environment->compiled[index - 1];
	return pg_address_set_contains(&compiled->addresses, &remote->addr) ||
	       pg_learned_contains(&compiled->learned, &remote->addr, true) ||
	       (compiled->has_names && is_resolver(header, protocol, remote));
}
