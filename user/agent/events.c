/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

int pg_events_init(struct pg_events *events)
{
	events->room = calloc(PG_EVENTS_MAX, sizeof(*events->room));
	TAILQ_INIT(&events->lines);
	LIST_INIT(&events->owners);
	/* No other run of the agent has made a million events a second, so it began lower. */
	events->next = events->began = pg_clock_ns(CLOCK_REALTIME) / PG_NSEC_PER_USEC;
	return events->room ? 0 : -ENOMEM;
}

void pg_events_clear(struct pg_events *events)
{
	struct pg_event_owner *owner;

	for (size_t i = 0; i < events->count; i++)
		free(events->room[i].long_text);
	while ((owner = LIST_FIRST(&events->owners))) {
		LIST_REMOVE(owner, link);
		free(owner);
	}
	free(events->room);
	*events = (struct pg_events){0};
}

static struct pg_event_owner *find_owner(const struct pg_events *events, uid_t uid)
{
	struct pg_event_owner *owner;

	LIST_FOREACH (owner, &events->owners, link)
		if (owner->uid == uid)
			return owner;
	return NULL;
}

/* NULL: no memory. */
static struct pg_event_owner *take_owner(struct pg_events *events, uid_t uid)
{
	struct pg_event_owner *owner = find_owner(events, uid);

	if (owner)
		return owner;
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	owner->uid = uid;
	owner->first = events->forgotten;
	TAILQ_INIT(&owner->lines);
	LIST_INSERT_HEAD(&events->owners, owner, link);
	return owner;
}

static struct pg_event_owner *busiest(const struct pg_events *events)
{
	struct pg_event_owner *owner, *most = NULL;

	LIST_FOREACH (owner, &events->owners, link)
		if (!TAILQ_EMPTY(&owner->lines) && (!most || owner->count > most->count))
			most = owner;
	return most;
}

static struct pg_event_line *drop_one(struct pg_events *events)
{
	struct pg_event_owner *owner = busiest(events);
	struct pg_event_line *line = TAILQ_FIRST(&owner->lines);

	TAILQ_REMOVE(&events->lines, line, link);
	TAILQ_REMOVE(&owner->lines, line, of_owner);
	free(PG_TAKE_PTR(line->long_text));
	owner->first = line->cursor + 1;
	if (--owner->count)
		return line;
	events->forgotten = owner->first;
	LIST_REMOVE(owner, link);
	free(owner);
	return line;
}

static void write_time(struct pg_json_writer *json)
{
	struct timespec now;
	char text[64];
	struct tm utc;
	size_t used;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	used = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + used, sizeof(text) - used, ".%06ldZ", now.tv_nsec / 1000);
	pg_json_write_string(json, "time", text);
}

int pg_events_open(struct pg_json_writer *json, const char *kind, const char *environment)
{
	int error = pg_json_writer_start(json);

	if (error)
		return error;
	write_time(json);
	pg_json_write_string(json, "event", kind);
	pg_json_write_string(json, "environment", environment);
	return 0;
}

void pg_events_close(struct pg_events *events, struct pg_json_writer *json, uid_t uid,
		     const char *environment)
{
	pg_autofree char *text = NULL;
	struct pg_event_owner *owner;
	struct pg_event_line *line;
	size_t size;

	if (pg_json_writer_end(json, &text, &size) < 0)
		return;
	owner = take_owner(events, uid);
	if (!owner)
		return;
	/* So that the owner stays, whose own oldest one may be dropped. */
	owner->count++;
	line = events->count < PG_EVENTS_MAX ? &events->room[events->count++] : drop_one(events);
	if (size < sizeof(line->text))
		memcpy(line->text, text, size + 1);
	else
		line->long_text = PG_TAKE_PTR(text);
	snprintf(line->environment, sizeof(line->environment), "%s",
		 environment ? environment : "");
	line->cursor = events->next++;
	line->owner = owner;
	TAILQ_INSERT_TAIL(&events->lines, line, link);
	TAILQ_INSERT_TAIL(&owner->lines, line, of_owner);
}

uint64_t pg_events_first(const struct pg_events *events, const struct pg_events_query *query)
{
	const uid_t uid = query->uid ? query->uid : query->environment ? query->owner : (uid_t)-1;
	uint64_t first = events->began > events->forgotten ? events->began : events->forgotten;
	const struct pg_event_owner *owner;

	LIST_FOREACH (owner, &events->owners, link)
		if ((uid == (uid_t)-1 || owner->uid == uid) && owner->first > first)
			first = owner->first;
	return first;
}

static bool is_for(const struct pg_event_line *line, const struct pg_events_query *query)
{
	if (query->environment && strcmp(query->environment, line->environment) != 0)
		return false;
	return query->uid == 0 || query->uid == line->owner->uid;
}

/* The first at the query's cursor or behind. Who asks again is near the end. */
static const struct pg_event_line *seek(const struct pg_events *events,
					const struct pg_events_query *query)
{
	const struct pg_event_line *line = TAILQ_LAST(&events->lines, pg_event_lines),
				   *found = NULL;

	for (; line && line->cursor >= query->cursor; line = TAILQ_PREV(line, pg_event_lines, link))
		found = line;
	return found;
}

/* The first from line on that the query is about; its cursor moves there, or to the end. */
static const struct pg_event_line *match(const struct pg_events *events,
					 const struct pg_event_line *line,
					 struct pg_events_query *query)
{
	while (line && !is_for(line, query))
		line = TAILQ_NEXT(line, link);
	query->cursor = line ? line->cursor : events->next;
	return line;
}

bool pg_events_find(const struct pg_events *events, struct pg_events_query *query)
{
	return match(events, seek(events, query), query);
}

void pg_events_print(const struct pg_events *events, struct pg_events_query *query, FILE *out)
{
	const struct pg_event_line *line = seek(events, query);

	for (size_t count = 0; count < PG_EVENTS_REPLY_MAX; count++) {
		line = match(events, line, query);
		if (!line)
			break;
		fprintf(out, "{\"cursor\":%" PRIu64 ",%s}\n", query->cursor++,
			line->long_text ? line->long_text : line->text);
		line = TAILQ_NEXT(line, link);
	}
	fprintf(out, "{\"event\":\"cursor\",\"cursor\":%" PRIu64 "}\n", query->cursor);
}
