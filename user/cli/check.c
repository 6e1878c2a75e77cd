/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "policy/print.h"

#include "policy_options.h"

enum check_option {
	CHECK_POLICY = PG_OPTION_COMMAND_FIRST,
	CHECK_ALLOW,
	CHECK_ENV_PARAMS,
	CHECK_JSON,
};

static const struct option long_options[] = {
	{"policy", required_argument, NULL, CHECK_POLICY},
	{"allow", required_argument, NULL, CHECK_ALLOW},
	{"env-params", no_argument, NULL, CHECK_ENV_PARAMS},
	{"json", no_argument, NULL, CHECK_JSON},
	PG_COMMON_OPTIONS,
	{0},
};

static void print_help(void)
{
	fputs("usage: phasegate check [FILE|-] [--policy FILE|JSON]... [--allow PHASE=ENTRY]...\n"
	      "                       [--env-params] [--json]\n"
	      "\n"
	      "Validates policy documents and prints the mode of each phase.\n"
	      "\n"
	      "  FILE, --policy FILE|JSON  a document, \"-\" for standard input, or the JSON text\n"
	      "                            itself; a phase field of a later one replaces the\n"
	      "                            whole field of an earlier one\n"
	      "  --allow PHASE=ENTRY       add one entry to a phase of mode allowlist\n"
	      "  --env-params              the three fields stand among others, which are left\n"
	      "                            alone\n"
	      "  --json                    print one JSON object instead of lines\n"
	      "  --log-level LEVEL         error, warning (default), info or debug\n"
	      "  --log-file FILE           append log messages to FILE\n"
	      "  --file-log-level LEVEL    level of that file (default debug)\n"
	      "\n"
	      "Exit status: 0 the policy is valid, 2 it is not or an option is wrong, 1 the\n"
	      "output could not be written.\n",
	      stdout);
}

struct check {
	struct pg_policy_options policy;
	bool json;
	bool help;
};

static int parse_option(struct check *check, int option, const char *value, struct pg_error *err)
{
	switch (option) {
	case 1: /* an argument that is no option's */
	case CHECK_POLICY:
		return pg_policy_options_add(&check->policy, value, err);
	case CHECK_ALLOW:
		return pg_policy_options_allow(&check->policy, value, err);
	case CHECK_ENV_PARAMS:
		check->policy.form = PG_POLICY_ENV_PARAMS;
		return 0;
	case CHECK_JSON:
		check->json = true;
		return 0;
	case PG_OPTION_HELP:
		check->help = true;
		return 0;
	default:
		return pg_common_option(option, value, err);
	}
}

static int parse_options(struct check *check, int argc, char **argv, struct pg_error *err)
{
	int option, result = 0;

	/* "-": arguments are handed out in their order, since documents have one. */
	while (result == 0 && (option = pg_next_option(argc, argv, "-", long_options, err)) != -1)
		result = option < 0 ? option : parse_option(check, option, optarg, err);
	for (; result == 0 && optind < argc; optind++)
		result = pg_policy_options_add(&check->policy, argv[optind], err);
	if (result < 0 || check->help)
		return result;
	if (check->policy.source_count == 0)
		return pg_fail(err, -EINVAL,
			       "check needs a policy: a file, \"-\" or --policy; phasegate check"
			       " --help explains");
	return pg_common_options_done(err);
}

static int print_result(const struct check *check, const struct pg_policy *policy,
			const struct pg_diagnostics *diagnostics)
{
	const struct pg_policy_source *sources = check->policy.sources;
	int result = 0;

	if (check->json) {
		result = pg_policy_print_json(stdout, policy, diagnostics, sources);
	} else {
		if (policy)
			pg_policy_print(stdout, policy, sources);
		pg_diagnostics_print(stderr, diagnostics, sources);
	}
	if (fflush(stdout) == EOF || ferror(stdout))
		result = -EIO;
	if (result < 0)
		fputs("phasegate: cannot write the result\n", stderr);
	return result;
}

static enum pg_exit check_policy(const struct check *check)
{
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
	pg_autopolicy struct pg_policy *policy = NULL;
	int result = pg_policy_options_load(&check->policy, &policy, &diagnostics);

	if (result < 0 && result != -EINVAL) {
		fprintf(stderr, "phasegate: cannot load the policy: %s\n", strerror(-result));
		return PG_EXIT_FAILURE;
	}
	if (print_result(check, policy, &diagnostics) < 0)
		return PG_EXIT_FAILURE;
	return policy ? PG_EXIT_OK : PG_EXIT_USAGE;
}

int pg_command_check(int argc, char **argv)
{
	struct check check = {0};
	struct pg_error err = {};
	enum pg_exit status = PG_EXIT_USAGE;

	if (parse_options(&check, argc, argv, &err) < 0) {
		fprintf(stderr, "phasegate: %s\n", err.text);
	} else if (check.help) {
		print_help();
		status = PG_EXIT_OK;
	} else {
		status = check_policy(&check);
	}
	pg_policy_options_clear(&check.policy);
	return status;
}
