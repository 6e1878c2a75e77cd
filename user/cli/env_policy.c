/* SPDX-License-Identifier: Apache-2.0 */
#include "env.h"

#include <errno.h>
#include <stdlib.h>

int pg_env_policy_option(struct pg_env_policy *policy, int option, const char *value,
			 struct pg_error *err)
{
	switch (option) {
	case PG_ENV_POLICY:
		return pg_policy_options_add(&policy->options, value, err);
	case PG_ENV_ALLOW:
		return pg_policy_options_allow(&policy->options, value, err);
	case PG_ENV_ENV_PARAMS:
		policy->options.form = PG_POLICY_ENV_PARAMS;
		return 0;
	default:
		return pg_fail(err, -EINVAL, "an option is not handled");
	}
}

int pg_env_policy_complete(struct pg_env_policy *policy, struct pg_error *err)
{
	const struct pg_policy_options *options = &policy->options;

	if (options->source_count == 0)
		return pg_fail(err, -EINVAL, "a policy is needed: --policy FILE|JSON");
	policy->documents = calloc(options->source_count, sizeof(*policy->documents));
	policy->additions = calloc(options->addition_count + 1, sizeof(*policy->additions));
	if (!policy->documents || !policy->additions)
		return pg_fail(err, -ENOMEM, "not enough memory for the policy");
	for (size_t i = 0; i < options->source_count; i++) {
		if (options->sources[i].size > PG_POLICY_DOCUMENT_MAX)
			return pg_fail(err, -EFBIG, "%s has more than %lu octets",
				       options->sources[i].name,
				       (unsigned long)PG_POLICY_DOCUMENT_MAX);
		policy->documents[i] = options->sources[i].text;
	}
	for (size_t i = 0; i < options->addition_count; i++)
		policy->additions[i] = (struct phasegate_addition){
			.phase = pg_phase_name(options->additions[i].phase),
			.entry = options->additions[i].entry,
		};
	policy->policy = (struct phasegate_policy){
		.documents = policy->documents,
		.document_count = options->source_count,
		.env_params = options->form == PG_POLICY_ENV_PARAMS,
		.additions = policy->additions,
		.addition_count = options->addition_count,
	};
	return 0;
}

void pg_env_policy_clear(struct pg_env_policy *policy)
{
	free(policy->documents);
	free(policy->additions);
	pg_policy_options_clear(&policy->options);
}
