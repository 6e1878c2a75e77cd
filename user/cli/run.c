/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "policy/print.h"

#include "run.h"

static void print_help(void)
{
	fputs("usage: phasegate run --policy FILE|JSON [OPTION]... -- COMMAND [ARGUMENT]...\n"
	      "       phasegate run --policy FILE|JSON [OPTION]... [--setup SCRIPT]\n"
	      "                     [--run SCRIPT] [--verify SCRIPT]\n"
	      "\n"
	      "Runs a command, or one shell script for each phase, in a cgroup whose network\n"
	      "reach the kernel limits to what the policy's phase allows.\n"
	      "\n"
	      "  --policy FILE|JSON        a document, \"-\" for standard input, or the JSON "
	      "text;\n"
	      "                            a phase field of a later one replaces the whole field\n"
	      "  --allow PHASE=ENTRY       add one entry to a phase of mode allowlist\n"
	      "  --env-params              the policy's fields stand among others\n"
	      "  --phase PHASE             phase of COMMAND: setup, run (default) or verifier\n"
	      "  --setup, --run, --verify SCRIPT\n"
	      "                            given to /bin/sh -c, in this order, each in its phase;\n"
	      "                            the setup phase is restored after each\n"
	      "  --cgroup PATH             confine this existing, empty cgroup (absolute below "
	      "the\n"
	      "                            cgroup2 mount) instead of a new one\n"
	      "  --resolver ADDR[:PORT]    trusted nameserver for host names in the policy, up to\n"
	      "                            three times (default: those of /etc/resolv.conf)\n"
	      "  --json                    report in JSON lines on standard error\n"
	      "  --log-level LEVEL         error, warning (default), info or debug\n"
	      "  --log-file FILE           append log messages to FILE\n"
	      "  --file-log-level LEVEL    level of that file (default debug)\n"
	      "\n"
	      "Exit status: that of the command (of the scripts: the first that is not 0; after\n"
	      "a failed --setup the others are not run); 128 + N if signal N ended it; 127 not\n"
	      "found; 126 not executable; 125 enforcement could not be had, nothing was started;\n"
	      "2 an option or the policy is wrong; 1 any other failure.\n",
	      stdout);
}

static void forward_warning(void *userdata, const char *code, const char *message)
{
	run_report_warning(userdata, code, message);
}

static int fail(int status, const struct pg_error *err)
{
	pg_log_error("%s", err->text);
	return status;
}

static int confine_and_run(struct run_options *options, const struct pg_policy *policy)
{
	struct run_report report = {.json = options->json, .policy = policy};
	struct pg_environment_options environment_options = {
		.cgroup = options->cgroup,
		.policy = policy,
		.phase = options->phase,
	};
	struct pg_environment *environment = NULL;
	PG_CLEANUP(pg_host_freep) struct pg_host *host = NULL;
	struct pg_error err = {};
	PG_CLEANUP(run_waiter_close) struct run_waiter waiter = RUN_WAITER_INIT;
	int status;

	if (run_options_choose_resolvers(options, policy, &err))
		return fail(PG_EXIT_USAGE, &err);
	/* From here on a signal cannot end this process half-way: it is read when there is time. */
	if (run_waiter_open(&waiter, &err))
		return fail(PG_EXIT_FAILURE, &err);
	environment_options.resolvers = options->resolvers;
	environment_options.resolver_count = options->resolver_count;
	if (pg_host_open(forward_warning, &report, waiter.end_fd, &host, &err) ||
	    pg_environment_create(host, &environment_options, &environment, &err)) {
		const bool ended = err.number == -ECANCELED && run_waiter_ended(&waiter);

		pg_error_prefix(&err, "nothing was started");
		return fail(ended ? PG_EXIT_SIGNAL + waiter.ended : PG_EXIT_REFUSED, &err);
	}
	run_report_start(&report, environment);
	status = run_session(options, &report, host, environment, &waiter);
	if (pg_environment_destroy(environment, &err)) {
		pg_log_error("%s", err.text);
		return status == PG_EXIT_OK ? PG_EXIT_FAILURE : status;
	}
	return status;
}

static int load_policy(const struct run_options *options, struct pg_policy **ret_policy)
{
	pg_autodiagnostics struct pg_diagnostics diagnostics = {};
	int error = pg_policy_options_load(&options->policy, ret_policy, &diagnostics);

	pg_diagnostics_print(stderr, &diagnostics, options->policy.sources);
	return error;
}

int pg_command_run(int argc, char **argv)
{
	PG_CLEANUP(run_options_clear) struct run_options options = {.phase = PG_PHASE_RUN};
	pg_autopolicy struct pg_policy *policy = NULL;

	if (run_options_parse(&options, argc, argv))
		return PG_EXIT_USAGE;
	if (options.help) {
		print_help();
		return PG_EXIT_OK;
	}
	if (pg_common_options_done())
		return PG_EXIT_USAGE;
	if (load_policy(&options, &policy))
		return PG_EXIT_USAGE;
	return confine_and_run(&options, policy);
}
