/* SPDX-License-Identifier: Apache-2.0 */
/* Documents beyond the vectors: limits, strict JSON, several documents, --allow, --env-params. */
#include "policy/policy.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define RUN(value)  "{\"run_network_policy\":" value "}"
#define LIST(hosts) "{\"network_mode\":\"allowlist\",\"allowed_hosts\":[" hosts "]}"

static struct pg_policy *policy;
static struct pg_diagnostics diagnostics;

static void forget(void)
{
	pg_policy_free(policy);
	policy = NULL;
	pg_diagnostics_clear(&diagnostics);
}

TestSuite(document, .fini = forget);

static int parse_size(const char *text, size_t size, enum pg_policy_form form)
{
	const struct pg_policy_source source = {"test", text, size};

	forget();
	return pg_policy_parse(&source, 1, NULL, 0, form, &policy, &diagnostics);
}

static int parse(const char *text)
{
	return parse_size(text, strlen(text), PG_POLICY_BARE);
}

static int parse_env(const char *text)
{
	return parse_size(text, strlen(text), PG_POLICY_ENV_PARAMS);
}

static int parse_two(const char *first, const char *second, const char *allowed,
		     enum pg_phase phase)
{
	const struct pg_policy_source sources[] = {{"first", first, strlen(first)},
						   {"second", second, strlen(second)}};
	const struct pg_policy_addition addition = {phase, allowed};

	forget();
	return pg_policy_parse(sources, 2, &addition, allowed ? 1 : 0, PG_POLICY_BARE, &policy,
			       &diagnostics);
}

static void expect_fault(enum pg_diagnostic_code code, const char *pointer)
{
	cr_assert_null(policy);
	cr_assert_eq(diagnostics.errors, 1, "%zu errors", diagnostics.errors);
	cr_expect_str_eq(pg_diagnostic_code_name(diagnostics.items[0].code),
			 pg_diagnostic_code_name(code));
	cr_expect_str_eq(diagnostics.items[0].pointer, pointer);
}

static enum pg_mode mode_of(enum pg_phase phase)
{
	return policy->phases[phase].mode;
}

static void append(char **at, const char *text)
{
	*at = stpcpy(*at, text);
}

/* An allowlist for run of count entries from format with its index twice. */
static char *make_list(size_t count, const char *format)
{
	char *text = malloc(count * 64 + 128), *at = text;

	append(&at, "{\"run_network_policy\":{\"network_mode\":\"allowlist\",\"allowed_hosts\":[");
	for (size_t i = 0; i < count; i++) {
		char entry[64];

		snprintf(entry, sizeof(entry), format, (unsigned int)(i >> 16),
			 (unsigned int)(i & 0xffff));
		at += sprintf(at, "%s\"%s\"", i ? "," : "", entry);
	}
	append(&at, "]}}");
	return text;
}

Test(document, strict_json)
{
	static const char *const refused[] = {
		"{\"network_policy\":\"public\"} x",
		"{\"network_policy\":\"public\",}",
		"{\"network_policy\":\"pub\nlic\"}",
		"{\"network_policy\":\"public\"",
		"{\"network_policy\":\"public\"}}",
		"{\"network_policy\":\"\\ud800\"}",
		"{\"network_policy\":\"\\q\"}",
		"{\"network_policy\":\"\xff\"}",
		"{\"network_policy\":\"\xc0\x80\"}",
		"{\"network_policy\":\"\xed\xa0\x80\"}",
		"{\"network_policy\":\"public\"}\x01",
		"{\v\"network_policy\":\"public\"}",
		"\"",
		"{\"\\",
		"[",
		"nul",
		" \n ",
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(refused); i++) {
		cr_expect_eq(parse(refused[i]), -EINVAL, "%s", refused[i]);
		expect_fault(PG_DIAG_JSON_SYNTAX, "");
	}
	cr_assert_eq(parse_size("{}\0", 3, PG_POLICY_BARE), -EINVAL);
	expect_fault(PG_DIAG_JSON_SYNTAX, "");
	cr_assert_eq(parse_size("", 0, PG_POLICY_BARE), -EINVAL);
	expect_fault(PG_DIAG_JSON_SYNTAX, "");
	cr_assert_eq(parse("\xef\xbb\xbf {}\r\n"), 0, "a byte order mark is allowed");
}

Test(document, syntax_error_has_line_and_column)
{
	cr_assert_eq(parse("{\n  \"network_policy\": oops\n}"), -EINVAL);
	cr_expect_str_eq(diagnostics.items[0].message, "line 2, column 21: not valid JSON");
	cr_expect_str_eq(diagnostics.items[0].value, "oops\\u000a}");
}

