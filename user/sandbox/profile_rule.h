/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder: one rule of a profile. */
#pragma once

#include <cjson/cJSON.h>

#include "base/error.h"

/*
 * Adds to rules what the rule says without allowing what pg_profile_deny() denies: a rule that
 * allows sockets becomes one for each family. -EINVAL: it is none.
 */
int pg_profile_restrict_rule(cJSON *rules, const cJSON *rule, struct pg_error *err) PG_MUST_CHECK;

/* Adds the denials to rules; what the base kills for stays so. */
int pg_profile_deny(cJSON *rules, const cJSON *base, struct pg_error *err) PG_MUST_CHECK;
