/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "client.h"

/* The last line, {"event":"cursor","cursor":N}. */
static int read_cursor(const char *line, size_t size, uint64_t *ret_cursor,
		       struct phasegate_error **ret_error)
{
	static const struct pg_json_limits limits = {.size = 1024, .depth = 2, .values = 16};
	const struct pg_json_value *event, *cursor;
	struct pg_json_problem problem = {};
	pg_autojson struct pg_json *json = NULL;
	const char *kind;
	int error = pg_json_parse(line, size, &limits, &json, &problem);

	if (error == -ENOMEM)
		return client_no_memory(ret_error);
	if (error)
		return client_bad_reply(ret_error, "events do not end with a cursor");
	event = pg_json_member(pg_json_root(json), "event");
	cursor = pg_json_member(pg_json_root(json), "cursor");
	kind = event ? pg_json_string_of(event) : NULL;
	if (!kind || strcmp(kind, "cursor") != 0 || !cursor ||
	    !pg_json_number_of(cursor, PG_JSON_NUMBER_MAX, ret_cursor))
		return client_bad_reply(ret_error, "events do not end with a cursor");
	return 0;
}

static int hand_over(const char *text, const char *last, phasegate_event event, void *userdata,
		     struct phasegate_error **ret_error)
{
	while (text < last) {
		const char *end = memchr(text, '\n', (size_t)(last - text));

		if (!event(userdata, text, (size_t)(end - text)))
			return client_fail(ret_error, -ECANCELED, "cancelled",
					   "go on from the last event that was taken",
					   "events are not wanted any more");
		text = end + 1;
	}
	return 0;
}

PHASEGATE_API int phasegate_events(struct phasegate_client *client,
				   const struct phasegate_events *wanted, phasegate_event event,
				   void *userdata, uint64_t *ret_cursor,
				   struct phasegate_error **ret_error)
{
	struct client_request request = {.method = "GET", .target = "/v1/events"};
	client_autoreply struct client_reply reply = {0};
	const char *last;
	uint64_t cursor;
	int error;

	client_query(&request, "cursor", wanted->cursor);
	client_query(&request, "environment", wanted->environment);
	client_query(&request, "follow", wanted->follow ? "1" : NULL);
	error = client_send(client, &request, &reply, ret_error);
	if (error)
		return error;
	if (reply.text[reply.size - 1] != '\n')
		return client_bad_reply(ret_error, "events do not end with a line");
	reply.size--;
	last = memrchr(reply.text, '\n', reply.size);
	last = last ? last + 1 : reply.text;
	error = read_cursor(last, (size_t)(reply.text + reply.size - last), &cursor, ret_error);
	if (!error)
		error = hand_over(reply.text, last, event, userdata, ret_error);
	if (!error)
		*ret_cursor = cursor;
	return error;
}
