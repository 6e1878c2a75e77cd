/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phases that are not in force: one destination that has to be allowed and one that has to be
 * denied, looked up in what the headers of the members name in the kernel.
 */
#include "verify.h"

#include <netinet/in.h>
#include <stdio.h>

/* A destination that the phase lists: its first address or range, or what a name of its has. */
static bool find_listed(const struct pg_environment *environment, enum pg_phase phase,
			struct pg_addr *ret_addr)
{
	const struct pg_entries *entries =
		pg_environment_policy(environment)->phases[phase].entries;

	for (size_t i = 0; entries && i < entries->count; i++) {
		const struct pg_entry *entry = &entries->items[i];

		if (entry->kind == PG_ENTRY_HOST || entry->kind == PG_ENTRY_WILDCARD)
			continue;
		*ret_addr = entry->prefix.addr;
		return true;
	}
	return pg_environment_learned_address(environment, phase, ret_addr);
}

static bool find(const struct pg_config *config, const struct pg_environment *environment,
		 enum pg_phase phase, enum pg_verify_which which, struct pg_addr *ret_addr)
{
	const struct pg_phase_policy *policy = &pg_environment_policy(environment)->phases[phase];

	if (which == PG_VERIFY_BLOCKED) {
		if (pg_verify_find_blocked(policy, true, true, ret_addr))
			return true;
		if (config->never_allow_count)
			*ret_addr = config->never_allow[0].addr;
		return config->never_allow_count;
	}
	/* Anybody will do. */
	if (policy->mode == PG_MODE_PUBLIC)
		return pg_addr_parse("192.0.2.1", ret_addr) == 0 &&
		       !pg_verify_is_forbidden(config, ret_addr);
	return find_listed(environment, phase, ret_addr) &&
	       !pg_verify_is_forbidden(config, ret_addr);
}

static struct pg_verify_judgement look_up(const struct pg_environment *environment,
					  enum pg_phase phase, enum pg_verify_which which,
					  const struct pg_addr *addr)
{
	const struct pg_endpoint endpoint = {.addr = *addr, .port = htons(PG_PORT_HTTPS)};
	struct pg_verify_judgement judgement = {.result = PG_VERIFY_RESULT_INCONCLUSIVE};
	struct pg_error err = {};
	bool allowed;

	if (pg_environment_judge(environment, phase, &endpoint, &allowed, &err) < 0) {
		snprintf(judgement.reason, sizeof(judgement.reason), "%.150s", err.text);
		/* What cannot be looked up is denied, but it is not as it should be. */
		judgement.wrong = true;
		return judgement;
	}
	judgement.result = allowed ? PG_VERIFY_RESULT_ALLOWED : PG_VERIFY_RESULT_DENIED;
	judgement.wrong = allowed != (which == PG_VERIFY_ALLOWED);
	snprintf(judgement.reason, sizeof(judgement.reason), "%s",
		 allowed ? "the kernel's tables for the phase allow it"
			 : "the kernel's tables for the phase do not allow it");
	return judgement;
}

void pg_verify_look_up_phase(const struct pg_config *config,
			     const struct pg_environment *environment, enum pg_phase phase,
			     struct pg_verify_phase *ret_phase)
{
	*ret_phase = (struct pg_verify_phase){0};
	for (size_t i = 0; i < PG_VERIFY_COUNT; i++) {
		__auto_type row = &ret_phase->rows[i];

		row->given = find(config, environment, phase, (enum pg_verify_which)i, &row->addr);
		if (row->given)
			row->judgement =
				look_up(environment, phase, (enum pg_verify_which)i, &row->addr);
	}
}
