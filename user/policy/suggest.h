/* SPDX-License-Identifier: Apache-2.0 */
/* What a word that is not known was meant to be. Private to this folder. */
#pragma once

#include <stddef.h>

/* The mode that text means but for capitals, "_" or " " instead of "-", or a slip; or NULL. */
const char *pg_suggest_mode(const char *text, const char *const *modes, size_t count);

/*
 * The key that text means but for capitals and what separates its words (runNetworkPolicy,
 * RUN-NETWORK-POLICY), or but for a slip; or NULL.
 */
const char *pg_suggest_key(const char *text, const char *const *keys, size_t count);
