/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of starting an Environment, in order; the start order of DESIGN section 6. Builds with
 * PHASEGATE_TEST_HOOKS can be stopped at each, so that tests kill the process there.
 */
#pragma once

/* X(symbol, name): the state that has just been reached. */
#define PG_STEPS(X) \
	X(LOADED, "loaded") \
	X(LOCKED, "locked") \
	X(RECORDED, "recorded") \
	X(CGROUP, "cgroup") \
	X(ATTACHED, "attached") \
	X(CLEARED, "cleared") \
	X(PINNED, "pinned") \
	X(FILLED, "filled") \
	X(HEADER, "header") \
	X(PROBED, "probed") \
	X(SPAWNED, "spawned")

enum pg_step {
#define PG_X(symbol, name) PG_STEP_##symbol,
	PG_STEPS(PG_X)
#undef PG_X
};

#ifdef PHASEGATE_TEST_HOOKS
/* Raises SIGSTOP if the environment variable PHASEGATE_TEST_STOP_AT names the step. */
void pg_step(enum pg_step step);
#else
static inline void pg_step(enum pg_step step)
{
}
#endif
