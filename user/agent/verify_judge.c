/* SPDX-License-Identifier: Apache-2.0 */
/* What is concluded of one row: never from an errno alone that it is blocked. */
#include "verify.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const results[] = {
#define PG_X(symbol, name) [PG_VERIFY_RESULT_##symbol] = name,
	PG_VERIFY_RESULTS(PG_X)
#undef PG_X
};

static const char *const reasons[] = {
#define PG_X(symbol, value, verdict, name, text) [value] = name,
	PG_REASONS(PG_X)
#undef PG_X
};

static const char *const judges[] = {
#define PG_X(symbol, name) [PG_COUNT_##symbol] = name,
	PG_COUNTS(PG_X)
#undef PG_X
};

const char *pg_verify_result_name(enum pg_verify_result result)
{
	return results[result];
}

static struct pg_verify_judgement conclude(enum pg_verify_result result, const char *format, ...)
	PG_PRINTF(2, 3);

static struct pg_verify_judgement conclude(enum pg_verify_result result, const char *format, ...)
{
	struct pg_verify_judgement judgement = {.result = result};
	va_list args;

	va_start(args, format);
	vsnprintf(judgement.reason, sizeof(judgement.reason), format, args);
	va_end(args);
	return judgement;
}

static struct pg_verify_judgement conclude_denied(const struct pg_verify_denials *denials)
{
	return conclude(PG_VERIFY_RESULT_BLOCKED, "denied as %s, by the kernel's report (%s)",
			denials->reason < PG_ARRAY_SIZE(reasons) ? reasons[denials->reason]
								 : "unknown",
			denials->what < PG_ARRAY_SIZE(judges) ? judges[denials->what] : "unknown");
}

static struct pg_verify_judgement judge_target(const struct pg_verification *verification,
					       enum pg_verify_which which,
					       const struct pg_verify_situation *situation)
{
	const struct pg_verify_outcome *outcome = &verification->report.outcomes[which];
	const struct pg_verify_denials *denials = &verification->denials[which];

	if (!verification->targets[which].given)
		return conclude(
			PG_VERIFY_RESULT_INCONCLUSIVE,
			which == PG_VERIFY_ALLOWED
				? "the phase lists no destination: name one as allowed"
				: "no destination is known to be denied: name one as blocked");
	if (!outcome->tried)
		return conclude(PG_VERIFY_RESULT_INCONCLUSIVE, "the probe has not ended");
	if (!situation->same_generation)
		return conclude(PG_VERIFY_RESULT_INCONCLUSIVE, "there was a switch meanwhile");
	if (outcome->unresolved)
		return conclude(PG_VERIFY_RESULT_INCONCLUSIVE, "the name has no address");
	if (outcome->number == 0)
		return conclude(PG_VERIFY_RESULT_REACHED, "connected");
	if (outcome->number != EPERM)
		return conclude(PG_VERIFY_RESULT_INCONCLUSIVE, "%s", strerror(outcome->number));
	if (denials->count == 0)
		return conclude(PG_VERIFY_RESULT_INCONCLUSIVE,
				"refused, but the kernel has reported no denial of this"
				" destination");
	if (!situation->denied_more)
		return conclude(PG_VERIFY_RESULT_INCONCLUSIVE,
				"refused, but the Environment has counted no denial");
	return conclude_denied(denials);
}

struct pg_verify_judgement pg_verify_judge_target(const struct pg_verification *verification,
						  enum pg_verify_which which,
						  const struct pg_verify_situation *situation)
{
	struct pg_verify_judgement judgement = judge_target(verification, which, situation);

	judgement.wrong =
		judgement.result ==
		(which == PG_VERIFY_ALLOWED ? PG_VERIFY_RESULT_BLOCKED : PG_VERIFY_RESULT_REACHED);
	return judgement;
}

/* The query was taken by the resolver in the path: the counter says so, and the answer. */
static struct pg_verify_judgement judge_dns(const struct pg_verify_try *try,
					    const struct pg_verify_situation *situation)
{
	if (try->seen && situation->asked_more)
		return conclude(PG_VERIFY_RESULT_BLOCKED, "answered by the resolver in the path");
	if (try->seen)
		return conclude(PG_VERIFY_RESULT_PASSED, "answered, but not by the resolver");
	return conclude(PG_VERIFY_RESULT_INCONCLUSIVE, "%s",
			try->number ? strerror(try->number) : "the answer is none");
}

/* No socket of the Environment's sends: only what is judged at the link can be denied. */
static struct pg_verify_judgement judge_group(const struct pg_verify_try *try)
{
	if (try->seen)
		return conclude(PG_VERIFY_RESULT_PASSED,
				"the kernel has told the network of the group: no guard on a veth"
				" has seen it, see the links of the Environment");
	return conclude(PG_VERIFY_RESULT_INCONCLUSIVE,
			"the kernel has neither told the network of the group nor reported a"
			" denial");
}

