/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <string.h>

#include "base/clock.h"
#include "compile/address_set.h"

static struct pg_prefix range(const char *text, unsigned int length)
{
	struct pg_addr addr;

	cr_assert_eq(pg_addr_parse(text, &addr), 0, "%s", text);
	return (struct pg_prefix){.addr = addr,
				  .length = (uint8_t)length,
				  .v4 = pg_addr_is_v4(&addr)};
}

static struct pg_prefix exact(const char *text)
{
	return range(text, strchr(text, ':') ? 128 : 32);
}

static struct pg_address_set compile(const struct pg_prefix *prefixes, size_t count)
{
	struct pg_address_set set;
	struct pg_error err = {0};

	cr_assert_eq(pg_compile_prefixes(prefixes, count, &set, &err), 0, "%s", err.text);
	return set;
}

static bool holds(const struct pg_address_set *set, const char *text)
{
	struct pg_addr addr;

	cr_assert_eq(pg_addr_parse(text, &addr), 0, "%s", text);
	return pg_address_set_contains(set, &addr);
}

/* The array as text: "192.0.2.0/24 198.51.100.1 ". */
static void expect(const struct pg_prefix *ranges, size_t count, const char *text)
{
	char found[1024] = "", one[PG_ADDR_TEXT];

	for (size_t i = 0; i < count; i++) {
		strncat(found, pg_prefix_format(&ranges[i], one),
			sizeof(found) - strlen(found) - 1);
		strncat(found, " ", sizeof(found) - strlen(found) - 1);
	}
	cr_expect_str_eq(found, text);
}

Test(address_set, nothing)
{
	struct pg_address_set set = compile(NULL, 0);

	cr_expect(pg_address_set_is_empty(&set));
	cr_expect_not(holds(&set, "192.0.2.1"));
	cr_expect_not(holds(&set, "2001:db8::1"));
	pg_address_set_clear(&set);
}

Test(address_set, sorts_and_drops_duplicates_and_covered_ranges)
{
	const struct pg_prefix input[] = {
		exact("203.0.113.10"),	  range("10.0.0.0", 8), exact("203.0.113.10"),
		range("10.1.0.0", 16),	  exact("10.200.3.4"),	exact("192.0.2.1"),
		exact("2001:db8::1"),	  range("10.0.0.0", 8), range("2001:db8:1::", 48),
		exact("2001:db8:1:2::3"), exact("2001:db8::1"),
	};
	struct pg_address_set set = compile(input, PG_ARRAY_SIZE(input));

	expect(set.v4, set.v4_count, "10.0.0.0/8 192.0.2.1 203.0.113.10 ");
	expect(set.v6, set.v6_count, "2001:db8::1 2001:db8:1::/48 ");
	cr_expect(holds(&set, "10.255.255.255"));
	cr_expect_not(holds(&set, "11.0.0.0"));
	cr_expect_not(holds(&set, "9.255.255.255"));
	cr_expect(holds(&set, "2001:db8:1:ffff::"));
	cr_expect_not(holds(&set, "2001:db8:2::"));
	pg_address_set_clear(&set);
}

Test(address_set, merges_halves_up_to_the_top)
{
	const struct pg_prefix input[] = {
		exact("192.0.2.3"), exact("192.0.2.0"),	   exact("192.0.2.2"),
		exact("192.0.2.1"), exact("198.51.100.1"), exact("198.51.100.2"),
		range("::", 1),	    range("8000::", 2),	   range("c000::", 2),
	};
	const struct pg_prefix all4[] = {range("128.0.0.0", 1), range("0.0.0.0", 1)};
	struct pg_address_set set = compile(input, PG_ARRAY_SIZE(input));

	/* The last two are neighbours, but not halves of one range. */
	expect(set.v4, set.v4_count, "192.0.2.0/30 198.51.100.1 198.51.100.2 ");
	expect(set.v6, set.v6_count, "::/0 ");
	pg_address_set_clear(&set);

	set = compile(all4, PG_ARRAY_SIZE(all4));
	expect(set.v4, set.v4_count, "0.0.0.0/0 ");
	cr_expect(holds(&set, "255.255.255.255"));
	cr_expect_not(holds(&set, "::1"));
	pg_address_set_clear(&set);
}

