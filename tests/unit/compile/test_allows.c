/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "compile/allows.h"

struct pair {
	const char *a, *b;
	bool no_more;
};

#define LIST(entries) "{\"network_mode\":\"allowlist\",\"allowed_hosts\":[" entries "]}"

static const struct pair pairs[] = {
	{"\"no-network\"", "\"no-network\"", true},
	{"\"no-network\"", "\"public\"", true},
	{"\"public\"", "\"public\"", true},
	{"\"public\"", "\"no-network\"", false},
	{"\"public\"", LIST("\"0.0.0.0/0\",\"::/0\""), false},
	{LIST("\"10.0.0.1\""), "\"public\"", true},
	{LIST("\"10.0.0.1\""), "\"no-network\"", false},
	{LIST(""), "\"no-network\"", true},
	{LIST(""), LIST("\"a.com\""), true},
	{LIST("\"a.com\""), LIST(""), false},
	{LIST("\"10.0.0.1\""), LIST("\"10.0.0.0/8\""), true},
	{LIST("\"10.0.0.0/8\""), LIST("\"10.0.0.1\""), false},
	{LIST("\"10.0.0.0/31\""), LIST("\"10.0.0.1\",\"10.0.0.0\""), true},
	{LIST("\"10.0.0.0/8\""), LIST("\"10.0.0.0/9\",\"10.128.0.0/9\",\"a.com\""), true},
	{LIST("\"2001:db8::1\""), LIST("\"2001:db8::/32\""), true},
	{LIST("\"10.0.0.1\""), LIST("\"::/0\""), false},
	{LIST("\"a.com\""), LIST("\"a.com\",\"b.com\""), true},
	{LIST("\"a.com\",\"b.com\""), LIST("\"a.com\""), false},
	{LIST("\"x.a.com\""), LIST("\"*.a.com\""), true},
	{LIST("\"a.com\""), LIST("\"*.a.com\""), false},
	{LIST("\"*.a.com\""), LIST("\"*.a.com\""), true},
	{LIST("\"*.x.a.com\""), LIST("\"*.a.com\""), true},
	{LIST("\"*.a.com\""), LIST("\"*.x.a.com\""), false},
	{LIST("\"*.a.com\""), LIST("\"a.com\",\"x.a.com\""), false},
	{LIST("\"localhost\""), LIST("\"127.0.0.1\",\"::1\""), true},
	{LIST("\"localhost\""), LIST("\"127.0.0.1\""), false},
	{LIST("\"10.0.0.1\",\"a.com\""), LIST("\"10.0.0.1\""), false},
};

Test(allows, compares_phases)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(pairs); i++) {
		pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
		pg_autopolicy struct pg_policy *policy = NULL;
		char text[512];
		struct pg_policy_source source = {.name = "test", .text = text};

		snprintf(text, sizeof(text), "{\"network_policy\":%s,\"run_network_policy\":%s}",
			 pairs[i].a, pairs[i].b);
		source.size = strlen(text);
		cr_assert_eq(pg_policy_parse(&source, 1, NULL, 0, PG_POLICY_BARE, &policy,
					     &diagnostics),
			     0, "%s", text);
		cr_expect_eq(pg_policy_allows_no_more(policy, PG_PHASE_SETUP, PG_PHASE_RUN),
			     pairs[i].no_more, "%s", text);
		cr_expect(pg_policy_allows_no_more(policy, PG_PHASE_VERIFIER, PG_PHASE_SETUP),
			  "an inherited phase is the same");
	}
}
