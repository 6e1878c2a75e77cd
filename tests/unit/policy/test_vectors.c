/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vectors of entries and documents: verdict, normal form, code, pointer and hint of each line.
 * The project's own copy, and the shared one where it is present.
 */
#include "policy/policy.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

#define FILE_MAX (1024 * 1024)

static char *read_vectors(const char *folder, const char *name)
{
	pg_autofree char *path = NULL;
	char *text = NULL;
	size_t size;

	cr_assert_gt(asprintf(&path, "%s/%s", folder, name), 0);
	if (access(path, R_OK) < 0)
		return NULL;
	cr_assert_eq(pg_file_read(path, FILE_MAX, &text, &size, NULL), 0, "%s", path);
	return text;
}

static int parse(const char *text, struct pg_policy **policy, struct pg_diagnostics *diagnostics)
{
	const struct pg_policy_source source = {"vector", text, strlen(text)};

	return pg_policy_parse(&source, 1, NULL, 0, PG_POLICY_BARE, policy, diagnostics);
}

static void check_entry(int line, char *row)
{
	const char *input = strsep(&row, "\t"), *verdict = strsep(&row, "\t");
	const char *kind_or_code = strsep(&row, "\t"), *form_or_hint = strsep(&row, "\t");
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
	pg_autopolicy struct pg_policy *policy = NULL;
	pg_autofree char *document = NULL, *form = NULL;
	const struct pg_entries *entries;
	int result;

	cr_assert(form_or_hint, "line %d has less than four columns", line);
	cr_assert_gt(asprintf(&document,
			      "{\"run_network_policy\":{\"network_mode\":\"allowlist\","
			      "\"allowed_hosts\":[%s]}}",
			      input),
		     0);
	result = parse(document, &policy, &diagnostics);
	if (strcmp(verdict, "error") == 0) {
		const char *hint;

		cr_assert_eq(result, -EINVAL, "line %d: %s is accepted", line, input);
		cr_assert_eq(diagnostics.errors, 1, "line %d", line);
		hint = diagnostics.items[0].hint ? diagnostics.items[0].hint : "";
		cr_expect_str_eq(pg_diagnostic_code_name(diagnostics.items[0].code), kind_or_code,
				 "line %d: %s", line, input);
		cr_expect_str_eq(hint, form_or_hint, "line %d: %s", line, input);
		cr_expect_str_eq(diagnostics.items[0].pointer,
				 "/run_network_policy/allowed_hosts/0");
		return;
	}
	cr_assert_eq(result, 0, "line %d: %s is refused as %s", line, input,
		     diagnostics.count ? pg_diagnostic_code_name(diagnostics.items[0].code) : "");
	entries = policy->phases[PG_PHASE_RUN].entries;
	cr_assert_eq(entries->count, 1, "line %d", line);
	form = pg_entry_format(&entries->items[0]);
	cr_expect_str_eq(form, form_or_hint, "line %d: %s", line, input);
	cr_expect_str_eq(pg_entry_kind_name(entries->items[0].kind), kind_or_code, "line %d: %s",
			 line, input);
}

static void check_entries(const char *folder)
{
	pg_autofree char *text = read_vectors(folder, "policy_entries.tsv");
	char *rest = text;
	int checked = 0;

	if (!text)
		cr_skip_test("%s has no vectors", folder);
	for (int line = 1; rest && *rest; line++) {
		char *row = strsep(&rest, "\n");

		if (*row == '#')
			continue;
		check_entry(line, row);
		checked++;
	}
	cr_assert_gt(checked, 70);
}

static const char *string_of(const cJSON *object, const char *key)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static void check_error(int line, const cJSON *expected, const struct pg_diagnostic *found)
{
	const char *hint = string_of(expected, "hint");

	cr_expect_str_eq(pg_diagnostic_code_name(found->code), string_of(expected, "code"),
			 "line %d", line);
	cr_expect_str_eq(found->pointer, string_of(expected, "pointer"), "line %d", line);
	if (hint)
		cr_expect_str_eq(found->hint ? found->hint : "(none)", hint, "line %d", line);
}

static void check_errors(int line, const cJSON *vector, const struct pg_diagnostics *diagnostics)
{
	const cJSON *one = cJSON_GetObjectItemCaseSensitive(vector, "error"), *expected;
	const cJSON *many = cJSON_GetObjectItemCaseSensitive(vector, "errors");
	size_t count = 0;

	if (one) {
		cr_assert_eq(diagnostics->errors, 1, "line %d: %zu errors", line,
			     diagnostics->errors);
		check_error(line, one, &diagnostics->items[0]);
		return;
	}
	cr_assert_eq(diagnostics->errors, (size_t)cJSON_GetArraySize(many), "line %d", line);
	cJSON_ArrayForEach (expected, many)
		check_error(line, expected, &diagnostics->items[count++]);
}

static void check_policy(int line, const cJSON *vector, const struct pg_policy *policy,
			 const struct pg_diagnostics *diagnostics)
{
	const cJSON *modes = cJSON_GetObjectItemCaseSensitive(vector, "ok");
	const cJSON *entries = cJSON_GetObjectItemCaseSensitive(vector, "entries");
	const char *warning = string_of(vector, "warning");

	for (int i = 0; i < PG_PHASE_COUNT; i++) {
		enum pg_phase phase = (enum pg_phase)i;

		cr_expect_str_eq(pg_mode_name(policy->phases[i].mode),
				 string_of(modes, pg_phase_name(phase)), "line %d", line);
	}
	if (entries)
		cr_expect_eq(policy->phases[PG_PHASE_RUN].entries->count, (size_t)entries->valueint,
			     "line %d", line);
	cr_assert_eq(diagnostics->count, warning ? 1 : 0, "line %d", line);
	if (warning)
		cr_expect_str_eq(pg_diagnostic_code_name(diagnostics->items[0].code), warning,
				 "line %d", line);
}

static void check_document(int line, const char *row)
{
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
	pg_autopolicy struct pg_policy *policy = NULL;
	cJSON *vector = cJSON_Parse(row);
	int result;

	cr_assert(vector, "line %d is not JSON", line);
	result = parse(string_of(vector, "doc"), &policy, &diagnostics);
	if (cJSON_HasObjectItem(vector, "ok")) {
		cr_assert_eq(result, 0, "line %d is refused", line);
		check_policy(line, vector, policy, &diagnostics);
	} else {
		cr_assert_eq(result, -EINVAL, "line %d is accepted", line);
		cr_assert_null(policy);
		check_errors(line, vector, &diagnostics);
	}
	cJSON_Delete(vector);
}

static void check_documents(const char *folder)
{
	pg_autofree char *text = read_vectors(folder, "policy_documents.jsonl");
	char *rest = text;
	int line = 0;

	if (!text)
		cr_skip_test("%s has no vectors", folder);
	while (rest && *rest)
		check_document(++line, strsep(&rest, "\n"));
	cr_assert_gt(line, 25);
}

Test(vectors, entries)
{
	check_entries(PG_TEST_DATA "/policy");
}

Test(vectors, shared_entries)
{
	check_entries(PG_SHARED_CASES);
}

Test(vectors, documents)
{
	check_documents(PG_TEST_DATA "/policy");
}

Test(vectors, shared_documents)
{
	check_documents(PG_SHARED_CASES);
}
