/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const struct pg_route routes[] = {
#define PG_X(method, path, handler, query) {method, path, query, handler},
	PG_ROUTES(PG_X)
#undef PG_X
};

/* Whether the path is one of the route; *ret_name is where its name starts, with its length. */
static bool matches(const char *pattern, const char *path, const char **ret_name, size_t *ret_size)
{
	while (*pattern && *path) {
		if (*pattern == '*') {
			*ret_name = path;
			*ret_size = strcspn(path, "/");
			if (*ret_size == 0)
				return false;
			path += *ret_size;
			pattern++;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return *pattern == *path;
}

static bool is_known_method(const char *method)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(routes); i++)
		if (strcmp(method, routes[i].method) == 0)
			return true;
	return false;
}

/* allowed: as a header field has them. */
static void fail(const char *method, const char *path, const char *allowed, struct pg_reply *reply)
{
	pg_autofree char *printable = pg_text_printable(path, strlen(path), 128);

	if (!*allowed)
		pg_reply_error(reply, PG_API_ROUTE_NOT_FOUND, printable, NULL,
			       "the agent has no such path");
	else
		pg_reply_error(reply, PG_API_METHOD_NOT_ALLOWED, printable, NULL,
			       "the path takes %s, not %s", allowed,
			       is_known_method(method) ? method : "this method");
	snprintf(reply->allow, sizeof(reply->allow), "%s", allowed);
}

const struct pg_route *pg_route_find(const char *method, const char *path, char *name,
				     struct pg_reply *reply)
{
	char allowed[sizeof(reply->allow)] = "";

	for (size_t i = 0; i < PG_ARRAY_SIZE(routes); i++) {
		const char *found = NULL;
		size_t size = 0, used;

		if (!matches(routes[i].path, path, &found, &size))
			continue;
		if (strcmp(method, routes[i].method) != 0) {
			used = strlen(allowed);
			snprintf(allowed + used, sizeof(allowed) - used, "%s%s", used ? ", " : "",
				 strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD"
								      : routes[i].method);
			continue;
		}
		if (size > PG_NAME_MAX) {
			pg_reply_error(reply, PG_API_NAME_INVALID, NULL, NULL,
				       "the name has more than %d octets", PG_NAME_MAX);
			return NULL;
		}
		snprintf(name, PG_NAME_MAX + 1, "%.*s", (int)size, found ? found : "");
		return &routes[i];
	}
	fail(method, path, allowed, reply);
	return NULL;
}

/* The words of a route's query, NUL-terminated in buffer. */
static size_t split(const char *query, char *buffer, size_t room, const char **words)
{
	size_t count = 0;
	char *rest = buffer, *word;

	snprintf(buffer, room, "%s", query);
	while (count < PG_QUERY_MAX && (word = strsep(&rest, " ")))
		if (*word)
			words[count++] = word;
	return count;
}

int pg_route_check_query(const struct pg_route *route, const struct pg_request *request,
			 struct pg_reply *reply)
{
	const char *words[PG_QUERY_MAX];
	char buffer[128];
	const size_t count = split(route->query, buffer, sizeof(buffer), words);

	for (size_t i = 0; i < request->query_count; i++) {
		const char *name = request->query[i].name;
		pg_autofree char *printable = pg_text_printable(name, strlen(name), 64);
		const char *near = pg_text_nearest(name, words, count);
		char next_step[64];
		size_t j = 0;

		while (j < count && strcmp(name, words[j]) != 0)
			j++;
		snprintf(next_step, sizeof(next_step), "write %s", near ? near : "");
		if (j == count)
			pg_reply_error(reply, PG_API_REQUEST_INVALID, printable,
				       near ? next_step : NULL,
				       "the path has no query field of this name");
		else if (pg_request_query(request, name) != request->query[i].value)
			pg_reply_error(reply, PG_API_REQUEST_INVALID, printable, NULL,
				       "the query field is there twice");
		else
			continue;
		return -EINVAL;
	}
	return 0;
}

const char *pg_request_query(const struct pg_request *request, const char *name)
{
	for (size_t i = 0; i < request->query_count; i++)
		if (strcmp(request->query[i].name, name) == 0)
			return request->query[i].value;
	return NULL;
}
