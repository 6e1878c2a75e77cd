/* SPDX-License-Identifier: Apache-2.0 */
#include "quota.h"

/* Phases that inherit share their entries. */
static size_t count_entries(const struct pg_policy *policy)
{
	size_t count = 0;

	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		const struct pg_entries *entries = policy->phases[i].entries;
		bool shared = false;

		for (size_t j = 0; j < i; j++)
			shared |= policy->phases[j].entries == entries;
		if (entries && !shared)
			count += entries->count;
	}
	return count;
}

int pg_quota_check(const struct pg_agent *agent, uid_t uid, const struct pg_managed *instead,
		   const struct pg_policy *policy, const char *name, struct pg_reply *reply)
{
	const struct pg_config *config = agent->config;
	size_t environments = 1, entries = count_entries(policy);
	const struct pg_managed *managed;

	LIST_FOREACH (managed, &agent->environments, link) {
		if (managed == instead || pg_environment_owner(managed->environment) != uid)
			continue;
		environments++;
		entries += count_entries(pg_environment_policy(managed->environment));
	}
	if (!instead && agent->environment_count >= PG_ENVIRONMENTS_MAX)
		return pg_reply_error(reply, PG_API_TOO_MANY_ENVIRONMENTS, name, NULL,
				      "there are %d Environments already", PG_ENVIRONMENTS_MAX);
	if (!instead && environments > config->environments_per_user)
		return pg_reply_error(reply, PG_API_QUOTA_EXCEEDED, name, NULL,
				      "user %u has %zu Environments already", uid,
				      environments - 1);
	if (entries > config->entries_per_user)
		return pg_reply_error(reply, PG_API_QUOTA_EXCEEDED, name, NULL,
				      "the policies of user %u would have %zu entries, and may"
				      " have %zu together",
				      uid, entries, config->entries_per_user);
	return 0;
}

int pg_quota_check_members(const struct pg_agent *agent, uid_t uid, size_t count, const char *name,
			   struct pg_reply *reply)
{
	const size_t max = agent->config->members_per_user;
	const struct pg_managed *managed;

	LIST_FOREACH (managed, &agent->environments, link)
		if (pg_environment_owner(managed->environment) == uid)
			count += pg_environment_member_count(managed->environment);
	if (count <= max)
		return 0;
	return pg_reply_error(reply, PG_API_QUOTA_EXCEEDED, name, NULL,
			      "the Environments of user %u would have %zu members, and may have %zu"
			      " together",
			      uid, count, max);
}
