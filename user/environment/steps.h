/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of starting an Environment, in order. Builds with PHASEGATE_TEST_HOOKS can be stopped
 * at each, so that tests kill the process there.
 */
#pragma once

/* X(symbol, name): the state that has just been reached. */
#define PG_STEPS(X) \
	X(LOADED, "loaded") /* programs and maps are in the kernel, nothing attached */ \
	X(FILLED, "filled") /* the address sets too */ \
	X(LOCKED, "locked") \
	X(RECORDED, "recorded") /* from here on the next start knows what to clean up */ \
	X(CGROUP, "cgroup")	/* the cgroup and the pin directory exist */ \
	X(CLEARED, "cleared")	/* the first link, and a zero header: no packet leaves */ \
	X(ATTACHED, "attached") /* every link: all is denied at once */ \
	X(PINNED, "pinned") \
	X(DENIED, "denied") /* probed: everything is denied */ \
	X(HEADER, "header") /* written and read back */ \
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
