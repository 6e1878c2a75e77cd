/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>

#include "dns/names.h"

#include "command.h"

enum run_option {
	RUN_POLICY = PG_OPTION_COMMAND_FIRST,
	RUN_ALLOW,
	RUN_ENV_PARAMS,
	RUN_PHASE,
	RUN_CGROUP,
	RUN_RESOLVER,
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
	{"json", no_argument, NULL, RUN_JSON},
	{"setup", required_argument, NULL, RUN_SCRIPT + PG_PHASE_SETUP},
	{"run", required_argument, NULL, RUN_SCRIPT + PG_PHASE_RUN},
	{"verify", required_argument, NULL, RUN_SCRIPT + PG_PHASE_VERIFIER},
	PG_COMMON_OPTIONS,
	{},
};

static int add_resolver(struct run_options *options, const char *value, struct pg_error *err)
{
	if (options->resolver_count == PG_RESOLVER_MAX)
		return pg_fail(err, -E2BIG, "at most %d --resolver options are used",
			       PG_RESOLVER_MAX);
	if (pg_endpoint_parse(value, PG_PORT_DNS, &options->resolvers[options->resolver_count]))
		return pg_fail(err, -EINVAL,
			       "--resolver %s: give an address, with a port if it is not 53:"
			       " 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:5353",
			       value);
	options->resolver_count++;
	return 0;
}

static int set_phase(struct run_options *options, const char *value, struct pg_error *err)
{
	options->phase_given = true;
	if (pg_phase_parse(value, &options->phase))
		return pg_fail(err, -EINVAL, "--phase %s: the phases are setup, run and verifier",
			       value);
	return 0;
}

/* -ENOTSUP: one of the common options. */
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
		options->cgroup = value;
		return 0;
	case RUN_RESOLVER:
		return add_resolver(options, value, err);
	case RUN_JSON:
		options->json = true;
		return 0;
	case RUN_SCRIPT + PG_PHASE_SETUP:
	case RUN_SCRIPT + PG_PHASE_RUN:
	case RUN_SCRIPT + PG_PHASE_VERIFIER:
		options->scripts[option - RUN_SCRIPT] = value;
		return 0;
	case PG_OPTION_HELP:
		options->help = true;
		return 0;
	default:
		return -ENOTSUP;
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
			       "--setup, --run and --verify exclude a COMMAND and --phase");
	if (options->command_count) {
		options->phase = PG_PHASE_SETUP;
		options->restore = true;
		return 0;
	}
	if (!arguments[0])
		return pg_fail(err, -EINVAL,
			       "run needs a command after \"--\", or --setup, --run or --verify");
	options->commands[options->command_count++] =
		(struct run_command){options->phase, arguments};
	return 0;
}

int run_options_parse(struct run_options *options, int argc, char **argv)
{
	struct pg_error err = {};
	int option, error = 0;

	/* "+": what follows the first other argument belongs to the command. */
	while (!error && (option = getopt_long(argc, argv, "+", long_options, NULL)) >= 0) {
		error = parse_option(options, option, optarg, &err);
		if (error == -ENOTSUP) {
			error = pg_common_option(option, optarg);
			if (error)
				return error; /* it said why */
		}
	}
	if (options->help)
		return 0;
	if (!error && !options->policy.source_count)
		error = pg_fail(&err, -EINVAL, "run needs a --policy FILE or --policy JSON");
	if (!error)
		error = choose_commands(options, argv + optind, &err);
	if (error)
		fprintf(stderr, "phasegate: %s; phasegate run --help explains\n", err.text);
	return error;
}

int run_options_choose_resolvers(struct run_options *options, const struct pg_policy *policy,
				 struct pg_error *err)
{
	char text[PG_ADDR_TEXT];
	int error;

	if (!pg_policy_has_names(policy)) {
		options->resolver_count = 0;
		return 0;
	}
	if (options->resolver_count)
		return 0;
	error = pg_names_host_servers(NULL, options->resolvers, PG_RESOLVER_MAX,
				      &options->resolver_count, err);
	if (error)
		return pg_error_prefix(err, "the policy has host names; name a nameserver with"
					    " --resolver ADDR[:PORT]");
	for (size_t i = 0; i < options->resolver_count; i++)
		if (pg_addr_is_loopback(&options->resolvers[i].addr))
			return pg_fail(err, -EINVAL,
				       "the policy has host names, and the host's nameserver %s is"
				       " on loopback, which is not opened to the command by"
				       " itself: name a nameserver with --resolver ADDR[:PORT]",
				       pg_addr_format(&options->resolvers[i].addr, text));
	return 0;
}

void run_options_clear(struct run_options *options)
{
	pg_policy_options_clear(&options->policy);
}
