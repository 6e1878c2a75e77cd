/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of what is done to an Environment, in order. Builds with PHASEGATE_TEST_HOOKS can be
 * stopped at each, so that tests kill the process there.
 */
#pragma once

/* X(symbol, name): the state that has just been reached. Those of every start. */
#define PG_STEPS(X) \
	X(LOADED, "loaded") /* programs and maps are in the kernel, nothing attached */ \
	X(FILLED, "filled") /* the address sets too */ \
	X(LOCKED, "locked") \
	X(RECORDED, "recorded") /* from here on the next start knows what to clean up */ \
	X(CGROUP, "cgroup") \
	X(CLEARED, "cleared")	/* the first program, and a zero header: no packet leaves */ \
	X(ATTACHED, "attached") /* every program: all is denied at once */ \
	X(DENIED, "denied")	/* probed: everything is denied */ \
	X(HEADER, "header")	/* written and read back; the state has no phase yet */ \
	X(FORCED, "forced")	/* the state has the phase */ \
	X(PROBED, "probed") \
	X(SPAWNED, "spawned")

/* Those of kept Environments (host.h) only. */
#define PG_KEPT_STEPS(X) \
	X(STATED, "stated")	  /* create: the state file says so, nothing else does */ \
	X(UNWRITTEN, "unwritten") /* the record is not written yet */ \
	X(SAVED, "saved")	  /* create: all that the next owner needs is in the state file */ \
	X(SWITCHED, "switched")	  /* another phase is in force */ \
	X(UPDATE_FILLED, "update-filled")     /* update: the new sets are in the kernel */ \
	X(UPDATE_SAVED, "update-saved")	      /* and in the state file */ \
	X(UPDATE_WRITTEN, "update-written")   /* and in the headers, in the other bank */ \
	X(UPDATED, "updated")		      /* in force */ \
	X(UPDATE_FREED, "update-freed")	      /* the old sets are gone */ \
	X(HELD, "held")			      /* survivors: everything is frozen */ \
	X(SURVIVORS_ENDED, "survivors-ended") /* still */ \
	X(END_SAVED, "end-saved")	      /* destroy: intended */ \
	X(END_CLOSED, "end-closed")	      /* everything is denied */ \
	X(END_KILLED, "end-killed") \
	X(END_DETACHED, "end-detached")	  /* no programs, no cgroup that we made */ \
	X(END_REMOVED, "end-removed")	  /* no record; only slots are left */ \
	X(ADOPT_OPENED, "adopt-opened")	  /* adopt: read, nothing changed */ \
	X(ADOPT_WRITTEN, "adopt-written") /* programs and headers are the new owner's */

/* Those of a link's guard (links.c), where there is a link. */
#define PG_LINK_STEPS(X) \
	X(LINK_RECORDED, "link-recorded") /* the record has it */ \
	X(LINK_WRITTEN, "link-written")	  /* what it is judged by is in the kernel */ \
	X(LINK_ATTACHED, "link-attached") \
	X(LINK_DETACHED, "link-detached") /* the end: no filter any more */ \
	X(ADOPT_LINKED, "adopt-linked")	  /* the filters are the new owner's */

enum pg_step {
#define PG_X(symbol, name) PG_STEP_##symbol,
	PG_STEPS(PG_X) PG_KEPT_STEPS(PG_X) PG_LINK_STEPS(PG_X)
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
