/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate env create, and update, which takes a policy too. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"

/* As the API has it. */
#define MEMBERS_MAX 64
/* More than there are. */
#define ACCEPT_MAX  64

enum create_option {
	CREATE_CGROUP = PG_ENV_OPTION_FIRST,
	CREATE_PID,
	CREATE_CONTAINER,
	CREATE_RUNTIME,
	CREATE_ATTACH,
	CREATE_PHASE,
	CREATE_VERIFIER,
	CREATE_MEMBER_TRAFFIC,
	CREATE_DNS,
	CREATE_NO_DENIALS,
	CREATE_ACCEPT,
	UPDATE_EXPECT,
};

static const struct option create_options[] = {
	PG_ENV_POLICY_OPTIONS,
	{"cgroup", required_argument, NULL, CREATE_CGROUP},
	{"pid", required_argument, NULL, CREATE_PID},
	{"container", required_argument, NULL, CREATE_CONTAINER},
	{"runtime", required_argument, NULL, CREATE_RUNTIME},
	{"attach", no_argument, NULL, CREATE_ATTACH},
	{"phase", required_argument, NULL, CREATE_PHASE},
	{"verifier", required_argument, NULL, CREATE_VERIFIER},
	{"member-traffic", required_argument, NULL, CREATE_MEMBER_TRAFFIC},
	{"dns-settings", required_argument, NULL, CREATE_DNS},
	{"no-denial-events", no_argument, NULL, CREATE_NO_DENIALS},
	{"accept", required_argument, NULL, CREATE_ACCEPT},
	PG_AGENT_OPTIONS,
	{},
};

struct create {
	struct pg_env_policy policy;
	struct phasegate_create wanted;
	struct phasegate_member members[MEMBERS_MAX];
	const char *accept[ACCEPT_MAX];
	const char *runtime;
};

static int add_member(struct create *create, struct phasegate_member member, struct pg_error *err)
{
	if (create->wanted.member_count == MEMBERS_MAX)
		return pg_fail(err, -E2BIG, "an Environment has at most %d members", MEMBERS_MAX);
	create->members[create->wanted.member_count++] = member;
	return 0;
}

static int add_pid(struct create *create, const char *value, struct pg_error *err)
{
	struct phasegate_member member = {0};
	int error = pg_agent_number("--pid", value, INT32_MAX, &member.pid, err);

	return error ? error : add_member(create, member, err);
}

static int add_accept(struct create *create, const char *value, struct pg_error *err)
{
	if (create->wanted.accept_count == ACCEPT_MAX)
		return pg_fail(err, -E2BIG, "--accept is given too often");
	create->accept[create->wanted.accept_count++] = value;
	return 0;
}

static int create_option(void *userdata, int option, const char *value, struct pg_error *err)
{
	static const char *const places[] = {"host", "same", "new", NULL};
	static const char *const traffic[] = {"allow", "deny", NULL};
	static const char *const runtimes[] = {"docker", "podman", "containerd", NULL};
	struct create *create = userdata;
	struct phasegate_create *wanted = &create->wanted;

	switch (option) {
	case CREATE_CGROUP:
		return add_member(create, (struct phasegate_member){.cgroup = value}, err);
	case CREATE_PID:
		return add_pid(create, value, err);
	case CREATE_CONTAINER:
		return add_member(create, (struct phasegate_member){.container = value}, err);
	case CREATE_RUNTIME:
		return pg_agent_word("--runtime", value, runtimes, &create->runtime, err);
	case CREATE_ATTACH:
		wanted->attach = true;
		return 0;
	case CREATE_PHASE:
		return pg_agent_word("--phase", value, pg_agent_phases, &wanted->phase, err);
	case CREATE_VERIFIER:
		return pg_agent_word("--verifier", value, places, &wanted->verifier, err);
	case CREATE_MEMBER_TRAFFIC:
		return pg_agent_word("--member-traffic", value, traffic, &wanted->member_traffic,
				     err);
	case CREATE_DNS:
		wanted->dns = value;
		return 0;
	case CREATE_NO_DENIALS:
		wanted->omit_denials = true;
		return 0;
	case CREATE_ACCEPT:
		return add_accept(create, value, err);
	default:
		return pg_env_policy_option(&create->policy, option, value, err);
	}
}

