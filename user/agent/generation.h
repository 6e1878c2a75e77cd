/* SPDX-License-Identifier: Apache-2.0 */
/* expected_generation: a change only of what its caller has seen. */
#pragma once

#include <stdint.h>

#include "managed.h"
#include "reply.h"

#define PG_ANY_GENERATION UINT64_MAX

/* -EINVAL: it is another; the error, with phase and generation in force, is in reply. */
int pg_check_generation(const struct pg_managed *managed, uint64_t expected,
			struct pg_reply *reply) PG_MUST_CHECK;
