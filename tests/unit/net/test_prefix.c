/* SPDX-License-Identifier: Apache-2.0 */
#include "net/prefix.h"

#include <criterion/criterion.h>

static struct pg_prefix prefix_of(const char *text, uint8_t length)
{
	struct pg_prefix prefix;
	struct pg_addr addr;

	cr_assert_eq(pg_addr_parse(text, &addr), 0, "%s", text);
	prefix = pg_prefix_from_addr(&addr);
	prefix.length = length;
	return prefix;
}

Test(prefix, mask)
{
	static const struct {
		const char *addr;
		uint8_t length;
		bool cleared;
		const char *text;
	} rows[] = {
		{"203.0.113.10", 32, false, "203.0.113.10"},
		{"203.0.113.10", 24, true, "203.0.113.0/24"},
		{"203.0.113.255", 25, true, "203.0.113.128/25"},
		{"203.0.113.1", 31, true, "203.0.113.0/31"},
		{"203.0.113.0", 0, true, "0.0.0.0/0"},
		{"0.0.0.0", 0, false, "0.0.0.0/0"},
		{"2001:db8::1", 128, false, "2001:db8::1"},
		{"2001:db8::1", 127, true, "2001:db8::/127"},
		{"2001:db8::", 32, false, "2001:db8::/32"},
		{"2001:db8:8000::", 33, false, "2001:db8:8000::/33"},
		{"2001:db8:8000::", 32, true, "2001:db8::/32"},
		{"::1", 0, true, "::/0"},
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++) {
		struct pg_prefix prefix = prefix_of(rows[i].addr, rows[i].length);
		char buffer[PG_ADDR_TEXT];

		cr_expect_eq(pg_prefix_mask(&prefix), rows[i].cleared, "%s", rows[i].text);
		cr_expect_str_eq(pg_prefix_format(&prefix, buffer), rows[i].text);
		cr_expect_not(pg_prefix_mask(&prefix), "masked already");
	}
}

Test(prefix, contains)
{
	struct pg_prefix net4 = prefix_of("203.0.113.0", 24), all4 = prefix_of("0.0.0.0", 0);
	struct pg_prefix net6 = prefix_of("2001:db8::", 32), all6 = prefix_of("::", 0);
	struct pg_addr in4 = prefix_of("203.0.113.255", 32).addr;
	struct pg_addr out4 = prefix_of("203.0.114.0", 32).addr;
	struct pg_addr in6 = prefix_of("2001:db8:ffff::1", 128).addr;
	struct pg_addr out6 = prefix_of("2001:db9::", 128).addr;

	cr_expect(pg_prefix_contains(&net4, &in4));
	cr_expect_not(pg_prefix_contains(&net4, &out4));
	cr_expect(pg_prefix_contains(&net6, &in6));
	cr_expect_not(pg_prefix_contains(&net6, &out6));
	cr_expect(pg_prefix_contains(&all4, &out4));
	cr_expect(pg_prefix_contains(&all6, &out6));
	cr_expect_not(pg_prefix_contains(&all6, &in4), "families are apart");
	cr_expect_not(pg_prefix_contains(&all4, &in6), "families are apart");
}

Test(prefix, order)
{
	struct pg_prefix sorted[] = {
		prefix_of("0.0.0.0", 0),      prefix_of("10.0.0.0", 8), prefix_of("10.0.0.0", 32),
		prefix_of("203.0.113.0", 24), prefix_of("::", 0),	prefix_of("2001:db8::", 32),
		prefix_of("2001:db8::", 128),
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(sorted); i++) {
		for (size_t j = 0; j < PG_ARRAY_SIZE(sorted); j++) {
			int order = pg_prefix_compare(&sorted[i], &sorted[j]);

			cr_expect_eq((order > 0) - (order < 0), (i > j) - (i < j), "%zu %zu", i, j);
		}
	}
	cr_expect(pg_prefix_is_exact(&sorted[2]));
	cr_expect(pg_prefix_is_exact(&sorted[6]));
	cr_expect_not(pg_prefix_is_exact(&sorted[1]));
	cr_expect_not(pg_prefix_is_exact(&sorted[5]));
}

Test(prefix, forms_of_ipv4)
{
	static const struct {
		const char *addr;
		uint8_t length;
		const char *forms[PG_PREFIX_FORMS];
	} cases[] = {
		{"169.254.169.254",
		 32,
		 {"64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::/48",
		  "::ffff:0:a9fe:a9fe"}},
		{"10.0.0.0",
		 8,
		 {"64:ff9b::a00:0/104", "64:ff9b:1::a00:0/104", "2002:a00::/24",
		  "::ffff:0:a00:0/104"}},
		{"0.0.0.0", 0, {"64:ff9b::/96", "64:ff9b:1::/96", "2002::/16", "::ffff:0:0:0/96"}},
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(cases); i++) {
		const struct pg_prefix prefix = prefix_of(cases[i].addr, cases[i].length);
		struct pg_prefix forms[PG_PREFIX_FORMS];
		char text[PG_ADDR_TEXT];

		pg_prefix_forms(&prefix, forms);
		for (size_t j = 0; j < PG_PREFIX_FORMS; j++) {
			cr_expect_str_eq(pg_prefix_format(&forms[j], text), cases[i].forms[j]);
			cr_expect_not(pg_prefix_mask(&forms[j]));
			cr_expect_not(forms[j].v4);
		}
	}
}