/* The child is under no filter but the agent's. */
static struct pg_verify_judgement judge_vsock(const struct pg_verify_try *try,
					      const struct pg_verify_situation *situation)
{
	if (!try->seen)
		return conclude(PG_VERIFY_RESULT_INCONCLUSIVE, "%s", strerror(try->number));
	if (situation->filtered)
		return conclude(PG_VERIFY_RESULT_INCONCLUSIVE,
				"the hypervisor answers; whether the workload's seccomp filter"
				" denies AF_VSOCK cannot be told");
	return conclude(PG_VERIFY_RESULT_PASSED,
			"the hypervisor answers, and the workload is under no seccomp filter:"
			" phasegate seccomp makes one");
}

static struct pg_verify_judgement judge_sent(enum pg_verify_vector vector,
					     const struct pg_verify_try *try,
					     const struct pg_verify_situation *situation)
{
	switch (vector) {
	case PG_VERIFY_DNS:
		if (try->number != EPERM)
			return judge_dns(try, situation);
		break;
	case PG_VERIFY_MLD:
	case PG_VERIFY_IGMP:
		return judge_group(try);
	case PG_VERIFY_VSOCK:
		return judge_vsock(try, situation);
	case PG_VERIFY_LOOPBACK_TCP:
	case PG_VERIFY_LOOPBACK_UDP:
	case PG_VERIFY_TCP_FAST_OPEN:
	case PG_VERIFY_MPTCP:
	case PG_VERIFY_TCP_MAPPED:
	case PG_VERIFY_UDP_CONNECTED:
	case PG_VERIFY_UDP_SENDTO:
	case PG_VERIFY_UDP_RECONNECTED:
	case PG_VERIFY_UDP_MAPPED:
	case PG_VERIFY_UDP_LITE:
	case PG_VERIFY_PING:
	case PG_VERIFY_MULTICAST:
	case PG_VERIFY_BROADCAST:
	case PG_VERIFY_BOUND_LOOPBACK:
	case PG_VERIFY_FORGED_SOURCE:
	case PG_VERIFY_ROUTING_HEADER:
	case PG_VERIFY_VECTOR_COUNT:
		break;
	}
	switch (try->number) {
	case 0:
		return conclude(PG_VERIFY_RESULT_PASSED,
				"it was sent, and the kernel has reported no denial");
	case EPERM:
		return conclude(PG_VERIFY_RESULT_INCONCLUSIVE,
				"refused, but the kernel has reported no denial of it");
	case ENETUNREACH:
	case EHOSTUNREACH:
	case EADDRNOTAVAIL:
		return conclude(PG_VERIFY_RESULT_NOT_POSSIBLE, "%s", strerror(try->number));
	}
	return conclude(PG_VERIFY_RESULT_INCONCLUSIVE, "%s", strerror(try->number));
}

static struct pg_verify_judgement judge_vector(const struct pg_verification *verification,
					       enum pg_verify_vector vector,
					       const struct pg_verify_situation *situation)
{
	const struct pg_verify_plan *plan = &verification->plans[vector];
	const struct pg_verify_try *try = &verification->report.tries[vector];
	const struct pg_verify_denials *denials = &verification->vector_denials[vector];

	if (plan->left_out)
		return conclude(PG_VERIFY_RESULT_NOT_POSSIBLE, "%s", plan->left_out);
	if (!try->tried)
		return conclude(PG_VERIFY_RESULT_INCONCLUSIVE, "the probe has not ended");
	if (!situation->same_generation)
		return conclude(PG_VERIFY_RESULT_INCONCLUSIVE, "there was a switch meanwhile");
	if (try->impossible)
		return conclude(PG_VERIFY_RESULT_NOT_POSSIBLE, "%s", strerror(try->number));
	if (plan->passes && try->number == 0)
		return conclude(PG_VERIFY_RESULT_PASSED, "it has arrived");
	if (denials->count)
		return conclude_denied(denials);
	return judge_sent(vector, try, situation);
}

struct pg_verify_judgement pg_verify_judge_vector(const struct pg_verification *verification,
						  enum pg_verify_vector vector,
						  const struct pg_verify_situation *situation)
{
	struct pg_verify_judgement judgement = judge_vector(verification, vector, situation);

	judgement.wrong =
		judgement.result == (verification->plans[vector].passes ? PG_VERIFY_RESULT_BLOCKED
									: PG_VERIFY_RESULT_PASSED);
	return judgement;
}
