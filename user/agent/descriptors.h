/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation that runs out of descriptors in the middle needs some to undo what it has done. So
 * it is refused before it begins where there are too few left.
 */
#pragma once

#include <phasegate/abi/hook.h>

#include "agent.h"

/* Of a member: its cgroup, a link for each hook, namespaces, and what is read in /proc. Besides:
 * records, sockets for names, a probe. */
#define PG_DESCRIPTORS_TO_MAKE(members) (64 + (size_t)(members) * (PG_HOOK_COUNT + 16))
/* It gives back more than it takes. */
#define PG_DESCRIPTORS_TO_DESTROY	24

/* -EINVAL: there are fewer; the error is in reply. */
int pg_descriptors_check(const struct pg_agent *agent, size_t count, const char *object,
			 struct pg_reply *reply) PG_MUST_CHECK;
