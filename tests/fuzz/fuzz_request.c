/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of requests on arbitrary bytes: to create, and as a table of fields reads them. Beside not
 * crashing: what is refused has a reply that is JSON and names a code, and what is accepted has a
 * policy or says what is wrong with it. The first octet chooses the route for a path and a query.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/create.h"
#include "agent/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_error(const struct pg_reply *reply)
{
	cJSON *root;

	require(reply->status >= 400 && reply->body && strlen(reply->body) == reply->size);
	root = cJSON_ParseWithOpts(reply->body, NULL, 1);
	require(root && cJSON_GetStringValue(cJSON_GetObjectItem(root, "code")));
	require(cJSON_GetStringValue(cJSON_GetObjectItem(root, "next_step")));
	cJSON_Delete(root);
}

static void check_create(const char *text, size_t size)
{
	pg_autocreaterequest struct pg_create_request create = {0};
	pg_autojson struct pg_json *json = NULL;
	struct pg_reply reply = {0};
	int error = pg_request_parse(text, size, &json, &reply);

	if (!error)
		error = pg_create_request_read(json, &create, &reply);
	if (!error && !create.input.policy)
		pg_policy_input_refuse(&create.input, &reply);
	require(error || (create.input.policy != NULL) == (create.input.diagnostics.errors == 0));
	if (error || !create.input.policy)
		check_error(&reply);
	pg_reply_clear(&reply);
}

struct fields {
	bool flag;
	uint64_t number, decimal;
	const char *text;
	const struct pg_json_value *list, *object, *any;
};

/* Every type, so that none is left to chance. */
static void check_fields(const char *text, size_t size)
{
	static const struct pg_json_field fields[] = {
		PG_JSON_FIELD(struct fields, flag, PG_JSON_BOOL),
		PG_JSON_FIELD(struct fields, number, PG_JSON_NUMBER, .max = 100),
		PG_JSON_FIELD(struct fields, decimal, PG_JSON_DECIMAL),
		PG_JSON_FIELD(struct fields, text, PG_JSON_STRING, .max = 4),
		PG_JSON_FIELD(struct fields, list, PG_JSON_ARRAY, .max = 4),
		PG_JSON_FIELD(struct fields, object, PG_JSON_OBJECT),
		PG_JSON_FIELD(struct fields, any, PG_JSON_ANY),
		{.name = "policy", .type = PG_JSON_SKIP},
	};
	const struct pg_request request = {.body = text, .size = size};
	pg_autojson struct pg_json *json = NULL;
	struct pg_reply reply = {0};
	struct fields into = {0};

	if (pg_request_read(&request, fields, PG_ARRAY_SIZE(fields), &into, &json, &reply) < 0) {
		check_error(&reply);
	} else {
		require(into.number <= 100);
		require(!into.text || strlen(into.text) <= 4);
		require(!into.list || pg_json_count(into.list) <= 4);
	}
	pg_reply_clear(&reply);
}

static void check_route(const char *text, size_t size)
{
	pg_autofree char *path = strndup(text, size);
	struct pg_reply reply = {0};
	char name[PG_NAME_MAX + 1];

	require(path);
	if (!pg_route_find("GET", path, name, &reply))
		check_error(&reply);
	pg_reply_clear(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of the exact size: reading past it is seen. */
	char *text = malloc(size ? size : 1);

	require(text);
	if (size)
		memcpy(text, data, size);
	check_create(text, size);
	check_fields(text, size);
	check_route(text, size);
	free(text);
	return 0;
}
