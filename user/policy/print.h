/* SPDX-License-Identifier: Apache-2.0 */
/* Policies and diagnostics for people and for machines. */
#pragma once

#include <stdio.h>

#include "policy.h"

/* One object, one line, as `phasegate check --json` documents it. policy may be NULL (errors). */
int pg_policy_print_json(FILE *out, const struct pg_policy *policy,
			 const struct pg_diagnostics *diagnostics,
			 const struct pg_policy_source *sources) PG_MUST_CHECK;

/* The value of one phase in it, as one line without its end. */
int pg_phase_policy_print_json(FILE *out, const struct pg_phase_policy *phase,
			       const struct pg_policy_source *sources) PG_MUST_CHECK;

/*
 * The policy as a document of its own: parsing it gives the same modes and entries. A phase that
 * has what setup has is left out.
 */
int pg_policy_print_document(FILE *out, const struct pg_policy *policy) PG_MUST_CHECK;

/*
 * Three lines "setup_network_mode=public", then one a phase with entry counts and origin, as in
 * "run: 3 entries (2 host, 1 cidr4), document policy.json".
 */
void pg_policy_print(FILE *out, const struct pg_policy *policy,
		     const struct pg_policy_source *sources);

/*
 * One object, one line: {"event":"policy","ok":...}, with the errors of pg_policy_print_json() if
 * it is not ok, and its warnings.
 */
void pg_diagnostics_print_event(FILE *out, bool ok, const struct pg_diagnostics *diagnostics,
				const struct pg_policy_source *sources);

/* One block per diagnostic: pointer, value, message, hint. */
void pg_diagnostics_print(FILE *out, const struct pg_diagnostics *diagnostics,
			  const struct pg_policy_source *sources);