Test(document, escaped_nul_cuts_nothing)
{
	cr_assert_eq(parse("{\"network_policy\\u0000\":\"no-network\"}"), -EINVAL);
	expect_fault(PG_DIAG_UNKNOWN_FIELD, "/network_policy\\u0000");
	cr_assert_eq(parse("{\"network_policy\":\"public\\u0000\"}"), -EINVAL);
	expect_fault(PG_DIAG_MODE_UNKNOWN, "/network_policy");
	cr_assert_eq(parse(RUN(LIST("\"\\u0000\""))), -EINVAL);
	expect_fault(PG_DIAG_HOSTNAME_SYNTAX, "/run_network_policy/allowed_hosts/0");
	cr_expect_str_eq(diagnostics.items[0].value, "\\u0000");
	cr_assert_eq(parse(RUN(LIST("\"\\\\u0000\""))), -EINVAL);
	cr_expect_str_eq(diagnostics.items[0].value, "\\u0000", "an escaped backslash");
}

Test(document, depth)
{
	cr_expect_eq(parse_env("{\"x\":[[[[[[[1]]]]]]]}"), 0);
	cr_expect_eq(parse_env("{\"x\":[[[[[[[[1]]]]]]]]}"), -EINVAL);
	expect_fault(PG_DIAG_DOCUMENT_TOO_DEEP, "");
	cr_expect_eq(parse_env("{\"x\":\"[[[[[[[[[[{{{{\"}"), 0, "brackets in a string");
	cr_expect_eq(parse_env("{\"x\":\"\\\"[[[[[[[[[[{{{{\"}"), 0, "after an escaped quote");
}

Test(document, size)
{
	char *text = malloc(PG_POLICY_DOCUMENT_MAX + 1);

	memset(text, ' ', PG_POLICY_DOCUMENT_MAX + 1);
	memcpy(text, "{}", 2);
	cr_expect_eq(parse_size(text, PG_POLICY_DOCUMENT_MAX, PG_POLICY_BARE), 0);
	cr_expect_eq(parse_size(text, PG_POLICY_DOCUMENT_MAX + 1, PG_POLICY_BARE), -EINVAL);
	expect_fault(PG_DIAG_DOCUMENT_TOO_LARGE, "");
	free(text);
}

Test(document, values)
{
	const size_t size = 16UL * 1024 * 1024;
	char *text = malloc(size);

	memset(text, ',', size);
	cr_expect_eq(parse_size(text, size, PG_POLICY_BARE), -EINVAL);
	expect_fault(PG_DIAG_TOO_MANY_ENTRIES, "");
	free(text);
}

Test(document, entries, .timeout = 60)
{
	char *text = make_list(PG_POLICY_ENTRIES_MAX, "h%x.n%x.example");
	uint64_t start = pg_monotonic_ns();

	cr_assert_eq(parse(text), 0);
	cr_log_info("a million names: %llu ms",
		    (unsigned long long)((pg_monotonic_ns() - start) / PG_NSEC_PER_MSEC));
	cr_expect_eq(policy->phases[PG_PHASE_RUN].entries->count, PG_POLICY_ENTRIES_MAX);
	free(text);

	text = make_list(PG_POLICY_ENTRIES_MAX + 1, "h%x.n%x.example");
	cr_assert_eq(parse(text), -EINVAL);
	expect_fault(PG_DIAG_TOO_MANY_ENTRIES, "/run_network_policy/allowed_hosts");
	free(text);
}

Test(document, errors_are_bounded)
{
	char *text = make_list(5000, "-%x.%x.example");

	cr_assert_eq(parse(text), -EINVAL);
	cr_expect_eq(diagnostics.count, PG_DIAGNOSTICS_MAX + 1);
	cr_expect_eq(diagnostics.left_out, 4000);
	cr_expect_eq(diagnostics.items[PG_DIAGNOSTICS_MAX].code, PG_DIAG_TOO_MANY_ERRORS);
	cr_expect_str_eq(diagnostics.items[PG_DIAGNOSTICS_MAX].message,
			 "4000 further errors are not shown");
	free(text);
}

Test(document, pointers_are_escaped_and_values_cut)
{
	char text[4096], *at = text;

	cr_assert_eq(parse("{\"a/b~c\\u001b[31m\":1}"), -EINVAL);
	expect_fault(PG_DIAG_UNKNOWN_FIELD, "/a~1b~0c\\u001b[31m");
	append(&at, "{\"network_policy\":\"");
	memset(at, 'x', 2000);
	at += 2000;
	append(&at, "\"}");
	cr_assert_eq(parse(text), -EINVAL);
	cr_expect_eq(strlen(diagnostics.items[0].value), PG_DIAGNOSTIC_VALUE_MAX + 3);
}

