/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

int pg_events_init(struct pg_events *events)
{
	events->lines = calloc(PG_EVENTS_MAX, sizeof(*events->lines));
	/* No other run of the agent has made a million events a second, so it began lower. */
	events->next = events->first = pg_clock_ns(CLOCK_REALTIME) / PG_NSEC_PER_USEC;
	return events->lines ? 0 : -ENOMEM;
}

void pg_events_clear(struct pg_events *events)
{
	for (size_t i = 0; events->lines && i < PG_EVENTS_MAX; i++)
		free(events->lines[i].long_text);
	free(events->lines);
	*events = (struct pg_events){0};
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

void pg_events_close(struct pg_events *events, struct pg_json_writer *json, uid_t owner,
		     const char *environment)
{
	struct pg_event_line *line = &events->lines[events->next % PG_EVENTS_MAX];
	pg_autofree char *text = NULL;
	size_t size;

	if (pg_json_writer_end(json, &text, &size) < 0)
		return;
	free(PG_TAKE_PTR(line->long_text));
	if (size < sizeof(line->text))
		memcpy(line->text, text, size + 1);
	else
		line->long_text = PG_TAKE_PTR(text);
	line->owner = owner;
	snprintf(line->environment, sizeof(line->environment), "%s",
		 environment ? environment : "");
	events->next++;
	if (events->next - events->first > PG_EVENTS_MAX)
		events->first++;
}

static bool is_for(const struct pg_event_line *line, const struct pg_events_query *query)
{
	if (query->environment && strcmp(query->environment, line->environment) != 0)
		return false;
	return query->uid == 0 || query->uid == line->owner;
}

bool pg_events_find(const struct pg_events *events, struct pg_events_query *query)
{
	for (; query->cursor < events->next; query->cursor++)
		if (is_for(&events->lines[query->cursor % PG_EVENTS_MAX], query))
			return true;
	return false;
}

void pg_events_print(const struct pg_events *events, struct pg_events_query *query, FILE *out)
{
	for (size_t count = 0; count < PG_EVENTS_REPLY_MAX && pg_events_find(events, query);
	     count++, query->cursor++) {
		const struct pg_event_line *line = &events->lines[query->cursor % PG_EVENTS_MAX];

		fprintf(out, "{\"cursor\":%" PRIu64 ",%s}\n", query->cursor,
			line->long_text ? line->long_text : line->text);
	}
	fprintf(out, "{\"event\":\"cursor\",\"cursor\":%" PRIu64 "}\n", query->cursor);
}
