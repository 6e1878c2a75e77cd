/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Environment that the agent serves: the object that enforces, and what the agent itself has to
 * remember of it, which is kept as the Environment's note so that the next agent finds it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "environment/environment.h"

/* X(symbol, name): where verification runs. */
#define PG_VERIFIERS(X) \
	X(HOST, "host") /* on the host: no policy applies, so the phase is refused */ \
	X(SAME, "same") \
	X(NEW, "new") /* in an Environment of its own */

enum pg_verifier {
#define PG_X(symbol, name) PG_VERIFIER_##symbol,
	PG_VERIFIERS(PG_X)
#undef PG_X
};

#define PG_LEASE_DENY (-1)

/* A phase that ends by itself. */
struct pg_lease {
	bool set;
	enum pg_phase phase; /* of which it is */
	int then;	     /* enum pg_phase, or PG_LEASE_DENY */
	uint64_t deadline;   /* CLOCK_BOOTTIME ns */
};

/* What is kept in the note. */
struct pg_note {
	/* Of the request that made it: the same request again is the same Environment. */
	uint64_t digest;
	enum pg_verifier verifier;
	bool apart; /* members may not reach each other */
	/* What each member was asked for as, a line each: JSON members of an object. Owned. */
	char *members;
	char *exposures; /* elements of a JSON array, of exposures.h; owned */
	uint64_t let;	 /* kinds of them that were let be at its creation, one bit each */
	char *warnings;	 /* elements of a JSON array: those of its creation; owned */
	/* When the run phase began of which processes may be alive (CLOCK_BOOTTIME ns); 0: none. */
	uint64_t run_since;
	bool frozen; /* processes of the run are frozen */
	struct pg_lease lease;
};

/* Deep copy; -ENOMEM. */
int pg_note_copy(const struct pg_note *note, struct pg_note *ret_copy) PG_MUST_CHECK;
void pg_note_clear(struct pg_note *note);
#define pg_autonote PG_CLEANUP(pg_note_clear)

/* Text to keep, which the caller frees, and back. -EINVAL: it is not one of a note. */
int pg_note_print(const struct pg_note *note, char **ret_text) PG_MUST_CHECK;
int pg_note_parse(const char *text, struct pg_note *ret_note, struct pg_error *err) PG_MUST_CHECK;

const char *pg_verifier_name(enum pg_verifier verifier);
int pg_verifier_parse(const char *name, enum pg_verifier *ret_verifier) PG_MUST_CHECK;

struct pg_managed {
	LIST_ENTRY(pg_managed) link;
	struct pg_environment *environment;
	struct pg_note note;
	struct pg_exposure_watch *exposure_watch; /* exposures_watch.h; NULL: none */
	bool told_unconfined;			  /* that a member is not confined */
	uint64_t events_from;			  /* a cursor; 0: all of its name are its own */
};
LIST_HEAD(pg_managed_list, pg_managed);

/* Keeps the note and takes it over from *note. On failure the old one stays. */
int pg_managed_set_note(struct pg_managed *managed, struct pg_note *note,
			struct pg_error *err) PG_MUST_CHECK;
