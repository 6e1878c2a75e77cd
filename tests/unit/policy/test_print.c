/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/print.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define DOCUMENT \
	"{\"network_policy\":\"no-network\",\"run_network_policy\":{\"network_mode\":" \
	"\"allowlist\",\"allowed_hosts\":[\"API.example.com\",\"*.example.org\"," \
	"\"203.0.113.0/24\",\"2001:db8::1\",\"api.example.com.\"]}}"

static const struct pg_policy_source source = {"a \"b\"\n", DOCUMENT, sizeof(DOCUMENT) - 1};

static char *print_json(const struct pg_policy_source *from, struct pg_diagnostics *diagnostics)
{
	pg_autopolicy struct pg_policy *policy = NULL;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int result = pg_policy_parse(from, 1, NULL, 0, PG_POLICY_BARE, &policy, diagnostics);

	cr_assert(result == 0 || result == -EINVAL);
	cr_assert_eq(pg_policy_print_json(out, policy, diagnostics, from), 0);
	fclose(out);
	return text;
}

Test(print, json_of_a_policy)
{
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
	pg_autofree char *text = print_json(&source, &diagnostics);

	cr_expect_str_eq(
		text,
		"{\"ok\":true,\"phases\":{"
		"\"setup\":{\"network_mode\":\"no-network\",\"entries\":[],\"origin\":\"document\","
		"\"document\":\"a \\\"b\\\"\\u000a\",\"added\":0},"
		"\"run\":{\"network_mode\":\"allowlist\",\"entries\":["
		"{\"kind\":\"host\",\"value\":\"api.example.com\"},"
		"{\"kind\":\"wildcard\",\"value\":\"*.example.org\"},"
		"{\"kind\":\"cidr4\",\"value\":\"203.0.113.0/24\"},"
		"{\"kind\":\"ip6\",\"value\":\"2001:db8::1\"}],\"origin\":\"document\","
		"\"document\":\"a \\\"b\\\"\\u000a\",\"added\":0},"
		"\"verifier\":{\"network_mode\":\"no-network\",\"entries\":[],"
		"\"origin\":\"inherited\",\"added\":0}},"
		"\"warnings\":[{\"code\":\"duplicate_entries\","
		"\"pointer\":\"/run_network_policy/allowed_hosts\",\"value\":null,\"hint\":null,"
		"\"message\":\"1 of 5 entries repeat another and are merged\","
		"\"document\":\"a \\\"b\\\"\\u000a\"}]}\n");
}

Test(print, json_of_errors_is_read_back)
{
	static const char document[] =
		"{\"\\\"\\\\\\u0007\\u0000\":1,\"network_policy\":\"Public\"}";
	const struct pg_policy_source from = {"\xff", document, sizeof(document) - 1};
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
	pg_autofree char *text = print_json(&from, &diagnostics);
	cJSON *root = cJSON_Parse(text), *errors, *first, *second;

	cr_assert(root, "%s", text);
	cr_expect(cJSON_IsFalse(cJSON_GetObjectItem(root, "ok")));
	errors = cJSON_GetObjectItem(root, "errors");
	cr_assert_eq(cJSON_GetArraySize(errors), 2);
	first = cJSON_GetArrayItem(errors, 0);
	second = cJSON_GetArrayItem(errors, 1);
	cr_expect_str_eq(cJSON_GetObjectItem(first, "value")->valuestring, "\"\\\\u0007\\u0000");
	cr_expect(cJSON_IsNull(cJSON_GetObjectItem(first, "hint")));
	cr_expect_str_eq(cJSON_GetObjectItem(first, "document")->valuestring, "\uFFFD");
	cr_expect_str_eq(cJSON_GetObjectItem(second, "hint")->valuestring, "public");
	cr_expect(cJSON_IsArray(cJSON_GetObjectItem(root, "warnings")));
	cJSON_Delete(root);
}

