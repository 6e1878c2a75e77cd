/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate env: one function for each of its commands, argv[0] being that. */
#pragma once

#include "agent_command.h"
#include "policy_options.h"

int pg_env_create(int argc, char **argv);
int pg_env_list(int argc, char **argv);
int pg_env_show(int argc, char **argv);
int pg_env_phase(int argc, char **argv);
int pg_env_update(int argc, char **argv);
int pg_env_destroy(int argc, char **argv);

/* --policy, --allow and --env-params, as the agent takes them. */
struct pg_env_policy {
	struct pg_policy_options options;
	struct phasegate_policy policy; /* points into .options, and to the arrays below */
	const char **documents;
	struct phasegate_addition *additions;
};
enum pg_env_policy_option {
	PG_ENV_POLICY = PG_OPTION_COMMAND_FIRST,
	PG_ENV_ALLOW,
	PG_ENV_ENV_PARAMS,
	PG_ENV_OPTION_FIRST,
};
#define PG_ENV_POLICY_OPTIONS \
	{"policy", required_argument, NULL, PG_ENV_POLICY}, \
		{"allow", required_argument, NULL, PG_ENV_ALLOW}, \
	{ \
		"env-params", no_argument, NULL, PG_ENV_ENV_PARAMS \
	}
#define PG_ENV_POLICY_HELP \
	"  --policy FILE|JSON        a document, \"-\" for standard input, or the JSON text;\n" \
	"                            a phase field of a later one replaces the whole field\n" \
	"  --allow PHASE=ENTRY       add one entry to a phase of mode allowlist\n" \
	"  --env-params              the policy's fields stand among others\n"

int pg_env_policy_option(struct pg_env_policy *policy, int option, const char *value,
			 struct pg_error *err) PG_MUST_CHECK;
/* After all options: makes .policy. */
int pg_env_policy_complete(struct pg_env_policy *policy, struct pg_error *err) PG_MUST_CHECK;
void pg_env_policy_clear(struct pg_env_policy *policy);

/* "12 s, then deny"; "-": there is none. The caller frees it; NULL: no memory. */
char *pg_env_lease_of(const struct pg_json_value *environment) PG_MUST_CHECK;
/* Of PhaseChange and PolicyChange. */
void pg_env_print_change(const struct pg_json_value *root);
/* Of EnvironmentDetail. */
void pg_env_print_detail(const struct pg_json_value *root);
