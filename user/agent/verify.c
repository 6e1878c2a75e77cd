/* SPDX-License-Identifier: Apache-2.0 */
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
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

static uint64_t count_denied(const struct pg_environment *environment)
{
	struct pg_counters counters = {};
	struct pg_error unused = {};

	if (pg_environment_counters(environment, &counters, &unused) < 0)
		return UINT64_MAX;
	return counters.verdict[PG_COUNT_CONNECT][PG_DENY];
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
	struct pg_verify_outcome outcomes[PG_VERIFY_COUNT];
	struct pg_error err = {};

	if (read(fd, outcomes, sizeof(outcomes)) == (ssize_t)sizeof(outcomes))
		memcpy(verification->outcomes, outcomes, sizeof(outcomes));
	/* Denials that the child has met are in the ring already. */
	if (pg_host_process(verification->agent->host, &err) < 0)
		pg_log_error("%s", err.text);
	finish(verification);
	return 0;
}

void pg_verifications_denied(struct pg_agent *agent, const struct pg_event *event)
{
	struct pg_verification *verification;

	LIST_FOREACH (verification, &agent->verifications, link) {
		if (verification->done || verification->environment_id != event->env_id ||
		    event->protocol != IPPROTO_TCP)
			continue;
		for (size_t i = 0; i < PG_VERIFY_COUNT; i++) {
			const struct pg_verify_target *target = &verification->targets[i];

			if (target->given && !*target->name &&
			    target->endpoint.port == event->remote_port &&
			    memcmp(&target->endpoint.addr, &event->remote, sizeof(event->remote)) ==
				    0)
				verification->denials[i]++;
		}
	}
}

static size_t count_and_purge(struct pg_agent *agent)
{
	const uint64_t kept = PG_VERIFY_KEPT_SECONDS * PG_NSEC_PER_SEC;
	struct pg_verification *verification = LIST_FIRST(&agent->verifications), *next;
	size_t count = 0;

	for (; verification; verification = next) {
		next = LIST_NEXT(verification, link);
		if (verification->since + kept < pg_monotonic_ns())
			pg_verification_end(verification);
		else
			count++;
	}
	return count;
}

static int spawn(struct pg_verification *verification, struct pg_environment *environment,
		 struct pg_error *err)
{
	struct pg_verify_probe probe = {.targets = verification->targets};
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
			  uint64_t *ret_number, struct pg_error *err)
{
	static uint64_t last;
	struct pg_verification *verification;
	int error;

	if (count_and_purge(agent) >= PG_VERIFICATIONS_MAX)
		return pg_fail(err, -EBUSY, "%d verifications are under way", PG_VERIFICATIONS_MAX);
	verification = calloc(1, sizeof(*verification));
	if (!verification)
		return pg_fail(err, -ENOMEM, "no memory for the verification");
	*verification = (struct pg_verification){
		.agent = agent,
		.number = ++last,
		.environment_id = pg_environment_id(managed->environment),
		.generation = pg_environment_generation(managed->environment),
		.denied_before = count_denied(managed->environment),
		.inside = {.pid = -1},
		.read_fd = -1,
		.since = pg_monotonic_ns(),
	};
	memcpy(verification->targets, targets, sizeof(verification->targets));
	LIST_INSERT_HEAD(&agent->verifications, verification, link);
	error = spawn(verification, managed->environment, err);
	if (error) {
		pg_verification_end(verification);
		return error;
	}
	*ret_number = verification->number;
	return 0;
}

/* X(symbol, name) */
#define FINDINGS(X) \
	X(REACHED, "reached") \
	X(BLOCKED, "blocked") \
	X(INCONCLUSIVE, "inconclusive")

enum finding {
#define PG_X(symbol, name) FINDING_##symbol,
	FINDINGS(PG_X)
#undef PG_X
};

static const char *const findings[] = {
#define PG_X(symbol, name) [FINDING_##symbol] = name,
	FINDINGS(PG_X)
#undef PG_X
};

struct judgement {
	enum finding finding;
	const char *reason;
};