Test(document, every_fault_is_reported)
{
	static const char *const pointers[] = {
		"/network_policy/network_mode",		  "/network_policy/allowed_hosts/0",
		"/network_policy/allowed_hosts/2",	  "/run_network_policy",
		"/run_network_policy/allowed_hosts/0",	  "/other",
		"/verifier_network_policy/extra",	  "/verifier_network_policy/network_mode",
		"/verifier_network_policy/allowed_hosts",
	};

	cr_assert_eq(parse("{\"network_policy\":{\"network_mode\":\"x\",\"allowed_hosts\":"
			   "[\"*\",\"a.example\",null]},"
			   "\"run_network_policy\":{\"allowed_hosts\":[\"-\"]},"
			   "\"other\":1,"
			   "\"verifier_network_policy\":{\"extra\":1,\"network_mode\":[],"
			   "\"allowed_hosts\":{}}}"),
		     -EINVAL);
	cr_assert_eq(diagnostics.errors, PG_ARRAY_SIZE(pointers));
	for (size_t i = 0; i < PG_ARRAY_SIZE(pointers); i++) {
		bool found = false;

		for (size_t j = 0; j < diagnostics.count; j++)
			found |= strcmp(diagnostics.items[j].pointer, pointers[i]) == 0;
		cr_expect(found, "%s", pointers[i]);
	}
}

Test(document, null_members_are_absent)
{
	cr_expect_eq(parse(RUN("{\"network_mode\":\"public\",\"allowed_hosts\":null}")), 0);
	cr_expect_eq(parse(RUN("{\"network_mode\":\"allowlist\",\"allowed_hosts\":null}")),
		     -EINVAL);
	expect_fault(PG_DIAG_ALLOWLIST_NEEDS_HOSTS, "/run_network_policy");
	cr_expect_eq(parse(RUN("{\"network_mode\":null,\"allowed_hosts\":[]}")), -EINVAL);
	expect_fault(PG_DIAG_MODE_MISSING, "/run_network_policy");
	cr_expect_eq(parse(RUN("{}")), -EINVAL);
	expect_fault(PG_DIAG_MODE_MISSING, "/run_network_policy");
}

Test(document, names_are_told_from_addresses)
{
	cr_assert_eq(parse(RUN(LIST("\"localhost\",\"203.0.113.1\""))), 0);
	cr_expect_not(pg_policy_has_names(policy));
	cr_assert_eq(parse(RUN(LIST("\"*.localhost\""))), 0);
	cr_expect(pg_policy_has_names(policy));
	cr_assert_eq(parse(RUN(LIST("\"a\""))), 0);
	cr_expect(pg_policy_has_names(policy));
	cr_expect_not(pg_phase_policy_has_names(&policy->phases[PG_PHASE_SETUP]));
}

Test(merge, later_field_replaces_whole, .fini = forget)
{
	const struct pg_phase_policy *run, *verifier;

	cr_assert_eq(parse_two("{\"network_policy\":\"no-network\",\"run_network_policy\":" LIST(
				       "\"a.example\",\"b.example\"") "}",
			       RUN(LIST("\"c.example\"")), NULL, PG_PHASE_RUN),
		     0);
	run = &policy->phases[PG_PHASE_RUN];
	verifier = &policy->phases[PG_PHASE_VERIFIER];
	cr_assert_eq(run->entries->count, 1);
	cr_expect_str_eq(run->entries->items[0].name, "c.example");
	cr_expect_eq(run->origin, PG_ORIGIN_DOCUMENT);
	cr_expect_eq(run->source, 1);
	cr_expect_eq(verifier->origin, PG_ORIGIN_INHERITED);
	cr_expect_eq(verifier->mode, PG_MODE_NO_NETWORK);
	cr_expect_eq(policy->phases[PG_PHASE_SETUP].source, 0);
}

Test(merge, later_null_inherits, .fini = forget)
{
	cr_assert_eq(parse_two("{\"network_policy\":\"no-network\",\"run_network_policy\":"
			       "\"public\"}",
			       RUN("null"), NULL, PG_PHASE_RUN),
		     0);
	cr_expect_eq(mode_of(PG_PHASE_RUN), PG_MODE_NO_NETWORK);
	cr_expect_eq(policy->phases[PG_PHASE_RUN].origin, PG_ORIGIN_INHERITED);
	cr_assert_eq(parse_two("{\"network_policy\":\"no-network\"}", "{\"network_policy\":null}",
			       NULL, PG_PHASE_RUN),
		     0);
	cr_expect_eq(mode_of(PG_PHASE_SETUP), PG_MODE_PUBLIC);
	cr_expect_eq(policy->phases[PG_PHASE_SETUP].origin, PG_ORIGIN_DEFAULT);
	cr_expect_eq(policy->phases[PG_PHASE_RUN].origin, PG_ORIGIN_DEFAULT);
}

