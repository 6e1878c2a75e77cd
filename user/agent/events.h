/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened, as JSON lines: the newest ones, each with a cursor. Cursors only grow, also from
 * one run of the agent to the next.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "json/write.h"

/* Events kept. A denial is some 300 octets, so the ring has at most a few MiB. */
#define PG_EVENTS_MAX 16384

/* Events of one reply: more than a client wants at once, less than a second of printing. */
#define PG_EVENTS_REPLY_MAX 4096

#define PG_EVENT_TEXT 440

struct pg_event_line {
	uid_t owner;
	char environment[65];
	/* One object without the brackets and without its cursor: in place as a rule, since small
	 * pieces that live long would keep the heap from shrinking. */
	char text[PG_EVENT_TEXT];
	char *long_text; /* NULL: it is in .text */
};

struct pg_events {
	struct pg_event_line *lines;
	uint64_t next;	/* the cursor of the next event; .lines[cursor % PG_EVENTS_MAX] */
	uint64_t first; /* the oldest that there is */
};

int pg_events_init(struct pg_events *events) PG_MUST_CHECK;
void pg_events_clear(struct pg_events *events);

/*
 * Begins an event {"cursor":...,"time":...,"event":kind,"environment":...}; the caller adds members
 * and ends it. One that finds no memory is dropped, its cursor is not used.
 */
int pg_events_open(struct pg_json_writer *json, const char *kind,
		   const char *environment) PG_MUST_CHECK;
void pg_events_close(struct pg_events *events, struct pg_json_writer *json, uid_t owner,
		     const char *environment);

/* Who asks for which. */
struct pg_events_query {
	uint64_t cursor;
	uid_t uid;		 /* 0 sees all */
	const char *environment; /* NULL: all */
};

/* Whether there is anything for the query. Moves its cursor past what there is not. */
bool pg_events_find(const struct pg_events *events, struct pg_events_query *query);
/* Writes lines; the last is {"event":"cursor","cursor":N}, from where to go on. */
void pg_events_print(const struct pg_events *events, struct pg_events_query *query, FILE *out);
