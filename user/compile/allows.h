/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing what phases allow. Pure. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "policy/policy.h"

/*
 * Whether a allows no destination that b does not, as far as that follows from the policy: of names
 * it is not known which addresses they have. false in doubt, and without memory.
 */
bool pg_phase_allows_no_more(const struct pg_phase_policy *a, const struct pg_phase_policy *b);

/* Whether every name and wildcard of a is one of b, or under one. false in doubt. */
bool pg_entries_have_names(const struct pg_entries *a, const struct pg_entries *b);

/* The same for two phases of a policy. */
static inline bool pg_policy_allows_no_more(const struct pg_policy *policy, enum pg_phase a,
					    enum pg_phase b)
{
	return pg_phase_allows_no_more(&policy->phases[a], &policy->phases[b]);
}
