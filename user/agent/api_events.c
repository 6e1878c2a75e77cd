/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "request.h"

/* *ret_cursor stays as it is without one. */
static int read_cursor(const struct pg_agent *agent, const char *text, uint64_t first,
		       uint64_t *ret_cursor, struct pg_reply *reply)
{
	unsigned long long cursor;
	char *end;

	if (!text)
		return 0;
	if (strcmp(text, "now") == 0) {
		*ret_cursor = agent->events.next;
		return 0;
	}
	if (strcmp(text, "oldest") == 0) {
		*ret_cursor = first;
		return 0;
	}
	errno = 0;
	cursor = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno) {
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, "cursor", NULL,
				      "a cursor is a number from an earlier reply, \"now\" or"
				      " \"oldest\"");
	}
	*ret_cursor = cursor;
	return 0;
}

static int read_follow(const char *text, bool *ret_follow, struct pg_reply *reply)
{
	*ret_follow = text && strcmp(text, "1") == 0;
	if (!text || *ret_follow || strcmp(text, "0") == 0)
		return 0;
	pg_reply_error(reply, PG_API_REQUEST_INVALID, "follow", NULL, "follow is 0 or 1");
	return -EINVAL;
}

static void refuse_cursor(uint64_t first, struct pg_reply *reply)
{
	char oldest[32];

	snprintf(oldest, sizeof(oldest), "%" PRIu64, first);
	pg_reply_error(reply, PG_API_CURSOR_EXPIRED, oldest, NULL,
		       "events from this cursor on are not kept any more, or are none of this"
		       " agent's");
}

/* Whose events may have been dropped of one who asks about the Environment; -1: anybody's. */
static uid_t owner_of(const struct pg_agent *agent, const char *name)
{
	const struct pg_managed *managed = name ? pg_agent_find(agent, name) : NULL;

	return managed ? pg_environment_owner(managed->environment) : (uid_t)-1;
}

/* Where who asks about an Environment begins: what was there of its name before is not it. */
static uint64_t begin_of(const struct pg_agent *agent, const struct pg_events_query *query,
			 uint64_t first)
{
	const struct pg_managed *managed =
		query->environment ? pg_agent_find(agent, query->environment) : NULL;

	if (!managed || (query->uid && query->uid != query->owner) || managed->events_from < first)
		return first;
	return managed->events_from;
}

void pg_api_events(struct pg_agent *agent, const struct pg_request *request, struct pg_reply *reply)
{
	struct pg_events_query query = {.uid = request->caller->uid,
					.environment = pg_request_query(request, "environment")};
	uint64_t first;
	bool follow;
	int error;

	query.owner = owner_of(agent, query.environment);
	first = pg_events_first(&agent->events, &query);
	query.cursor = begin_of(agent, &query, first);

	if (read_cursor(agent, pg_request_query(request, "cursor"), first, &query.cursor, reply) <
		    0 ||
	    read_follow(pg_request_query(request, "follow"), &follow, reply) < 0)
		return;
	if (*request->resume)
		query.cursor = *request->resume;
	if (query.cursor < first || query.cursor > agent->events.next) {
		refuse_cursor(first, reply);
		return;
	}
	if (follow && !request->last && !pg_events_find(&agent->events, &query)) {
		*request->resume = query.cursor;
		reply->wait = true;
		return;
	}
	error = pg_json_writer_start(&reply->json);
	if (!error) {
		pg_events_print(&agent->events, &query, reply->json.out);
		error = pg_json_writer_end(&reply->json, &reply->body, &reply->size);
	}
	if (error) {
		pg_reply_error(reply, PG_API_OUT_OF_MEMORY, NULL, NULL,
			       "no memory to print the events");
		return;
	}
	reply->status = 200;
	reply->lines = true;
}
