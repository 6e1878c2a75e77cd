/* SPDX-License-Identifier: Apache-2.0 */
/* Private to state*.c. */
#pragma once

#include "state.h"

int pg_intent_parse(const char *text, enum pg_intent *ret_intent) PG_MUST_CHECK;
