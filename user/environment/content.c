/* SPDX-License-Identifier: Apache-2.0 */
/* What the phases of an Environment allow: from the policy to sets in the kernel. */
#include "dns.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"

/* sharing: which of the phases have the same list, as phase_compiled; NULL: by the policy. */
static int compile_phases(struct pg_content *content, const unsigned int *sharing,
			  struct pg_error *err)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		const struct pg_phase_policy *phase = &content->policy->phases[i];
		struct pg_compiled *compiled;
		size_t known = 0;
		int error;

		if (!phase->entries)
			continue;
		if (sharing)
			known = sharing[i] - 1;
		else
			while (known < content->compiled_count &&
			       content->compiled[known].entries != phase->entries)
				known++;
		if (known > content->compiled_count)
			return pg_fail(err, -EPROTO, "the state of the %s phase is damaged",
				       pg_phase_name((enum pg_phase)i));
		content->phase_compiled[i] = (unsigned int)known + 1;
		if (known < content->compiled_count)
			continue;
		compiled = &content->compiled[content->compiled_count++];
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

static int fill_sets(struct pg_environment *environment, struct pg_content *content,
		     struct pg_error *err)
{
	const size_t max = environment->settings.dns.addresses_max;

	environment->cost.addresses = 0;
	for (unsigned int i = 0; i < content->compiled_count; i++) {
		struct pg_compiled *compiled = &content->compiled[i];
		const struct pg_address_set *set = &compiled->addresses;
		int error = pg_set_create(environment->host->kernel, set, &compiled->set, err);

		if (error)
			return error;
		environment->cost.addresses += set->v4_count + set->v6_count;
		if (!compiled->has_names)
			continue;
		error = pg_learned_create(environment->host->kernel,
					  pg_names_capacity(content->names, i, max),
					  &compiled->learned, err);
		if (error)
			return error;
	}
	return 0;
}

/* What the headers are to say of it. */
static void describe(struct pg_content *content)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		struct pg_phase_slot *slot = &content->slots[i];
		const struct pg_compiled *compiled;

		slot->mode = (__u8)content->policy->phases[i].mode;
		if (content->names && slot->mode != PG_MODE_NO_NETWORK)
			slot->flags |= PG_PHASE_DNS_REDIRECT;
		if (!content->phase_compiled[i])
			continue;
		compiled = &content->compiled[content->phase_compiled[i] - 1];
		slot->set = compiled->set.slot;
		slot->tables = compiled->set.tables;
		slot->learned = compiled->learned.slot;
	}
}

static int new_content(struct pg_environment *environment, const struct pg_policy *policy,
		       const unsigned int *sharing, struct pg_content **ret_content,
		       struct pg_error *err)
{
	struct pg_content *content = calloc(1, sizeof(*content));
	int error;

	if (content)
		content->policy = pg_policy_copy(policy);
	*ret_content = content;
	if (!content || !content->policy)
		return pg_fail(err, -ENOMEM, "not enough memory for a policy");
	error = compile_phases(content, sharing, err);
	if (!error && pg_policy_has_names(content->policy))
		error = pg_names_new(environment, content, &content->names, err);
	return error;
}

/* The sets are in the kernel. */
static int complete(struct pg_content *content, struct pg_error *err)
{
	int error = content->names ? pg_names_open_book(content, err) : 0;

	if (!error)
		describe(content);
	return error;
}

int pg_content_create(struct pg_environment *environment, const struct pg_policy *policy,
		      struct pg_content **ret_content, struct pg_error *err)
{
	struct pg_environment_cost *cost = &environment->cost;
	uint64_t start = pg_monotonic_ns();
	struct pg_content *content;
	int error = new_content(environment, policy, NULL, &content, err);

	cost->compile_ns = pg_monotonic_ns() - start;
	start = pg_monotonic_ns();
	if (!error)
		error = fill_sets(environment, content, err);
	cost->fill_ns = pg_monotonic_ns() - start;
	pg_host_tidy_soon(environment->host);
	if (!error)
		error = complete(content, err);
	if (error) {
		pg_content_free(environment, content, false);
		return error;
	}
	*ret_content = content;
	return 0;
}

