/* SPDX-License-Identifier: Apache-2.0 */
/* Routes, queries, bodies and replies, without a server. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/create.h"
#include "agent/request.h"

struct route_case {
	const char *method, *path;
	pg_handler handler; /* NULL: refused with .code */
	const char *name_or_code;
};

static const struct route_case routes[] = {
	{"GET", "/v1/capabilities", pg_api_capabilities, ""},
	{"POST", "/v1/validate", pg_api_validate, ""},
	{"GET", "/v1/environments", pg_api_list, ""},
	{"POST", "/v1/environments", pg_api_create, ""},
	{"GET", "/v1/environments/a", pg_api_show, "a"},
	{"DELETE", "/v1/environments/a.b-c", pg_api_destroy, "a.b-c"},
	{"PUT", "/v1/environments/phase/phase", pg_api_phase, "phase"},
	{"PUT", "/v1/environments/*/policy", pg_api_policy, "*"},
	{"GET", "/v1/environments/x/explain", pg_api_explain, "x"},
	{"GET", "/v1/events", pg_api_events, ""},
	{"GET", "", NULL, "route_not_found"},
	{"GET", "/v1/environments/", NULL, "route_not_found"},
	{"GET", "/v1/environments//phase", NULL, "route_not_found"},
	{"GET", "/v1/environments/a/b", NULL, "route_not_found"},
	{"GET", "/v1/eventsx", NULL, "route_not_found"},
	{"GET", "/v1/event", NULL, "route_not_found"},
	{"PUT", "/v1/events", NULL, "method_not_allowed"},
	{"get", "/v1/events", NULL, "method_not_allowed"},
	{"GET",
	 "/v1/environments/12345678901234567890123456789012345678901234567890123456789012345", NULL,
	 "name_invalid"},
};

Test(request, routes)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(routes); i++) {
		const struct route_case *item = &routes[i];
		struct pg_reply reply = {0};
		char name[PG_NAME_MAX + 1] = "";
		const struct pg_route *route =
			pg_route_find(item->method, item->path, name, &reply);

		if (item->handler) {
			cr_assert(route, "%s %s", item->method, item->path);
			cr_expect_eq(route->handler, item->handler);
			cr_expect_str_eq(name, item->name_or_code);
		} else {
			cr_assert_null(route, "%s %s", item->method, item->path);
			cr_expect(strstr(reply.body, item->name_or_code), "%s", reply.body);
		}
		pg_reply_clear(&reply);
	}
}

Test(request, query)
{
	const struct pg_route route = {.query = "host phase"};
	struct pg_request request = {.query = {{"host", "a"}, {"phase", "run"}}, .query_count = 2};
	struct pg_reply reply = {0};

	cr_expect_eq(pg_route_check_query(&route, &request, &reply), 0);
	cr_expect_str_eq(pg_request_query(&request, "phase"), "run");
	cr_expect_null(pg_request_query(&request, "cursor"));
	request.query[1].name = "host";
	cr_expect_eq(pg_route_check_query(&route, &request, &reply), -EINVAL);
	cr_expect(strstr(reply.body, "twice"), "%s", reply.body);
	request.query[1].name = "hots";
	cr_expect_eq(pg_route_check_query(&route, &request, &reply), -EINVAL);
	cr_expect(strstr(reply.body, "write host"), "%s", reply.body);
	pg_reply_clear(&reply);
}

Test(request, every_error_says_what_to_do)
{
#define PG_X(symbol, status, name, next_step) PG_API_##symbol,
	static const enum pg_api_error codes[] = { PG_API_ERRORS(PG_X) };
#undef PG_X

	for (size_t i = 0; i < PG_ARRAY_SIZE(codes); i++) {
		struct pg_reply reply = {0};

		cr_expect_geq(pg_api_error_status(codes[i]), 400);
		cr_expect_gt(strlen(pg_api_error_next_step(codes[i])), 10);
		cr_expect_eq(pg_reply_error(&reply, codes[i], "\"\n", NULL, "%s", "x\xff"),
			     -EINVAL);
		cr_expect_eq(reply.status, pg_api_error_status(codes[i]));
		cr_expect(strstr(reply.body, pg_api_error_name(codes[i])));
		cr_expect(strstr(reply.body, "\"object\":\"\\\"\\u000a\""), "%s", reply.body);
		pg_reply_clear(&reply);
	}
}

static int read_create(const char *text, struct pg_create_request *create, struct pg_json **json,
		       struct pg_reply *reply)
{
	int error = pg_request_parse(text, strlen(text), json, reply);

	return error ? error : pg_create_request_read(*json, create, reply);
}

Test(request, create_defaults)
{
	static const char text[] = "{\"name\":\"a\",\"policy\":{}}";
	pg_autocreaterequest struct pg_create_request create = {0};
	pg_autojson struct pg_json *json = NULL;
	struct pg_reply reply = {0};

	cr_assert_eq(read_create(text, &create, &json, &reply), 0);
	cr_expect_str_eq(create.name, "a");
	cr_expect_eq(create.phase, PG_PHASE_SETUP);
	cr_expect_eq(create.verifier, PG_VERIFIER_SAME);
	cr_expect(create.report_denials && !create.attach && !create.apart);
	cr_expect_eq(create.dns.floor_s, PG_LEARNED_FLOOR_S);
	cr_expect_null(create.members);
	cr_expect(create.input.policy);
}

static uint64_t digest_of(const char *text)
{
	pg_autocreaterequest struct pg_create_request create = {0};
	pg_autojson struct pg_json *json = NULL;
	struct pg_reply reply = {0};

	cr_assert_eq(read_create(text, &create, &json, &reply), 0, "%s", text);
	return create.digest;
}

/* Which of two requests is the same as an earlier one, also for a later agent. */
Test(request, create_digest)
{
	const uint64_t first = digest_of("{\"name\":\"a\",\"policy\":{\"network_policy\":null}}");

	cr_expect_eq(first, digest_of(" { \"policy\":{\"network_policy\":null},\"attach\":false,"
				      "\"name\" : \"b\",\"phase\":\"setup\",\"form\":\"bare\"}"));
	cr_expect_neq(first, digest_of("{\"name\":\"a\",\"policy\":{}}"));
	cr_expect_neq(first, digest_of("{\"name\":\"a\",\"policy\":{\"network_policy\":null},"
				       "\"attach\":true}"));
	cr_expect_neq(first, digest_of("{\"name\":\"a\",\"policy\":{\"network_policy\":null},"
				       "\"members\":[{\"cgroup\":\"/x\"}]}"));
	cr_expect_neq(first, digest_of("{\"name\":\"a\",\"policy\":{\"network_policy\":null},"
				       "\"dns\":{\"floor_s\":1}}"));
}

Test(request, create_keeps_faults_of_the_policy_apart)
{
	pg_autocreaterequest struct pg_create_request create = {0};
	pg_autojson struct pg_json *json = NULL;
	struct pg_reply reply = {0};

	cr_assert_eq(read_create("{\"name\":\"a\",\"policy\":[{},{\"network_polcy\":1}]}", &create,
				 &json, &reply),
		     0);
	cr_assert_null(create.input.policy);
	pg_policy_input_refuse(&create.input, &reply);
	cr_expect_eq(reply.status, 422);
	cr_expect(strstr(reply.body, "\"/policy/1/network_polcy\""), "%s", reply.body);
	pg_reply_clear(&reply);
}
