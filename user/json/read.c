/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "json.h"
#include "type_name.h"

/* An object that is being read. */
struct reading {
	const struct pg_json *json;
	const char *pointer;
	const struct pg_json_field *fields;
	size_t count;
	char *into;
	struct pg_json_problem *problem;
};

/* pointer + "/" + key, escaped as RFC 6901 says; cut at the end of the room. */
static void make_pointer(char *to, size_t room, const char *pointer, const char *key)
{
	size_t used = (size_t)snprintf(to, room, "%s/", pointer);

	for (; *key && used + 3 < room; key++) {
		if (*key == '~' || *key == '/') {
			to[used++] = '~';
			to[used++] = *key == '~' ? '0' : '1';
		} else {
			to[used++] = *key;
		}
	}
	if (used < room)
		to[used] = '\0';
}

static int fail(const struct reading *reading, const char *key, const char *hint,
		const char *message)
{
	char pointer[sizeof(reading->problem->pointer)];

	make_pointer(pointer, sizeof(pointer), reading->pointer, key);
	return pg_json_fail(reading->problem, pointer, hint, "%s", message);
}

static int fail_type(const struct reading *reading, const cJSON *item, const char *expected)
{
	char message[128];

	snprintf(message, sizeof(message), "%s is needed here, this is %s", expected,
		 pg_json_type_name(item));
	return fail(reading, item->string, NULL, message);
}

static int fail_unknown(const struct reading *reading, const char *key)
{
	const char *names[PG_JSON_FIELDS_MAX];
	size_t count = 0;

	for (; count < reading->count; count++)
		names[count] = reading->fields[count].name;
	return fail(reading, key, pg_text_nearest(key, names, count), "no field has this name");
}

static int fail_max(const struct reading *reading, const struct pg_json_field *field,
		    const char *what)
{
	char message[128];

	snprintf(message, sizeof(message), "at most %" PRIu64 " %s", field->max, what);
	return fail(reading, field->name, NULL, message);
}

static int read_number(const struct reading *reading, const struct pg_json_field *field,
		       const cJSON *item, uint64_t *ret_number)
{
	const uint64_t max = field->max ? field->max : PG_JSON_NUMBER_MAX;
	char message[128];

	if (!cJSON_IsNumber(item))
		return fail_type(reading, item, "an integer");
	if (pg_json_number_of((const struct pg_json_value *)item, max, ret_number))
		return 0;
	snprintf(message, sizeof(message), "an integer from 0 to %" PRIu64 " is needed", max);
	return fail(reading, field->name, NULL, message);
}

static int read_decimal(const struct reading *reading, const struct pg_json_field *field,
			const cJSON *item, uint64_t *ret_number)
{
	unsigned long long number;
	char *end;

	if (!cJSON_IsString(item))
		return read_number(reading, field, item, ret_number);
	errno = 0;
	number = strtoull(item->valuestring, &end, 10);
	if (errno || *end || *item->valuestring < '0' || *item->valuestring > '9')
		return fail(reading, field->name, NULL, "an integer in decimal digits is needed");
	*ret_number = number;
	return 0;
}

static int read_string(const struct reading *reading, const struct pg_json_field *field,
		       const cJSON *item, const char **ret_text)
{
	if (!cJSON_IsString(item))
		return fail_type(reading, item, "a string");
	if (strstr(item->valuestring, PG_TEXT_NUL))
		return fail(reading, field->name, NULL, "the string has a NUL");
	if (field->max && strlen(item->valuestring) > field->max)
		return fail_max(reading, field, "octets");
	*ret_text = item->valuestring;
	return 0;
}

static int read_array(const struct reading *reading, const struct pg_json_field *field,
		      const cJSON *item, const cJSON **ret_item)
{
	if (!cJSON_IsArray(item))
		return fail_type(reading, item, "an array");
	if (field->max && (uint64_t)cJSON_GetArraySize(item) > field->max)
		return fail_max(reading, field, "elements");
	*ret_item = item;
	return 0;
}

/* The key may have been written with escapes, which the scan does not see. */
static int check_skipped(const struct reading *reading, const struct pg_json_field *field)
{
	size_t size;

	if (pg_json_skipped(reading->json, &size))
		return 0;
	return fail(reading, field->name, NULL, "write the name of this field without escapes");
}

static int read_value(const struct reading *reading, const struct pg_json_field *field,
		      const cJSON *item)
{
	void *into = reading->into + field->offset;

	switch (field->type) {
	case PG_JSON_BOOL:
		if (!cJSON_IsBool(item))
			return fail_type(reading, item, "true or false");
		*(bool *)into = cJSON_IsTrue(item);
		return 0;
	case PG_JSON_NUMBER:
		return read_number(reading, field, item, into);
	case PG_JSON_DECIMAL:
		return read_decimal(reading, field, item, into);
	case PG_JSON_STRING:
		return read_string(reading, field, item, into);
	case PG_JSON_ARRAY:
		return read_array(reading, field, item, into);
	case PG_JSON_OBJECT:
		if (!cJSON_IsObject(item))
			return fail_type(reading, item, "an object");
		*(const cJSON **)into = item;
		return 0;
	case PG_JSON_ANY:
		*(const cJSON **)into = item;
		return 0;
	case PG_JSON_SKIP:
		return check_skipped(reading, field);
	}
	return -EINVAL;
}

/* A value that was skipped stands as a number, also if it was null. */
static bool is_absent(const struct reading *reading, const struct pg_json_field *field,
		      const cJSON *item)
{
	size_t size;

	if (!item || cJSON_IsNull(item))
		return true;
	return field->type == PG_JSON_SKIP && !pg_json_skipped(reading->json, &size) && size > 0;
}

static int find_members(const struct reading *reading, const cJSON *object, const cJSON **found)
{
	const cJSON *item;

	cJSON_ArrayForEach (item, object) {
		size_t i = 0;

		while (i < reading->count && strcmp(item->string, reading->fields[i].name) != 0)
			i++;
		if (i == reading->count)
			return fail_unknown(reading, item->string);
		if (found[i])
			return fail(reading, item->string, NULL, "the field is there twice");
		found[i] = item;
	}
	return 0;
}

int pg_json_read(const struct pg_json *json, const struct pg_json_value *object,
		 const char *pointer, const struct pg_json_field *fields, size_t count, void *into,
		 struct pg_json_problem *problem)
{
	const struct reading reading = {json, pointer, fields, count, into, problem};
	const cJSON *found[PG_JSON_FIELDS_MAX] = {NULL};
	int result;

	if (!pg_json_is_object(object))
		return pg_json_fail(problem, pointer, NULL, "an object is needed here, this is %s",
				    pg_json_type_name((const cJSON *)object));
	result = find_members(&reading, (const cJSON *)object, found);
	for (size_t i = 0; result == 0 && i < count; i++) {
		if (!is_absent(&reading, &fields[i], found[i]))
			result = read_value(&reading, &fields[i], found[i]);
		else if (fields[i].required)
			result = fail(&reading, fields[i].name, NULL, "the field is missing");
	}
	return result;
}