Test(print, lines_for_people)
{
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
	pg_autopolicy struct pg_policy *policy = NULL;
	pg_autofree char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_assert_eq(pg_policy_parse(&source, 1, NULL, 0, PG_POLICY_BARE, &policy, &diagnostics),
		     0);
	pg_policy_print(out, policy, &source);
	pg_diagnostics_print(out, &diagnostics, &source);
	fclose(out);
	cr_expect_str_eq(text, "setup_network_mode=no-network\n"
			       "run_network_mode=allowlist\n"
			       "verifier_network_mode=no-network\n"
			       "setup: document a \"b\"\\u000a\n"
			       "run: 4 entries (1 host, 1 wildcard, 1 ip6, 1 cidr4), document "
			       "a \"b\"\\u000a\n"
			       "verifier: inherited\n"
			       "warning: a \"b\"\\u000a: /run_network_policy/allowed_hosts: "
			       "duplicate_entries\n"
			       "  why:   1 of 5 entries repeat another and are merged\n");
}

static struct pg_policy *parse(const char *text, const struct pg_policy_addition *additions,
			       size_t count)
{
	const struct pg_policy_source from = {"test", text, strlen(text)};
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
	struct pg_policy *policy = NULL;

	cr_assert_eq(pg_policy_parse(&from, 1, additions, count, PG_POLICY_BARE, &policy,
				     &diagnostics),
		     0, "%s", text);
	return policy;
}

static char *document_of(const struct pg_policy *policy)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_assert_eq(pg_policy_print_document(out, policy), 0);
	fclose(out);
	return text;
}

Test(print, a_document_of_the_policy)
{
	pg_autopolicy struct pg_policy *policy = parse(DOCUMENT, NULL, 0);
	pg_autofree char *text = document_of(policy);

	cr_expect_str_eq(text,
			 "{\"network_policy\":\"no-network\",\"run_network_policy\":{"
			 "\"network_mode\":\"allowlist\",\"allowed_hosts\":[\"api.example.com\","
			 "\"*.example.org\",\"203.0.113.0/24\",\"2001:db8::1\"]}}\n");
}

/* Also where an addition made one phase's list another than the one it was inherited from. */
Test(print, a_document_means_the_same)
{
	static const char *const documents[] = {
		"{}",
		"{\"network_policy\":{\"network_mode\":\"allowlist\",\"allowed_hosts\":[\"a."
		"example\"]}}",
		"{\"network_policy\":{\"network_mode\":\"allowlist\",\"allowed_hosts\":[\"a."
		"example\"]},"
		"\"verifier_network_policy\":\"public\"}",
	};
	const struct pg_policy_addition addition = {PG_PHASE_SETUP, "b.example"};

	for (size_t i = 0; i < PG_ARRAY_SIZE(documents); i++) {
		pg_autopolicy struct pg_policy *policy = parse(documents[i], &addition, i > 0);
		pg_autofree char *text = document_of(policy);
		pg_autopolicy struct pg_policy *again = parse(text, NULL, 0);
		pg_autofree char *text_again = document_of(again);

		cr_expect_str_eq(text_again, text);
		for (size_t phase = 0; phase < PG_PHASE_COUNT; phase++) {
			const struct pg_entries *one = policy->phases[phase].entries;
			const struct pg_entries *other = again->phases[phase].entries;

			cr_expect_eq(policy->phases[phase].mode, again->phases[phase].mode);
			cr_expect_eq(one ? one->count : 0, other ? other->count : 0);
		}
	}
}

Test(print, a_copy_outlives_the_policy)
{
	struct pg_policy *policy = parse(DOCUMENT, NULL, 0);
	pg_autopolicy struct pg_policy *copy = pg_policy_copy(policy);
	pg_autofree char *text = document_of(policy), *text_of_copy = NULL;

	pg_policy_free(policy);
	text_of_copy = document_of(copy);
	cr_expect_str_eq(text_of_copy, text);
}