static struct judgement judge(const struct pg_verification *verification, size_t i,
			      bool denied_more, bool same_generation)
{
	const struct pg_verify_outcome *outcome = &verification->outcomes[i];

	if (!verification->targets[i].given)
		return (struct judgement){FINDING_INCONCLUSIVE,
					  "there is nothing to try: name one"};
	if (!outcome->tried)
		return (struct judgement){FINDING_INCONCLUSIVE, "the probe has not ended"};
	if (!same_generation)
		return (struct judgement){FINDING_INCONCLUSIVE, "there was a switch meanwhile"};
	if (outcome->unresolved)
		return (struct judgement){FINDING_INCONCLUSIVE, "the name has no address"};
	if (outcome->number == 0)
		return (struct judgement){FINDING_REACHED, "connected"};
	if (outcome->number != EPERM)
		return (struct judgement){FINDING_INCONCLUSIVE, strerror(outcome->number)};
	if (verification->denials[i] == 0)
		return (struct judgement){FINDING_INCONCLUSIVE,
					  "refused, but the kernel has reported no denial of this"
					  " destination"};
	if (!denied_more)
		return (struct judgement){FINDING_INCONCLUSIVE,
					  "refused, but the Environment has counted no denial"};
	return (struct judgement){FINDING_BLOCKED, "denied, as reported by the kernel"};
}

static const char *conclude(const struct judgement judgements[PG_VERIFY_COUNT], bool allowed_wanted)
{
	const enum finding allowed = judgements[PG_VERIFY_ALLOWED].finding;
	const enum finding blocked = judgements[PG_VERIFY_BLOCKED].finding;

	if (allowed == FINDING_BLOCKED || blocked == FINDING_REACHED)
		return "not_enforced";
	if (blocked == FINDING_BLOCKED && (allowed == FINDING_REACHED || !allowed_wanted))
		return "enforced";
	return "inconclusive";
}

static void describe(const struct pg_verification *verification, size_t i,
		     const struct judgement *judgement, const char *name,
		     struct pg_json_writer *json)
{
	const struct pg_verify_outcome *outcome = &verification->outcomes[i];
	const bool known = outcome->tried && !outcome->unresolved;
	char text[PG_ADDR_TEXT];

	pg_json_write_open(json, name, '{');
	pg_json_write_string(json, "target",
			     verification->targets[i].given ? verification->targets[i].text : NULL);
	pg_json_write_string(json, "address",
			     known ? pg_addr_format(&outcome->endpoint.addr, text) : NULL);
	pg_json_write_string(json, "result", findings[judgement->finding]);
	pg_json_write_string(json, "reason", judgement->reason);
	pg_json_write_close(json, '}');
}

void pg_verification_describe(const struct pg_verification *verification,
			      const struct pg_managed *managed, struct pg_json_writer *json)
{
	const struct pg_environment *environment = managed->environment;
	const enum pg_phase phase = pg_environment_phase(environment);
	const uint64_t denied = count_denied(environment);
	const bool same = pg_environment_generation(environment) == verification->generation;
	/* With no network at all there is nothing that could be reached. */
	const bool nothing =
		pg_environment_denied(environment) ||
		pg_environment_policy(environment)->phases[phase].mode == PG_MODE_NO_NETWORK;
	const bool wanted = verification->targets[PG_VERIFY_ALLOWED].given || !nothing;
	struct judgement judgements[PG_VERIFY_COUNT];

	for (size_t i = 0; i < PG_VERIFY_COUNT; i++)
		judgements[i] =
			judge(verification, i,
			      denied != UINT64_MAX && denied > verification->denied_before, same);
	pg_json_write_string(json, "name", pg_environment_name(environment));
	pg_json_write_string(json, "phase", pg_phase_name(phase));
	pg_json_write_number(json, "generation", pg_environment_generation(environment));
	pg_json_write_string(json, "result", conclude(judgements, wanted));
	if (wanted)
		describe(verification, PG_VERIFY_ALLOWED, &judgements[PG_VERIFY_ALLOWED], "allowed",
			 json);
	else
		pg_json_write_null(json, "allowed");
	describe(verification, PG_VERIFY_BLOCKED, &judgements[PG_VERIFY_BLOCKED], "blocked", json);
}
