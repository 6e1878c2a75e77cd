/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <errno.h>
#include <stdio.h>

#include "command.h"

struct session {
	struct run_report *report;
	struct pg_host *host;
	struct pg_environment *environment;
	struct run_waiter *waiter;
	const struct pg_workload *workload;
	unsigned int commands; /* started so far */
};

/* Switches and closes what the phase forbids; says so at once. */
static int enter_phase(struct session *session, enum pg_phase phase, struct pg_switch *ret_change,
		       struct pg_closing *ret_closing, struct pg_error *err)
{
	const size_t ahead = pg_environment_close_ahead(session->environment, phase);
	int error = pg_environment_switch(session->environment, phase, ret_change, err);

	if (!error && ret_change->changed)
		error = pg_environment_close_forbidden(session->environment, ret_closing, err);
	if (!error && ret_change->changed) {
		ret_closing->closed += ahead;
		run_report_switch(session->report, ret_change, ret_closing);
	}
	return error;
}

static int confine(const void *workload)
{
	return pg_workload_confine(workload);
}

static int report_unexecuted(struct run_report *report, struct pg_error *err)
{
	const bool absent = err->number == -ENOENT || err->number == -ENOTDIR;
	const struct pg_error plain = *err;

	/* The kernel executes no file whose capabilities cannot all be had. */
	if (err->number == -EPERM)
		pg_fail(err, -EPERM,
			"%.512s; a file with capabilities (getcap(8)), as ping often is, needs "
			"--keep",
			plain.text);
	run_report_error(report, absent ? "not_found" : "not_executable", err);
	return absent ? PG_EXIT_NOT_FOUND : PG_EXIT_NOT_EXECUTABLE;
}

/* Runs the command; nothing of it is alive afterwards. */
static int run_command(struct session *session, const struct run_command *command, int *ret_status,
		       size_t *ret_leftovers, struct pg_error *err)
{
	char cgroup[32];
	struct pg_spawn spawn = {.cgroup = cgroup,
				 .argv = command->argv,
				 .confine = confine,
				 .userdata = session->workload};
	pid_t pid;
	int error;

	snprintf(cgroup, sizeof(cgroup), "command-%u", ++session->commands);
	error = pg_environment_spawn(session->environment, &spawn, &pid, err);
	if (error == -ECANCELED && run_waiter_ended(session->waiter)) {
		*ret_status = PG_EXIT_SIGNAL + session->waiter->ended;
		return 0;
	}
	if (error && spawn.not_executable) {
		*ret_status = report_unexecuted(session->report, err);
		return 0;
	}
	if (error)
		return error;
	error = run_wait(session->waiter, session->host, pid, ret_status, err);
	if (error)
		return error;
	return pg_environment_kill(session->environment, ret_leftovers, err);
}

/* One command in its phase, then back to the setup phase. */
static int run_phase(struct session *session, const struct run_command *command, bool restore,
		     int *ret_status, struct pg_error *err)
{
	struct run_outcome outcome = {.phase = command->phase};
	struct pg_closing closing_back = {};
	struct pg_switch back;
	int error;

	error = run_counts_read(session->environment, &outcome.before, err);
	if (!error)
		error = enter_phase(session, command->phase, &outcome.change, &outcome.closing,
				    err);
	if (error)
		return error;
	outcome.generation = pg_environment_generation(session->environment);
	error = run_command(session, command, &outcome.status, &outcome.leftovers, err);
	if (!error)
		error = run_counts_read(session->environment, &outcome.after, err);
	if (error)
		return error;
	run_report_phase(session->report, &outcome);
	*ret_status = outcome.status;
	if (!restore)
		return 0;
	return enter_phase(session, PG_PHASE_SETUP, &back, &closing_back, err);
}

int run_session(const struct run_options *options, struct run_report *report, struct pg_host *host,
		struct pg_environment *environment, struct run_waiter *waiter)
{
	struct session session = {report, host, environment, waiter, &options->workload, 0};
	struct pg_error err = {};
	int result = PG_EXIT_OK, error = 0;

	for (size_t i = 0; !error && i < options->command_count; i++) {
		int status = PG_EXIT_OK;

		if (run_waiter_ended(waiter))
			return result ? result : PG_EXIT_SIGNAL + waiter->ended;
		error = run_phase(&session, &options->commands[i], options->restore, &status, &err);
		if (!error && result == PG_EXIT_OK)
			result = status;
		/* Without a setup, the agent's run would be judged for what it is not to blame. */
		if (options->commands[i].phase == PG_PHASE_SETUP && status != PG_EXIT_OK)
			break;
	}
	if (error) {
		run_report_error(report, "failed", &err);
		return PG_EXIT_FAILURE;
	}
	return result;
}
