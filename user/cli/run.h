/* SPDX-License-Identifier: Apache-2.0 */
/* Private to `phasegate run`: its parts and what they share. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "dns_options.h"
#include "environment/environment.h"
#include "policy_options.h"
#include "sandbox/workload.h"

/* One command of the session, in the phase that governs it. */
struct run_command {
	enum pg_phase phase;
	char *const *argv;
};

struct run_options {
	struct pg_policy_options policy;
	struct run_command commands[PG_PHASE_COUNT];
	size_t command_count;
	/* The storage behind commands[].argv of --setup, --run and --verify. */
	char *shell_argv[PG_PHASE_COUNT][4];
	const char *cgroup;
	struct pg_dns_options dns;
	struct pg_workload workload; /* --keep */
	/* Which of --setup, --run, --verify were given; NULL: not. */
	const char *scripts[PG_PHASE_COUNT];
	enum pg_phase phase; /* --phase */
	bool phase_given;
	bool restore; /* go back to the setup phase after each command */
	bool json;
	bool help;
};

struct run_report;

/* run_options.c: .json and .help are set also if something is wrong. */
int run_options_parse(struct run_options *options, int argc, char **argv,
		      struct pg_error *err) PG_MUST_CHECK;
void run_options_clear(struct run_options *options);

/*
 * run_report.c: lines for people or, with json, for machines, on standard error. With json, log
 * messages become objects, too.
 */
struct run_report {
	bool json;
	const struct pg_policy *policy;
	const char *code; /* of the error that is being logged */
};
void run_report_open(struct run_report *report);
void run_report_close(struct run_report *report);
void run_report_error(struct run_report *report, const char *code, const struct pg_error *err);
void run_report_policy(const struct run_report *report, bool ok,
		       const struct pg_diagnostics *diagnostics,
		       const struct pg_policy_source *sources);
void run_report_start(const struct run_report *report, const struct pg_environment *environment);
void run_report_warning(const struct run_report *report, const char *code, const char *message);
void run_report_switch(const struct run_report *report, const struct pg_switch *change,
		       const struct pg_closing *closing);
/* What has been counted so far. */
struct run_counts {
	struct pg_counters hooks;
	struct pg_resolver_stats dns;
};
int run_counts_read(const struct pg_environment *environment, struct run_counts *ret_counts,
		    struct pg_error *err) PG_MUST_CHECK;

/* How a command in its phase went. */
struct run_outcome {
	enum pg_phase phase;
	uint64_t generation;
	struct pg_switch change;
	struct pg_closing closing;
	struct run_counts before, after;
	int status;
	size_t leftovers; /* processes killed at its end */
};
void run_report_phase(const struct run_report *report, const struct run_outcome *outcome);

/* run_wait.c: waits for the command, passing signals on and serving the host meanwhile. */
struct run_waiter {
	int signal_fd;
	int end_fd; /* readable while a signal that asks to end has not been read */
	int ended;  /* the signal that asked the session to end; 0: none */
};
/* Blocks the signals that would end this process; they are read from a descriptor instead. */
#define RUN_WAITER_INIT \
	{ \
		.signal_fd = -1, .end_fd = -1 \
	}
int run_waiter_open(struct run_waiter *waiter, struct pg_error *err) PG_MUST_CHECK;
void run_waiter_close(struct run_waiter *waiter);
/* Whether a signal has asked to end; its number is in .ended. */
bool run_waiter_ended(struct run_waiter *waiter);
/* Returns the status as a shell would: 0-255, 128 + N for a signal. */
int run_wait(struct run_waiter *waiter, struct pg_host *host, pid_t pid, int *ret_status,
	     struct pg_error *err) PG_MUST_CHECK;

/* run_session.c: all commands, one after the other; returns the exit status. */
int run_session(const struct run_options *options, struct run_report *report, struct pg_host *host,
		struct pg_environment *environment, struct run_waiter *waiter);
