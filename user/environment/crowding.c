/* SPDX-License-Identifier: Apache-2.0 */
/* Flows that found no room: hooks count them, and here they become known. */
#include "host_internal.h"

#include <stdlib.h>

#include <phasegate/abi/flow.h>

#include "base/clock.h"

uint64_t pg_flows_period_ns(void)
{
#ifdef PHASEGATE_TEST_HOOKS
	const char *text = getenv("PHASEGATE_TEST_AGING_MS");

	if (text)
		return strtoull(text, NULL, 10) * PG_NSEC_PER_MSEC;
#endif
	return PG_FLOW_IDLE_NS / 10;
}

static uint64_t refused_of(const struct pg_environment *environment)
{
	struct pg_counters counters = {};
	struct pg_error unused = {};

	return pg_environment_counters(environment, &counters, &unused) ? 0
									: counters.flows_refused;
}

void pg_flows_begin(struct pg_environment *environment)
{
	environment->flows_refused = refused_of(environment);
}

void pg_flows_look(struct pg_host *host)
{
	struct pg_environment *environment;

	LIST_FOREACH (environment, &host->environments, link) {
		const uint64_t before = environment->flows_refused;
		const uint64_t now = refused_of(environment);

		if (now <= before)
			continue;
		environment->flows_refused = now;
		if (host->crowded)
			host->crowded(host->userdata, environment, now - before);
	}
}
