/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

#include "json/json.h"
#include "json/write.h"

struct target {
	bool flag;
	uint64_t number, decimal;
	const char *text;
	const struct pg_json_value *list, *object;
};

static const struct pg_json_field fields[] = {
	PG_JSON_FIELD(struct target, flag, PG_JSON_BOOL),
	PG_JSON_FIELD(struct target, number, PG_JSON_NUMBER, .max = 1000),
	PG_JSON_FIELD(struct target, decimal, PG_JSON_DECIMAL),
	PG_JSON_FIELD(struct target, text, PG_JSON_STRING, .max = 8, .required = true),
	PG_JSON_FIELD(struct target, list, PG_JSON_ARRAY, .max = 2),
	PG_JSON_FIELD(struct target, object, PG_JSON_OBJECT),
	{.name = "policy", .type = PG_JSON_SKIP},
};

static const struct pg_json_limits limits = {.size = 1024,
					     .depth = 3,
					     .values = 32,
					     .skip = "policy"};

static int read_text(const char *text, struct target *target, struct pg_json **ret_json,
		     struct pg_json_problem *problem)
{
	int result = pg_json_parse(text, strlen(text), &limits, ret_json, problem);

	if (result < 0)
		return result;
	return pg_json_read(*ret_json, pg_json_root(*ret_json), "", fields, PG_ARRAY_SIZE(fields),
			    target, problem);
}

Test(json, reads_every_type)
{
	pg_autojson struct pg_json *json = NULL;
	struct pg_json_problem problem;
	struct target target = {0};

	cr_assert_eq(
		read_text("{\"flag\":true,\"number\":1000,\"decimal\":\"18446744073709551615\","
			  "\"text\":\"a\\u00e9\",\"list\":[1,\"b\"],\"object\":{}}",
			  &target, &json, &problem),
		0);
	cr_expect(target.flag);
	cr_expect_eq(target.number, 1000);
	cr_expect_eq(target.decimal, UINT64_MAX);
	cr_expect_str_eq(target.text, "a\xc3\xa9");
	cr_expect_eq(pg_json_count(target.list), 2);
	cr_expect_null(pg_json_string_of(pg_json_first(target.list)));
	cr_expect_str_eq(pg_json_string_of(pg_json_next(pg_json_first(target.list))), "b");
	cr_expect(pg_json_is_object(target.object));
}

Test(json, absent_and_null_leave_the_variable)
{
	pg_autojson struct pg_json *json = NULL;
	struct pg_json_problem problem;
	struct target target = {.number = 7, .flag = true};

	cr_assert_eq(read_text("{\"text\":\"\",\"flag\":null,\"policy\":null}", &target, &json,
			       &problem),
		     0);
	cr_expect(target.flag);
	cr_expect_eq(target.number, 7);
}

struct refusal {
	const char *text, *pointer, *hint, *message;
};

static const struct refusal refusals[] = {
	{"[]", "", "", "an object is needed here, this is an array"},
	{"{", "", "", "line 1, column 2: not valid JSON"},
	{"{}\n x", "", "", "line 2, column 2: not valid JSON"},
	{"{\"text\":\"a", "", "", "line 1, column 11: the JSON text ends early"},
	{"{\"a\":[[[1]]]}", "", "", "nested more than 3 levels deep"},
	{"{\"a\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}", "", "",
	 "more than 32 values"},
	{"{}", "/text", "", "the field is missing"},
	{"{\"text\":null}", "/text", "", "the field is missing"},
	{"{\"tekst\":\"\"}", "/tekst", "text", "no field has this name"},
	{"{\"a/b~\\u001b\":1}", "/a~1b~0\\u001b", "", "no field has this name"},
	{"{\"text\":\"\",\"text\":\"\"}", "/text", "", "the field is there twice"},
	{"{\"text\":1}", "/text", "", "a string is needed here, this is a number"},
	{"{\"text\":\"123456789\"}", "/text", "", "at most 8 octets"},
	{"{\"text\":\"a\\u0000\"}", "/text", "", "the string has a NUL"},
	{"{\"text\":\"\",\"flag\":0}", "/flag", "",
	 "true or false is needed here, this is a number"},
	{"{\"text\":\"\",\"number\":1001}", "/number", "", "an integer from 0 to 1000 is needed"},
	{"{\"text\":\"\",\"number\":-1}", "/number", "", "an integer from 0 to 1000 is needed"},
	{"{\"text\":\"\",\"number\":1.5}", "/number", "", "an integer from 0 to 1000 is needed"},
	{"{\"text\":\"\",\"number\":1e999}", "/number", "", "an integer from 0 to 1000 is needed"},
	{"{\"text\":\"\",\"number\":\"1\"}", "/number", "",
	 "an integer is needed here, this is a string"},
	{"{\"text\":\"\",\"decimal\":\"-1\"}", "/decimal", "",
	 "an integer in decimal digits is needed"},
	{"{\"text\":\"\",\"decimal\":\"18446744073709551616\"}", "/decimal", "",
	 "an integer in decimal digits is needed"},
	{"{\"text\":\"\",\"decimal\":\"\"}", "/decimal", "",
	 "an integer in decimal digits is needed"},
	{"{\"text\":\"\",\"list\":[1,2,3]}", "/list", "", "at most 2 elements"},
	{"{\"text\":\"\",\"object\":[]}", "/object", "",
	 "an object is needed here, this is an array"},
	{"{\"text\":\"\",\"polic\\u0079\":{}}", "/policy", "",
	 "write the name of this field without escapes"},
	{"{\"text\":\"\",\"policy\":{},\"policy\":{}}", "/policy", "", "the field is there twice"},
};

