/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened, as JSON lines: the newest ones, each with a cursor. Cursors only grow, also from
 * one run of the agent to the next. Where there is no room for one more, the user of whom there are
 * most loses the oldest: an Environment that is denied all day does not take other users' events.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "json/write.h"

/* Events kept. A denial is some 300 octets, so the ring has at most a few MiB. */
#define PG_EVENTS_MAX 16384

/* Events of one reply: more than a client wants at once, less than a second of printing. */
#define PG_EVENTS_REPLY_MAX 4096

#define PG_EVENT_TEXT 440

struct pg_event_owner;

struct pg_event_line {
	TAILQ_ENTRY(pg_event_line) link;     /* of all, in the order of cursors */
	TAILQ_ENTRY(pg_event_line) of_owner; /* of one owner's */
	uint64_t cursor;
	struct pg_event_owner *owner;
	char environment[65];
	/* One object without the brackets and without its cursor: in place as a rule, since small
	 * pieces that live long would keep the heap from shrinking. */
	char text[PG_EVENT_TEXT];
	char *long_text; /* NULL: it is in .text */
};

TAILQ_HEAD(pg_event_lines, pg_event_line);

struct pg_event_owner {
	LIST_ENTRY(pg_event_owner) link;
	uid_t uid;
	size_t count;
	uint64_t first; /* from this cursor on nothing of the owner's was dropped */
	struct pg_event_lines lines;
};

struct pg_events {
	struct pg_event_line *room; /* PG_EVENTS_MAX of them, .count in use */
	size_t count;
	struct pg_event_lines lines;
	LIST_HEAD(pg_event_owners, pg_event_owner) owners; /* those who have lines */
	uint64_t next;					   /* the cursor of the next event */
	uint64_t began;					   /* of the first one */
	uint64_t forgotten; /* from this cursor on nobody was dropped who is not in .owners */
};

int pg_events_init(struct pg_events *events) PG_MUST_CHECK;
void pg_events_clear(struct pg_events *events);

/*
 * Begins an event {"cursor":...,"time":...,"event":kind,"environment":...}; the caller adds members
 * and ends it. One that finds no memory is dropped, its cursor is not used.
 */
int pg_events_open(struct pg_json_writer *json, const char *kind,
		   const char *environment) PG_MUST_CHECK;
void pg_events_close(struct pg_events *events, struct pg_json_writer *json, uid_t uid,
		     const char *environment);

/* Who asks for which. */
struct pg_events_query {
	uint64_t cursor;
	uid_t uid;		 /* 0 sees all */
	const char *environment; /* NULL: all */
	/* Who owns the environment, for one who sees all; -1: nobody is known. */
	uid_t owner;
};

/* The oldest cursor from which on nothing was dropped of what the query may be about. */
uint64_t pg_events_first(const struct pg_events *events, const struct pg_events_query *query);
/* Whether there is anything for the query. Moves its cursor past what there is not. */
bool pg_events_find(const struct pg_events *events, struct pg_events_query *query);
/* Writes lines; the last is {"event":"cursor","cursor":N}, from where to go on. */
void pg_events_print(const struct pg_events *events, struct pg_events_query *query, FILE *out);
