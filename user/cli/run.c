/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <stdio.h>

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
	      "                            three times (default: those of /etc/resolv.conf); an\n"
	      "                            IPv6 address with a port is written [ADDR]:PORT;\n"
	      "                            \"environment\": those of --resolv-conf, or else of\n"
	      "                            /etc/resolv.conf, asked as said there\n"
	      "  --resolv-conf FILE        the Environment's own resolv.conf, read at the start; "
	      "its\n"
	      "                            nameservers are asked for names of one label, from\n"
	      "                            inside the command's network namespace\n"
	      "  --hosts FILE              names of this hosts file have these addresses\n"
	      "  --dns KEY=VALUE           floor, grace (seconds), wildcard-budget (names a\n"
	      "                            minute), addresses (most), private=learn|deny,\n"
	      "                            denied=nxdomain|refused\n"
	      "  --keep WHAT               leave the commands what they do not get otherwise:\n"
	      "                            net-raw, net-admin, syscalls, or all; may be given\n"
	      "                            several times\n"
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

static void warn_of_kept(const struct run_options *options, const struct run_report *report)
{
	static const char *const texts[] = {
#define PG_X(symbol, name, text) [PG_KEEP_##symbol] = "by --keep " name " the commands have " text,
		PG_KEEPS(PG_X)
#undef PG_X
	};

	for (size_t i = 0; i < PG_KEEP_COUNT; i++)
		if (options->workload.keep[i])
			run_report_warning(report, "kept", texts[i]);
}

static int fail(struct run_report *report, const char *code, int status, const struct pg_error *err)
{
	run_report_error(report, code, err);
	return status;
}

static int confine_and_run(struct run_options *options, const struct pg_policy *policy,
			   struct run_report *report)
{
	struct pg_environment_options environment_options = {
		.members = &options->cgroup,
		.member_count = options->cgroup ? 1 : 0,
		.policy = policy,
		.phase = options->phase,
		.resolvers = options->dns.resolvers,
		.own_resolvers = options->dns.own_resolvers,
		.hosts = options->dns.hosts,
		.dns = options->dns.settings,
	};
	struct pg_host_options host_options = {.warning = forward_warning, .userdata = report};
	struct pg_environment *environment = NULL;
	PG_CLEANUP(pg_host_freep) struct pg_host *host = NULL;
	struct pg_error err = {};
	PG_CLEANUP(run_waiter_close) struct run_waiter waiter = RUN_WAITER_INIT;
	int status;

	if (pg_policy_has_names(policy) && pg_dns_options_complete(&options->dns, &err))
		return fail(report, "no_resolver", PG_EXIT_USAGE, &err);
	if (options->dns.own_resolver_count)
		run_report_warning(
			report, "environment_resolver",
			"the nameservers of the Environment's own resolv.conf are trusted, and"
			" asked where the workload may answer in their place");
	environment_options.resolver_count = options->dns.resolver_count;
	environment_options.own_resolver_count = options->dns.own_resolver_count;
	environment_options.told_resolver_count = options->dns.own_resolver_count;
	/* From here on a signal cannot end this process half-way: it is read when there is time. */
	if (run_waiter_open(&waiter, &err) || pg_workload_init(&options->workload, &err))
		return fail(report, "failed", PG_EXIT_FAILURE, &err);
	host_options.interrupt_fd = waiter.end_fd;
	if (pg_host_open(&host_options, &host, &err) ||
	    pg_environment_create(host, &environment_options, &environment, &err)) {
		const bool ended = err.number == -ECANCELED && run_waiter_ended(&waiter);

		pg_error_prefix(&err, "nothing was started");
		return ended ? fail(report, "interrupted", PG_EXIT_SIGNAL + waiter.ended, &err)
			     : fail(report, "refused", PG_EXIT_REFUSED, &err);
	}
	run_report_start(report, environment);
	warn_of_kept(options, report);
	status = run_session(options, report, host, environment, &waiter);
	if (pg_environment_destroy(environment, PG_DESTROY_KILL, &err)) {
		run_report_error(report, "failed", &err);
		return status == PG_EXIT_OK ? PG_EXIT_FAILURE : status;
	}
	return status;
}

static int load_policy(const struct run_options *options, struct run_report *report,
		       struct pg_policy **ret_policy)
{
	pg_autodiagnostics struct pg_diagnostics diagnostics = {};
	struct pg_error err = {};
	int error = pg_policy_options_load(&options->policy, ret_policy, &diagnostics);

	run_report_policy(report, !error, &diagnostics, options->policy.sources);
	if (error && error != -EINVAL) {
		pg_fail_errno(&err, error, "cannot load the policy");
		return fail(report, "failed", PG_EXIT_FAILURE, &err);
	}
	return error ? PG_EXIT_USAGE : PG_EXIT_OK;
}

static int run(struct run_options *options, struct run_report *report)
{
	pg_autopolicy struct pg_policy *policy = NULL;
	int status = load_policy(options, report, &policy);

	if (status != PG_EXIT_OK)
		return status;
	report->policy = policy;
	return confine_and_run(options, policy, report);
}

int pg_command_run(int argc, char **argv)
{
	PG_CLEANUP(run_options_clear)
	struct run_options options = {.phase = PG_PHASE_RUN, .dns = PG_DNS_OPTIONS_DEFAULT};
	PG_CLEANUP(run_report_close) struct run_report report = {};
	struct pg_error err = {};
	int error = run_options_parse(&options, argc, argv, &err);

	report.json = options.json;
	run_report_open(&report);
	if (error)
		return fail(&report, "usage", PG_EXIT_USAGE, &err);
	if (options.help) {
		print_help();
		return PG_EXIT_OK;
	}
	return run(&options, &report);
}
