/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <errno.h>
#include <string.h>

#include "command.h"

enum run_option {
	RUN_POLICY = PG_OPTION_COMMAND_FIRST,
	RUN_ALLOW,
	RUN_ENV_PARAMS,
	RUN_PHASE,
	RUN_CGROUP,
	RUN_RESOLVER,
	RUN_RESOLV_CONF,
	RUN_HOSTS,
	RUN_DNS,
	RUN_KEEP,
	RUN_JSON,
	/* One for each phase, in the order of enum pg_phase. */
	RUN_SCRIPT,
};

static const struct option long_options[] = {
	{"policy", required_argument, NULL, RUN_POLICY},
	{"allow", required_argument, NULL, RUN_ALLOW},
	{"env-params", no_argument, NULL, RUN_ENV_PARAMS},
	{"phase", required_argument, NULL, RUN_PHASE},
	{"cgroup", required_argument, NULL, RUN_CGROUP},
	{"resolver", required_argument, NULL, RUN_RESOLVER},
	{"resolv-conf", required_argument, NULL, RUN_RESOLV_CONF},
	{"hosts", required_argument, NULL, RUN_HOSTS},
	{"dns", required_argument, NULL, RUN_DNS},
	{"keep", required_argument, NULL, RUN_KEEP},
	{"json", no_argument, NULL, RUN_JSON},
	{"setup", required_argument, NULL, RUN_SCRIPT + PG_PHASE_SETUP},
	{"run", required_argument, NULL, RUN_SCRIPT + PG_PHASE_RUN},
	{"verify", required_argument, NULL, RUN_SCRIPT + PG_PHASE_VERIFIER},
	PG_COMMON_OPTIONS,
	{},
};

static int set_phase(struct run_options *options, const char *value, struct pg_error *err)
{
	if (options->phase_given)
		return pg_fail(err, -EINVAL, "--phase is given twice");
	options->phase_given = true;
	if (pg_phase_parse(value, &options->phase))
		return pg_fail(err, -EINVAL, "--phase %s: the phases are setup, run and verifier",
			       value);
	return 0;
}

/* The later of two would take effect alone, and a step would be missing. */
static int set_once(const char **text, const char *value, const char *option, struct pg_error *err)
{
	if (*text)
		return pg_fail(err, -EINVAL, "%s is given twice", option);
	*text = value;
	return 0;
}

static int set_keep(struct run_options *options, const char *value, struct pg_error *err)
{
	static const char *const names[] = {
#define PG_X(symbol, name, text) [PG_KEEP_##symbol] = name,
		PG_KEEPS(PG_X)
#undef PG_X
	};
	const bool all = !strcmp(value, "all");
	bool known = all;

	for (size_t i = 0; i < PG_KEEP_COUNT; i++) {
		if (!all && strcmp(value, names[i]) != 0)
			continue;
		options->workload.keep[i] = true;
		known = true;
	}
	return known ? 0
		     : pg_fail(err, -EINVAL,
			       "--keep %s: what can be kept is net-raw, net-admin, syscalls, or "
			       "all",
			       value);
}

static int parse_option(struct run_options *options, int option, char *value, struct pg_error *err)
{
	switch (option) {
	case RUN_POLICY:
		return pg_policy_options_add(&options->policy, value, err);
	case RUN_ALLOW:
		return pg_policy_options_allow(&options->policy, value, err);
	case RUN_ENV_PARAMS:
		options->policy.form = PG_POLICY_ENV_PARAMS;
		return 0;
	case RUN_PHASE:
		return set_phase(options, value, err);
	case RUN_CGROUP:
		return set_once(&options->cgroup, value, "--cgroup", err);
	case RUN_RESOLVER:
		return pg_dns_options_resolver(&options->dns, value, err);
	case RUN_RESOLV_CONF:
		return set_once(&options->dns.resolv_conf, value, "--resolv-conf", err);
	case RUN_HOSTS:
		return pg_dns_options_hosts(&options->dns, value, err);
	case RUN_DNS:
		return pg_dns_options_setting(&options->dns, value, err);
	case RUN_KEEP:
		return set_keep(options, value, err);
	case RUN_JSON:
		options->json = true;
		return 0;
	case RUN_SCRIPT + PG_PHASE_SETUP:
		return set_once(&options->scripts[PG_PHASE_SETUP], value, "--setup", err);
	case RUN_SCRIPT + PG_PHASE_RUN:
		return set_once(&options->scripts[PG_PHASE_RUN], value, "--run", err);
	case RUN_SCRIPT + PG_PHASE_VERIFIER:
		return set_once(&options->scripts[PG_PHASE_VERIFIER], value, "--verify", err);
	case PG_OPTION_HELP:
		options->help = true;
		return 0;
	default:
		return pg_common_option(option, value, err);
	}
}

/* Either one command, or a script for some of the phases. */
static int choose_commands(struct run_options *options, char **arguments, struct pg_error *err)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		char **argv = options->shell_argv[i];

		if (!options->scripts[i])
			continue;
		argv[0] = (char *)"/bin/sh";
		argv[1] = (char *)"-c";
		argv[2] = (char *)options->scripts[i];
		options->commands[options->command_count++] =
			(struct run_command){(enum pg_phase)i, argv};
	}
	if (options->command_count && (arguments[0] || options->phase_given))
		return pg_fail(err, -EINVAL,
			       "--setup, --run and --verify exclude a COMMAND and --phase;"
			       " phasegate run --help explains");
	if (options->command_count) {
		options->phase = PG_PHASE_SETUP;
		options->restore = true;
		return 0;
	}
	if (!arguments[0])
		return pg_fail(err, -EINVAL,
			       "run needs a command after \"--\", or --setup, --run or --verify;"
			       " phasegate run --help explains");
	options->commands[options->command_count++] =
		(struct run_command){options->phase, arguments};
	return 0;
}

/* What is wrong with one option is said in JSON, also if --json only follows it. */
static bool wants_json(char **argv)
{
	for (; *argv && strcmp(*argv, "--") != 0; argv++)
		if (!strcmp(*argv, "--json"))
			return true;
	return false;
}

int run_options_parse(struct run_options *options, int argc, char **argv, struct pg_error *err)
{
	int option, error = 0;

	/* "+": what follows the first other argument belongs to the command. */
	while (!error && (option = pg_next_option(argc, argv, "+", long_options, err)) != -1)
		error = option < 0 ? option : parse_option(options, option, optarg, err);
	if (error)
		options->json = options->json || wants_json(argv);
	if (error || options->help)
		return error;
	if (!options->policy.source_count)
		return pg_fail(err, -EINVAL,
			       "run needs a --policy FILE or --policy JSON; phasegate run --help"
			       " explains");
	error = choose_commands(options, argv + optind, err);
	return error ? error : pg_common_options_done(err);
}

void run_options_clear(struct run_options *options)
{
	pg_policy_options_clear(&options->policy);
	pg_workload_clear(&options->workload);
}
