/* SPDX-License-Identifier: Apache-2.0 */
/* --policy, --allow and --env-params, which `check` and `run` share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "policy/policy.h"

struct pg_policy_options {
	struct pg_policy_source *sources; /* texts are owned */
	size_t source_count;
	struct pg_policy_addition *additions;
	size_t addition_count;
	enum pg_policy_form form;
};

/*
 * Adds one --policy: a file name, "-" for standard input, or, if its first character that is not
 * white space is '{', the document itself. Limits the size to PG_POLICY_DOCUMENT_MAX (a larger one
 * is kept one byte over the limit, so that the parser reports it with its own code).
 */
int pg_policy_options_add(struct pg_policy_options *options, const char *argument,
			  struct pg_error *err) PG_MUST_CHECK;

/* Adds one --allow PHASE=ENTRY. */
int pg_policy_options_allow(struct pg_policy_options *options, const char *argument,
			    struct pg_error *err) PG_MUST_CHECK;

/*
 * Parses what was collected and logs: the three *_network_mode fields at INFO, the full resolved
 * policies at DEBUG (one JSON line a phase).
 */
int pg_policy_options_load(const struct pg_policy_options *options, struct pg_policy **ret_policy,
			   struct pg_diagnostics *diagnostics) PG_MUST_CHECK;

void pg_policy_options_clear(struct pg_policy_options *options);
