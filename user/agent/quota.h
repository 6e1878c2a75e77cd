/* SPDX-License-Identifier: Apache-2.0 */
/* What one user may have of what all users share; root is a user like others. */
#pragma once

#include "agent.h"

/*
 * Whether the user may have an Environment with this policy; instead of one that is there, or as
 * one more (NULL). -EINVAL: the error is in reply.
 */
int pg_quota_check(const struct pg_agent *agent, uid_t uid, const struct pg_managed *instead,
		   const struct pg_policy *policy, const char *name,
		   struct pg_reply *reply) PG_MUST_CHECK;

/* Whether the user may have that many members more. */
int pg_quota_check_members(const struct pg_agent *agent, uid_t uid, size_t count, const char *name,
			   struct pg_reply *reply) PG_MUST_CHECK;