static int create_check(const struct pg_agent_call *call, struct pg_error *err)
{
	struct create *create = call->wanted;
	int error = pg_env_policy_complete(&create->policy, err);

	if (error)
		return error;
	for (size_t i = 0; i < create->wanted.member_count; i++)
		if (create->members[i].container)
			create->members[i].runtime = create->runtime;
	create->wanted.name = call->arguments[0];
	create->wanted.members = create->members;
	create->wanted.accept = create->accept;
	create->wanted.policy = create->policy.policy;
	return 0;
}

static int create_run(struct pg_agent_call *call)
{
	struct create *create = call->wanted;
	char *text = NULL;

	if (phasegate_create(call->client, &create->wanted, NULL, &text, &call->error) < 0)
		return pg_agent_failed(call);
	return pg_agent_answer(call, text, pg_env_print_detail, PG_EXIT_OK);
}

int pg_env_create(int argc, char **argv)
{
	static const struct pg_agent_command command = {
		.name = "env create",
		.synopsis = "NAME --policy FILE|JSON [OPTION]...",
		.summary = "Creates an Environment, whose phase is in force when this returns. The "
			   "same again\n"
			   "finds it. Without members it gets a new cgroup, which is printed, for "
			   "containers\n"
			   "to be started in.",
		.details = PG_ENV_POLICY_HELP
		"  --cgroup PATH             a member: a cgroup, absolute below the cgroup2 mount\n"
		"  --pid PID                 a member: the cgroup of a process\n"
		"  --container NAME          a member: a running container\n"
		"  --runtime RUNTIME         docker, podman or containerd (default: whichever has "
		"it)\n"
		"  --attach                  cgroups may have processes; until the phase is in "
		"force\n"
		"                            they are denied everything\n"
		"  --phase PHASE             setup (default), run or verifier\n"
		"  --verifier PLACE          where verification runs: host, same (default) or new\n"
		"  --member-traffic WORD     allow (default) or deny members to reach each "
		"other\n"
		"  --dns-settings JSON       how names are treated, an object as the API has it\n"
		"  --no-denial-events        denials are counted, and are no events\n"
		"  --accept EXPOSURE         make it although a member has this, by its id; may be "
		"given\n"
		"                            several times\n",
		.least = 1,
		.most = 1,
		.options = create_options,
		.option = create_option,
		.check = create_check,
		.run = create_run,
	};
	struct create create = {.runtime = NULL};
	const int status = pg_agent_command(&command, &create, argc, argv);

	pg_env_policy_clear(&create.policy);
	return status;
}

static const struct option update_options[] = {
	PG_ENV_POLICY_OPTIONS,
	{"expect-generation", required_argument, NULL, UPDATE_EXPECT},
	PG_AGENT_OPTIONS,
	{},
};

struct update {
	struct pg_env_policy policy;
	uint64_t expected_generation;
};

static int update_option(void *userdata, int option, const char *value, struct pg_error *err)
{
	struct update *update = userdata;

	if (option == UPDATE_EXPECT)
		return pg_agent_number("--expect-generation", value, PG_JSON_NUMBER_MAX,
				       &update->expected_generation, err);
	return pg_env_policy_option(&update->policy, option, value, err);
}

static int update_check(const struct pg_agent_call *call, struct pg_error *err)
{
	struct update *update = call->wanted;

	return pg_env_policy_complete(&update->policy, err);
}

static int update_run(struct pg_agent_call *call)
{
	struct update *update = call->wanted;
	char *text = NULL;

	if (phasegate_update(call->client, call->arguments[0], &update->policy.policy,
			     update->expected_generation, NULL, &text, &call->error) < 0)
		return pg_agent_failed(call);
	return pg_agent_answer(call, text, pg_env_print_change, PG_EXIT_OK);
}

int pg_env_update(int argc, char **argv)
{
	static const struct pg_agent_command command = {
		.name = "env update",
		.synopsis = "NAME --policy FILE|JSON [OPTION]...",
		.summary = "Puts another policy in force, in the same phase, by one write. On "
			   "failure the old\n"
			   "one stays.",
		.details = PG_ENV_POLICY_HELP
		"  --expect-generation N     only if this generation is in force\n",
		.least = 1,
		.most = 1,
		.options = update_options,
		.option = update_option,
		.check = update_check,
		.run = update_run,
	};
	struct update update = {.expected_generation = PHASEGATE_ANY_GENERATION};
	const int status = pg_agent_command(&command, &update, argc, argv);

	pg_env_policy_clear(&update.policy);
	return status;
}