Test(address_set, ipv6_ranges_do_not_allow_ipv4)
{
	const struct pg_prefix input[] = {range("::", 0), range("::ffff:0:0", 90)};
	const struct pg_prefix mapped = {.addr = range("::ffff:192.0.2.0", 0).addr, .length = 120};
	struct pg_address_set set = compile(input, PG_ARRAY_SIZE(input));

	expect(set.v6, set.v6_count, "::/0 ");
	cr_expect(holds(&set, "2001:db8::1"));
	cr_expect_not(holds(&set, "192.0.2.1"));
	cr_expect_not(holds(&set, "::ffff:192.0.2.1"));
	pg_address_set_clear(&set);

	set = compile(&mapped, 1);
	cr_expect_eq(set.v4_count, 0);
	cr_expect_not(holds(&set, "192.0.2.1"));
	pg_address_set_clear(&set);
}

Test(address_set, phase_leaves_names_out_but_localhost)
{
	struct pg_entry items[] = {
		{.kind = PG_ENTRY_HOST, .name = (char[]){"api.example.com"}},
		{.kind = PG_ENTRY_HOST, .name = (char[]){"localhost"}},
		{.kind = PG_ENTRY_WILDCARD, .name = (char[]){"localhost"}},
		{.kind = PG_ENTRY_CIDR4, .prefix = range("203.0.113.0", 24)},
		{.kind = PG_ENTRY_IP6, .prefix = exact("2001:db8::7")},
	};
	struct pg_entries entries = {.references = 1,
				     .count = PG_ARRAY_SIZE(items),
				     .items = items};
	struct pg_phase_policy phase = {.mode = PG_MODE_ALLOWLIST, .entries = &entries};
	struct pg_address_set set;

	cr_assert_eq(pg_compile_phase(&phase, &set, NULL), 0);
	expect(set.v4, set.v4_count, "127.0.0.1 203.0.113.0/24 ");
	expect(set.v6, set.v6_count, "::1 2001:db8::7 ");
	pg_address_set_clear(&set);

	phase = (struct pg_phase_policy){.mode = PG_MODE_NO_NETWORK};
	cr_assert_eq(pg_compile_phase(&phase, &set, NULL), 0);
	cr_expect(pg_address_set_is_empty(&set));
}

Test(address_set, only_localhost_many_times)
{
	char name[] = "localhost";
	struct pg_entry items[100];
	struct pg_entries entries = {.count = PG_ARRAY_SIZE(items), .items = items};
	struct pg_phase_policy phase = {.mode = PG_MODE_ALLOWLIST, .entries = &entries};
	struct pg_address_set set;

	for (size_t i = 0; i < PG_ARRAY_SIZE(items); i++)
		items[i] = (struct pg_entry){.kind = PG_ENTRY_HOST, .name = name};
	cr_assert_eq(pg_compile_phase(&phase, &set, NULL), 0);
	expect(set.v4, set.v4_count, "127.0.0.1 ");
	expect(set.v6, set.v6_count, "::1 ");
	pg_address_set_clear(&set);
}

Test(address_set, find_outside)
{
	const struct pg_prefix documentation[] = {range("192.0.2.0", 24), range("198.51.100.0", 24),
						  range("203.0.113.0", 24)};
	const struct pg_prefix all[] = {range("0.0.0.0", 0), range("::", 0)};
	const struct pg_addr untouched = exact("192.0.2.77").addr;
	struct pg_address_set set = compile(NULL, 0);
	struct pg_addr addr;

	cr_assert(pg_address_set_find_outside(&set, &addr));
	cr_expect(pg_prefix_contains(&documentation[0], &addr));

	set = compile(documentation, PG_ARRAY_SIZE(documentation));
	cr_assert(pg_address_set_find_outside(&set, &addr));
	cr_expect_not(pg_address_set_contains(&set, &addr));
	pg_address_set_clear(&set);

	/* Each family alone leaves the other one outside. */
	for (size_t i = 0; i < 2; i++) {
		set = compile(&all[i], 1);
		cr_assert(pg_address_set_find_outside(&set, &addr));
		cr_expect_eq(pg_addr_is_v4(&addr), i == 1);
		pg_address_set_clear(&set);
	}
	set = compile(all, 2);
	addr = untouched;
	cr_expect_not(pg_address_set_find_outside(&set, &addr));
	cr_expect_eq(pg_addr_compare(&addr, &untouched), 0);
	pg_address_set_clear(&set);
}
