/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#ifdef PHASEGATE_TEST_HOOKS

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char *const step_names[] = {
#define PG_X(symbol, name) name,
	PG_STEPS(PG_X) PG_KEPT_STEPS(PG_X) PG_LINK_STEPS(PG_X)
#undef PG_X
};

void pg_step(enum pg_step step)
{
	const char *stop_at = getenv("PHASEGATE_TEST_STOP_AT");

	if (stop_at && !strcmp(stop_at, step_names[step]))
		raise(SIGSTOP);
}

#endif
