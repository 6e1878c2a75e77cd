/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

struct pg_json {
	cJSON *root;
	const char *skipped;
	size_t skipped_size;
};

static const cJSON *item_of(const struct pg_json_value *value)
{
	return (const cJSON *)value;
}

static const struct pg_json_value *value_of(const cJSON *item)
{
	return (const struct pg_json_value *)item;
}

static void copy_printable(char *to, size_t room, const char *text)
{
	pg_autofree char *printable = pg_text_printable(text, strlen(text), room - sizeof("..."));

	snprintf(to, room, "%s", printable ? printable : "");
}

int pg_json_fail(struct pg_json_problem *problem, const char *pointer, const char *hint,
		 const char *format, ...)
{
	va_list args;

	copy_printable(problem->pointer, sizeof(problem->pointer), pointer);
	snprintf(problem->hint, sizeof(problem->hint), "%s", hint ? hint : "");
	va_start(args, format);
	vsnprintf(problem->message, sizeof(problem->message), format, args);
	va_end(args);
	return -EINVAL;
}

static int fail_at(struct pg_json_problem *problem, const char *text, size_t position,
		   const char *what)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < position; i++) {
		column = text[i] == '\n' ? 1 : column + 1;
		line += text[i] == '\n';
	}
	return pg_json_fail(problem, "", NULL, "line %zu, column %zu: %s", line, column, what);
}

static int fail_scan(struct pg_json_problem *problem, const char *text, size_t size,
		     const struct pg_json_limits *limits, const struct pg_json_scan *scan)
{
	switch (scan->fault) {
	case PG_JSON_SYNTAX:
		return fail_at(problem, text, scan->position,
			       scan->position < size ? "not valid JSON"
						     : "the JSON text ends early");
	case PG_JSON_TOO_LARGE:
		return pg_json_fail(problem, "", NULL, "the text has more than %zu octets",
				    limits->size);
	case PG_JSON_TOO_DEEP:
		return pg_json_fail(problem, "", NULL, "nested more than %zu levels deep",
				    limits->depth);
	case PG_JSON_TOO_MANY_VALUES:
		return pg_json_fail(problem, "", NULL, "more than %zu values", limits->values);
	}
	return -EINVAL;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

int pg_json_parse(const char *text, size_t size, const struct pg_json_limits *limits,
		  struct pg_json **ret_json, struct pg_json_problem *problem)
{
	pg_autojson struct pg_json *json = calloc(1, sizeof(*json));
	pg_autofree char *copy = NULL;
	struct pg_json_scan scan;
	const char *end = NULL;

	if (size <= limits->size)
		copy = malloc(size + 1);
	if (!json || (size <= limits->size && !copy))
		return -ENOMEM;
	if (pg_json_scan(text, size, limits, copy, &scan) < 0)
		return fail_scan(problem, text, size, limits, &scan);
	/* cJSON does not say why it failed, but malloc(3) does. */
	errno = 0;
	json->root = cJSON_ParseWithLengthOpts(copy, scan.size + 1, &end, 0);
	if (!json->root && errno == ENOMEM)
		return -ENOMEM;
	while (json->root && is_space(*end))
		end++;
	if (!json->root || end < copy + scan.size)
		return fail_at(problem, copy, end ? (size_t)(end - copy) : 0, "not valid JSON");
	json->skipped_size = scan.skipped_size;
	if (scan.skipped_size != strlen("null") || memcmp(scan.skipped, "null", 4) != 0)
		json->skipped = scan.skipped;
	*ret_json = PG_TAKE_PTR(json);
	return 0;
}

void pg_json_free(struct pg_json *json)
{
	if (!json)
		return;
	cJSON_Delete(json->root);
	free(json);
}

const struct pg_json_value *pg_json_root(const struct pg_json *json)
{
	return value_of(json->root);
}

const char *pg_json_skipped(const struct pg_json *json, size_t *ret_size)
{
	*ret_size = json->skipped_size;
	return json->skipped;
}

const struct pg_json_value *pg_json_first(const struct pg_json_value *array)
{
	return value_of(item_of(array)->child);
}

const struct pg_json_value *pg_json_next(const struct pg_json_value *element)
{
	return value_of(item_of(element)->next);
}

size_t pg_json_count(const struct pg_json_value *array)
{
	return (size_t)cJSON_GetArraySize(item_of(array));
}

const char *pg_json_string_of(const struct pg_json_value *value)
{
	return cJSON_IsString(item_of(value)) ? item_of(value)->valuestring : NULL;
}

bool pg_json_number_of(const struct pg_json_value *value, uint64_t max, uint64_t *ret_number)
{
	const cJSON *item = item_of(value);
	uint64_t number;

	if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > (double)max)
		return false;
	number = (uint64_t)item->valuedouble;
	if ((double)number != item->valuedouble)
		return false;
	*ret_number = number;
	return true;
}

bool pg_json_is_object(const struct pg_json_value *value)
{
	return cJSON_IsObject(item_of(value));
}

bool pg_json_is_array(const struct pg_json_value *value)
{
	return cJSON_IsArray(item_of(value));
}

const struct pg_json_value *pg_json_member(const struct pg_json_value *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(item_of(object), name);

	return cJSON_IsNull(item) ? NULL : value_of(item);
}

const char *pg_json_name_of(const struct pg_json_value *value)
{
	return item_of(value)->string;
}

bool pg_json_is_true(const struct pg_json_value *value)
{
	return cJSON_IsTrue(item_of(value));
}

char *pg_json_print(const struct pg_json_value *value)
{
	return cJSON_PrintUnformatted(item_of(value));
}