Test(merge, warnings_of_replaced_fields_are_dropped, .fini = forget)
{
	cr_assert_eq(parse_two(RUN(LIST("")), RUN("\"public\""), NULL, PG_PHASE_RUN), 0);
	cr_expect_eq(diagnostics.count, 0);
	cr_assert_eq(parse_two(RUN("\"public\""), RUN(LIST("")), NULL, PG_PHASE_RUN), 0);
	cr_assert_eq(diagnostics.count, 1);
	cr_expect_eq(diagnostics.items[0].source, 1);
}

Test(merge, faults_of_every_document_are_reported, .fini = forget)
{
	cr_assert_eq(parse_two("{\"x\":1}", "[", "https://a.example", PG_PHASE_RUN), -EINVAL);
	cr_assert_eq(diagnostics.errors, 3);
	cr_expect_eq(diagnostics.items[0].source, 0);
	cr_expect_eq(diagnostics.items[1].source, 1);
	cr_expect_eq(diagnostics.items[2].source, SIZE_MAX);
	cr_expect_str_eq(diagnostics.items[2].hint, "a.example");
}

Test(allow, adds_to_its_phase_alone, .fini = forget)
{
	const char *base = "{\"network_policy\":" LIST("\"a.example\"") "}";

	cr_assert_eq(parse_two(base, "{}", " B.example. ", PG_PHASE_SETUP), 0);
	cr_assert_eq(policy->phases[PG_PHASE_SETUP].entries->count, 2);
	cr_expect_str_eq(policy->phases[PG_PHASE_SETUP].entries->items[1].name, "b.example");
	cr_expect_eq(policy->phases[PG_PHASE_SETUP].added, 1);
	cr_expect_eq(policy->phases[PG_PHASE_RUN].entries->count, 1);

	cr_assert_eq(parse_two(base, "{}", "b.example", PG_PHASE_RUN), 0);
	cr_expect_eq(policy->phases[PG_PHASE_SETUP].entries->count, 1);
	cr_expect_eq(policy->phases[PG_PHASE_RUN].entries->count, 2);
	cr_expect_eq(policy->phases[PG_PHASE_VERIFIER].entries->count, 1);
}

Test(allow, needs_an_allowlist, .fini = forget)
{
	cr_assert_eq(parse_two("{}", "{}", "a.example", PG_PHASE_RUN), -EINVAL);
	cr_assert_eq(diagnostics.errors, 1);
	cr_expect_eq(diagnostics.items[0].code, PG_DIAG_ALLOW_NEEDS_ALLOWLIST);
	cr_expect_eq(diagnostics.items[0].source, SIZE_MAX);
}

Test(allow, warns, .fini = forget)
{
	cr_assert_eq(parse_two(RUN(LIST("\"a.example\"")), "{}", "A.EXAMPLE", PG_PHASE_RUN), 0);
	cr_expect_eq(policy->phases[PG_PHASE_RUN].entries->count, 1);
	cr_expect_eq(policy->phases[PG_PHASE_RUN].added, 0);
	cr_assert_eq(diagnostics.count, 1);
	cr_expect_eq(diagnostics.items[0].code, PG_DIAG_DUPLICATE_ENTRIES);

	cr_assert_eq(parse_two(RUN(LIST("")), "{}", "::/0", PG_PHASE_RUN), 0);
	cr_assert_eq(diagnostics.count, 1, "it is not empty any more");
	cr_expect_eq(diagnostics.items[0].code, PG_DIAG_ALLOWS_EVERY_ADDRESS);
}

Test(env_params, other_keys_are_left_alone, .fini = forget)
{
	cr_assert_eq(parse_env("{\"image\":\"x\",\"image\":{\"network_mode\":[1.5e3,false]},"
			       "\"policy\":null,\"run_network_policy\":\"no-network\"}"),
		     0);
	cr_expect_eq(mode_of(PG_PHASE_RUN), PG_MODE_NO_NETWORK);
	cr_expect_eq(mode_of(PG_PHASE_SETUP), PG_MODE_PUBLIC);
}

Test(env_params, near_misses_are_errors, .fini = forget)
{
	cr_assert_eq(parse_env("{\"run_netwrk_polcy\":\"no-network\"}"), -EINVAL);
	expect_fault(PG_DIAG_UNKNOWN_FIELD, "/run_netwrk_polcy");
	cr_expect_str_eq(diagnostics.items[0].hint, "run_network_policy");
	cr_assert_eq(parse_env("{\"run-network-policy\":\"no-network\"}"), -EINVAL);
	cr_assert_eq(parse_env("{\"un_netwrk_polcy\":\"no-network\"}"), 0, "distance 3");
	cr_assert_eq(parse_env("{\"network_policy\":\"public\",\"network_policy\":\"public\"}"),
		     -EINVAL);
	expect_fault(PG_DIAG_DUPLICATE_FIELD, "/network_policy");
	cr_assert_eq(parse_env("{\"network_policy\":{\"mode\":1}}"), -EINVAL, "inner keys");
}
