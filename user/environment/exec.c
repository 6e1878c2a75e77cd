/* SPDX-License-Identifier: Apache-2.0 */
/* What is executed in members with rights that are refused: kernel/exec.h. */
#include "kernel/exec.h"

#include "host_internal.h"

void pg_host_watch_exec(struct pg_host *host)
{
	struct pg_error err = {};

	/* What is started later is told of even so. */
	if (pg_exec_watch_start(host->kernel, host->pins, &host->exec_watch, &err) < 0)
		pg_host_warn(host, "exec_watch", err.text);
}

bool pg_host_watches_exec(const struct pg_host *host)
{
	return host->exec_watch != NULL;
}

void pg_host_executed(struct pg_environment *environment, const struct pg_event_exec *executed)
{
	struct pg_host *host = environment->host;

	if (host->executed)
		host->executed(host->userdata, environment, executed);
}

int pg_environment_refuse_rights(struct pg_environment *environment, uint64_t rights,
				 struct pg_error *err)
{
	const uint64_t before = environment->settings.refused_rights;
	int error;

	if (rights == before)
		return 0;
	environment->settings.refused_rights = rights;
	error = pg_places_admit(environment, err);
	if (!error)
		error = pg_environment_save(environment, err);
	if (error)
		environment->settings.refused_rights = before;
	return error;
}