Test(json, refuses_with_place_and_reason)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(refusals); i++) {
		const struct refusal *refusal = &refusals[i];
		pg_autojson struct pg_json *json = NULL;
		struct pg_json_problem problem = {};
		struct target target = {0};

		cr_assert_eq(read_text(refusal->text, &target, &json, &problem), -EINVAL, "%s",
			     refusal->text);
		cr_expect_str_eq(problem.pointer, refusal->pointer, "%s: %s", refusal->text,
				 problem.pointer);
		cr_expect_str_eq(problem.hint, refusal->hint, "%s: %s", refusal->text,
				 problem.hint);
		cr_expect_str_eq(problem.message, refusal->message, "%s: %s", refusal->text,
				 problem.message);
	}
}

Test(json, refuses_what_is_too_large)
{
	pg_autojson struct pg_json *json = NULL;
	struct pg_json_problem problem;
	char text[1026];

	memset(text, ' ', sizeof(text));
	cr_expect_eq(pg_json_parse(text, sizeof(text), &limits, &json, &problem), -EINVAL);
	cr_expect_str_eq(problem.message, "the text has more than 1024 octets");
}

/* What is skipped neither counts nor is looked into, and is handed over as it stands. */
Test(json, skips_a_value)
{
	static const char *const values[] = {
		"{\"policy\":[[[[\"}\",{\"a\":1}]]]]}",
		"[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]",
		"\"a\\\"b\"",
		"1",
		"0",
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(values); i++) {
		pg_autojson struct pg_json *json = NULL;
		struct pg_json_problem problem = {};
		struct target target = {0};
		const char *skipped;
		char text[256];
		size_t size;

		snprintf(text, sizeof(text), "{\"policy\" : %s , \"text\":\"x\"}", values[i]);
		cr_assert_eq(read_text(text, &target, &json, &problem), 0, "%s", problem.message);
		skipped = pg_json_skipped(json, &size);
		cr_assert_eq(size, strlen(values[i]));
		cr_expect_eq(memcmp(skipped, values[i], size), 0);
		cr_expect_str_eq(target.text, "x");
	}
}

Test(json, a_skipped_value_that_is_missing_is_a_fault)
{
	pg_autojson struct pg_json *json = NULL;
	struct pg_json_problem problem;
	struct target target = {0};

	cr_expect_eq(read_text("{\"policy\":,\"text\":\"\"}", &target, &json, &problem), -EINVAL);
}

Test(json, writes_what_it_reads)
{
	pg_autojsonwriter struct pg_json_writer writer;
	pg_autofree char *text = NULL;
	size_t size;

	cr_assert_eq(pg_json_writer_start(&writer), 0);
	pg_json_write_open(&writer, NULL, '{');
	pg_json_write_string(&writer, "a\"", "b\n");
	pg_json_write_open(&writer, "list", '[');
	pg_json_write_number(&writer, NULL, 1);
	pg_json_write_null(&writer, NULL);
	pg_json_write_open(&writer, NULL, '{');
	pg_json_write_close(&writer, '}');
	pg_json_write_close(&writer, ']');
	pg_json_write_bool(&writer, "t", true);
	pg_json_write_decimal(&writer, "d", UINT64_MAX);
	pg_json_write_real(&writer, "r", 1.25);
	pg_json_write_name(&writer, "raw");
	fputs("[]", writer.out);
	pg_json_write_close(&writer, '}');
	cr_assert_eq(pg_json_writer_end(&writer, &text, &size), 0);
	cr_expect_str_eq(text, "{\"a\\\"\":\"b\\u000a\",\"list\":[1,null,{}],\"t\":true,"
			       "\"d\":\"18446744073709551615\",\"r\":1.2,\"raw\":[]}");
	cr_expect_eq(size, strlen(text));
}

Test(json, members_of_replies)
{
	static const char text[] = "{\"a\":true,\"b\":null,\"c\":{\"a\":1}}";
	pg_autojson struct pg_json *json = NULL;
	struct pg_json_problem problem = {};
	const struct pg_json_value *root;

	cr_assert(pg_json_parse(text, strlen(text), &limits, &json, &problem) == 0);
	root = pg_json_root(json);
	cr_assert(pg_json_is_true(pg_json_member(root, "a")));
	cr_assert(pg_json_member(root, "b") == NULL);
	cr_assert(pg_json_member(root, "A") == NULL);
	cr_assert(pg_json_member(pg_json_member(root, "a"), "a") == NULL);
	cr_assert(pg_json_member(NULL, "a") == NULL);
	cr_assert(pg_json_is_true(pg_json_member(pg_json_member(root, "c"), "a")) == 0);
	cr_assert(pg_json_is_true(NULL) == 0);
	cr_assert(strcmp(pg_json_name_of(pg_json_first(root)), "a") == 0);
}
