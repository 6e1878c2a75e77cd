/* SPDX-License-Identifier: Apache-2.0 */
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"
#include "server.h"

static struct pg_environment *environment_of(const struct pg_verification *verification)
{
	struct pg_managed *managed;

	LIST_FOREACH (managed, &verification->agent->environments, link)
		if (pg_environment_id(managed->environment) == verification->environment_id)
			return managed->environment;
	return NULL;
}

void pg_verification_end(struct pg_verification *verification)
{
	if (verification->inside.pid > 0)
		pg_environment_leave_inside(environment_of(verification), &verification->inside);
	sd_event_source_disable_unref(verification->source);
	pg_close_fd(&verification->read_fd);
	LIST_REMOVE(verification, link);
	free(verification);
}

void pg_verifications_clear(struct pg_agent *agent)
{
	while (!LIST_EMPTY(&agent->verifications))
		pg_verification_end(LIST_FIRST(&agent->verifications));
}

struct pg_verification *pg_verification_find(struct pg_agent *agent, uint64_t number)
{
	struct pg_verification *verification;

	LIST_FOREACH (verification, &agent->verifications, link)
		if (verification->number == number)
			return verification;
	return NULL;
}

static void finish(struct pg_verification *verification)
{
	pg_environment_leave_inside(environment_of(verification), &verification->inside);
	verification->done = true;
	sd_event_source_set_enabled(verification->source, SD_EVENT_OFF);
	pg_server_notify(verification->agent->server);
}

void pg_verifications_stop(struct pg_agent *agent, const struct pg_environment *environment)
{
	struct pg_verification *verification;

	LIST_FOREACH (verification, &agent->verifications, link)
		if (!verification->done &&
		    verification->environment_id == pg_environment_id(environment))
			finish(verification);
}

/* The child has said what it has seen, or has ended without. */
static int on_outcome(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct pg_verification *verification = userdata;
	struct pg_verify_report report;
	struct pg_error err = {};

	if (read(fd, &report, sizeof(report)) == (ssize_t)sizeof(report))
		verification->report = report;
	/* Denials that the child has met are in the ring already. */
	if (pg_host_process(verification->agent->host, &err) < 0)
		pg_log_error("%s", err.text);
	finish(verification);
	return 0;
}

static bool is_of(const struct pg_event *event, const struct pg_endpoint *denied, uint8_t protocol)
{
	return (!protocol || protocol == event->protocol) &&
	       (!denied->port || denied->port == event->remote_port) &&
	       pg_addr_compare(&denied->addr, &event->remote) == 0;
}

static void count(struct pg_verify_denials *denials, const struct pg_event *event)
{
	denials->count++;
	denials->reason = event->reason;
	denials->what = event->what;
}

void pg_verifications_denied(struct pg_agent *agent, const struct pg_event *event)
{
	struct pg_verification *verification;

	LIST_FOREACH (verification, &agent->verifications, link) {
		if (verification->done || verification->environment_id != event->env_id)
			continue;
		for (size_t i = 0; i < PG_VERIFY_COUNT; i++) {
			const struct pg_verify_target *target = &verification->targets[i];

			if (target->given && !*target->name &&
			    is_of(event, &target->endpoint, IPPROTO_TCP))
				count(&verification->denials[i], event);
		}
		for (size_t i = 0; i < PG_VERIFY_VECTOR_COUNT; i++) {
			const struct pg_verify_plan *plan = &verification->plans[i];

			if (!plan->left_out && is_of(event, &plan->denied, plan->protocol))
				count(&verification->vector_denials[i], event);
		}
	}
}

/* Those that are under way are processes; those whose client has gone are a little memory. */
static bool is_full(struct pg_agent *agent)
{
	const uint64_t kept = PG_VERIFY_KEPT_SECONDS * PG_NSEC_PER_SEC;
	struct pg_verification *verification = LIST_FIRST(&agent->verifications), *next;
	size_t count = 0, running = 0;

	for (; verification; verification = next) {
		next = LIST_NEXT(verification, link);
		if (verification->since + kept < pg_monotonic_ns()) {
			pg_verification_end(verification);
			continue;
		}
		count++;
		running += !verification->done;
	}
	return running >= PG_VERIFICATIONS_MAX || count >= PG_VERIFICATIONS_KEPT_MAX;
}

static int spawn(struct pg_verification *verification, struct pg_environment *environment,
		 struct pg_error *err)
{
	struct pg_verify_probe probe = {.targets = verification->targets,
					.plans = verification->plans};
	pg_autoclose int write_fd = -1;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return pg_fail_errno(err, -errno, "making a pipe to the probe");
	verification->read_fd = fds[0];
	write_fd = probe.write_fd = fds[1];
	r = sd_event_add_io(verification->agent->loop, &verification->source, fds[0], EPOLLIN,
			    on_outcome, verification);
	if (r < 0)
		return pg_fail_errno(err, r, "watching the probe");
	return pg_environment_enter(environment, pg_verify_probe, &probe, &verification->inside,
				    err);
}

int pg_verification_start(struct pg_agent *agent, struct pg_managed *managed,
			  const struct pg_verify_target targets[PG_VERIFY_COUNT],
			  unsigned int without, uint64_t *ret_number, struct pg_error *err)
{
	static uint64_t last;
	struct pg_counters counters = {};
	struct pg_verification *verification;
	int error;

	if (is_full(agent))
		return pg_fail(err, -EBUSY, "%d verifications are under way", PG_VERIFICATIONS_MAX);
	error = pg_environment_counters(managed->environment, &counters, err);
	if (error)
		return error;
	verification = calloc(1, sizeof(*verification));
	if (!verification)
		return pg_fail(err, -ENOMEM, "no memory for the verification");
	*verification = (struct pg_verification){
		.agent = agent,
		.number = ++last,
		.environment_id = pg_environment_id(managed->environment),
		.generation = pg_environment_generation(managed->environment),
		.denied_before = counters.verdict[PG_COUNT_CONNECT][PG_DENY],
		.asked_before = counters.reason[PG_REASON_LISTENER],
		.inside = {.pid = -1},
		.read_fd = -1,
		.since = pg_monotonic_ns(),
	};
	memcpy(verification->targets, targets, sizeof(verification->targets));
	pg_verify_make_plans(agent->config, managed->environment, &targets[PG_VERIFY_BLOCKED],
			     without, verification->plans);
	LIST_INSERT_HEAD(&agent->verifications, verification, link);
	error = spawn(verification, managed->environment, err);
	if (error) {
		pg_verification_end(verification);
		return error;
	}
	*ret_number = verification->number;
	return 0;
}