/* The sets are in the kernel, and the slots in use already. */
static void take_sets(struct pg_content *content, const struct pg_saved_bank *bank,
		      struct pg_kernel_learned *learned)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		struct pg_compiled *compiled;

		if (!content->phase_compiled[i])
			continue;
		compiled = &content->compiled[content->phase_compiled[i] - 1];
		compiled->set.slot = bank->slots[i].set;
		compiled->set.id = bank->set_ids[i];
		compiled->set.tables = bank->slots[i].tables;
		if (!learned[i].slot)
			continue;
		pg_close_fd(&compiled->learned.fd);
		compiled->learned = learned[i];
		learned[i] = (struct pg_kernel_learned){.fd = -1};
	}
}

int pg_content_adopt(struct pg_environment *environment, const struct pg_policy *policy,
		     const struct pg_saved_bank *bank, struct pg_kernel_learned *learned,
		     struct pg_content **ret_content, struct pg_error *err)
{
	struct pg_content *content;
	int error = new_content(environment, policy, bank->compiled, &content, err);

	if (!error) {
		take_sets(content, bank, learned);
		error = complete(content, err);
	}
	if (!error && content->names)
		error = pg_names_recall(content, err);
	if (error) {
		pg_content_free(environment, content, true);
		return error;
	}
	*ret_content = content;
	return 0;
}

void pg_content_free(struct pg_environment *environment, struct pg_content *content, bool keep)
{
	struct pg_kernel *kernel = environment->host->kernel;

	if (!content)
		return;
	pg_names_free(content->names);
	for (size_t i = 0; i < content->compiled_count; i++) {
		struct pg_compiled *compiled = &content->compiled[i];

		if (!keep) {
			pg_set_destroy(kernel, &compiled->set);
			pg_learned_destroy(kernel, &compiled->learned);
		}
		pg_close_fd(&compiled->learned.fd);
		pg_address_set_clear(&compiled->addresses);
	}
	if (!keep)
		pg_host_tidy_soon(environment->host);
	pg_policy_free(content->policy);
	free(content);
}

void pg_content_save(const struct pg_content *content, struct pg_saved_bank *bank)
{
	*bank = (struct pg_saved_bank){.there = true};
	memcpy(bank->compiled, content->phase_compiled, sizeof(bank->compiled));
	memcpy(bank->slots, content->slots, sizeof(bank->slots));
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		const struct pg_compiled *compiled;

		if (!content->phase_compiled[i])
			continue;
		compiled = &content->compiled[content->phase_compiled[i] - 1];
		bank->set_ids[i] = compiled->set.id;
		bank->learned_ids[i] = compiled->learned.id;
	}
}

const struct pg_phase_slot *pg_content_slot(const struct pg_environment *environment)
{
	static const struct pg_phase_slot nothing = {.mode = PG_MODE_NO_NETWORK};

	return environment->state.phase == PG_PHASE_NONE
		       ? &nothing
		       : &environment->content->slots[environment->state.phase];
}

const struct pg_compiled *pg_content_list(const struct pg_environment *environment)
{
	const struct pg_content *content = environment->content;
	unsigned int index;

	if (environment->state.phase == PG_PHASE_NONE)
		return NULL;
	index = content->phase_compiled[environment->state.phase];
	return index ? &content->compiled[index - 1] : NULL;
}

static bool has_address(const struct pg_environment *environment, const struct pg_addr *addr,
			bool draining)
{
	const struct pg_compiled *compiled = pg_content_list(environment);

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
	const struct pg_phase_slot *slot = pg_content_slot(environment);

	if (slot->flags & PG_PHASE_DNS_REDIRECT) {
		if (is_listener(&environment->header, remote))
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
		return has_address(environment, &remote->addr, true) &&
		       pg_host_opens(environment->host, remote);
	}
	return false;
}
