/* SPDX-License-Identifier: Apache-2.0 */
/* Entries beyond the vectors: the codes and hints of mixtures of faults, and of other scripts. */
#include "policy/entry.h"

#include <criterion/criterion.h>
#include <errno.h>

struct row {
	const char *text;
	const char *code; /* NULL: accepted */
	const char *form; /* normal form or hint */
};

static void check(const struct row *row)
{
	struct pg_entry_fault fault;
	struct pg_entry entry;
	int result = pg_entry_parse(row->text, &entry, &fault);

	if (row->code) {
		cr_assert_eq(result, -EINVAL, "%s is accepted", row->text);
		cr_expect_str_eq(pg_diagnostic_code_name(fault.code), row->code, "%s", row->text);
		cr_expect_str_eq(fault.hint, row->form, "%s", row->text);
	} else {
		pg_autofree char *form = NULL;

		cr_assert_eq(result, 0, "%s is refused", row->text);
		form = pg_entry_format(&entry);
		cr_expect_str_eq(form, row->form, "%s", row->text);
		pg_entry_clear(&entry);
	}
}

Test(entry, mixtures)
{
	static const struct row rows[] = {
		{"https://user:pw@api.example.com:8443/v1?q#f", "url", "api.example.com"},
		{"http://[2001:db8::1]:80/", "url", "2001:db8::1"},
		{"https://*.example.com/", "url", "*.example.com"},
		{"https://", "url", ""},
		{"https://a_b/", "url", ""},
		{"api.example.com:443/v1", "path", "api.example.com"},
		{"*.example.com/v1", "path", "*.example.com"},
		{"203.0.113.10/v1", "path", "203.0.113.10"},
		{"api.example.com?x", "path", "api.example.com"},
		{"/24", "path", ""},
		{"/", "path", ""},
		{"*.example.com:443", "port", "*.example.com"},
		{"api.example.com:", "port", "api.example.com"},
		{"api.example.com:*", "port", "api.example.com"},
		{"api.example.com:x", "hostname_syntax", ""},
		{"mailto:a", "hostname_syntax", ""},
		{"user@203.0.113.10:22", "userinfo", "203.0.113.10"},
		{"[2001:db8::]/32", "bracketed_ipv6", "2001:db8::/32"},
		{"[2001:db8::]/1000", "bracketed_ipv6", ""},
		{"[fe80::1%eth0]", "zone_id", "fe80::1"},
		{"[a]", "hostname_syntax", ""},
		{"[", "hostname_syntax", ""},
		{"]", "hostname_syntax", ""},
		{"2001:db8::g", "hostname_syntax", ""},
		{"1:2:3", "hostname_syntax", ""},
		{"*.2001:db8::1", "wildcard_address", "2001:db8::1"},
		{"*.10", "wildcard_address", ""},
		{"*.example.com..", "hostname_syntax", ""},
		{"..", "hostname_syntax", ""},
		{"%", "hostname_syntax", ""},
		{"0x", "ambiguous_ipv4", ""},
		{"example.0xff", "ambiguous_ipv4", ""},
		{"203.0.113.10..", "hostname_syntax", ""},
		{"a\x7f.example", "hostname_syntax", ""},
		{"\tapi.example.com\n", NULL, "api.example.com"},
		{"1.2.3.4a", NULL, "1.2.3.4a"},
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

Test(entry, ranges)
{
	static const struct row rows[] = {
		{"::ffff:203.0.113.0/120", NULL, "203.0.113.0/24"},
		{"::ffff:0.0.0.0/96", NULL, "0.0.0.0/0"},
		{"::ffff:203.0.113.10/128", NULL, "203.0.113.10"},
		{"::ffff:0:0/95", "cidr_host_bits", ""},
		{"0.0.0.0/255.255.0.255", "cidr_prefix", ""},
		{"203.0.113.7/255.255.255.255", "cidr_prefix", "203.0.113.7"},
		{"203.0.113.7/0.0.0.0", "cidr_prefix", "0.0.0.0/0"},
		{"203.0.113.0/24/24", "cidr_prefix", ""},
		{"203.0.113.0/+24", "cidr_prefix", ""},
		{"203.0.113.0/4294967320", "cidr_prefix", ""},
		{"2001:db8::/00", "cidr_prefix", ""},
		{"203.0.113.0 /24", "path", ""},
		{"203.0.113.0/24 ", NULL, "203.0.113.0/24"},
		{"::/1", NULL, "::/1"},
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

Test(entry, other_scripts)
{
	static const struct row rows[] = {
		{"b\u00fccher.example", "not_ascii", "xn--bcher-kva.example"},
		{"*.b\u00fccher.example.", "not_ascii", "*.xn--bcher-kva.example"},
		{"\u043f\u0440\u0438\u043c\u0435\u0440.example", "not_ascii",
		 "xn--e1afmkfd.example"},
		{"B\u00fccher.example", "not_ascii", ""},
		{"b\u00dccher.example", "not_ascii", ""},
		/* decomposed: u and a combining diaeresis */
		{"bu\u0308cher.example", "not_ascii", ""},
		/* two readings: strasse in IDNA2003, xn--strae-oqa in IDNA2008 */
		{"stra\u00dfe.example", "not_ascii", ""},
		{"\u2113.example", "not_ascii", ""},
		{"api\u3002example", "not_ascii", ""},
		{"\u00fc_\u00fc.example", "not_ascii", ""},
		{"api.example.com\u200b", "not_ascii", ""},
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

Test(entry, wildcard_leaves_room_for_a_label)
{
	char text[2 + PG_HOSTNAME_MAX + 1] = "*.";
	struct pg_entry_fault fault;
	struct pg_entry entry;

	for (size_t i = 2; i < sizeof(text) - 1; i++)
		text[i] = i % 60 == 1 ? '.' : 'a';
	cr_assert_eq(pg_entry_parse(text, &entry, &fault), -EINVAL);
	cr_expect_eq(fault.code, PG_DIAG_NAME_TOO_LONG);
	text[PG_HOSTNAME_MAX] = '\0';
	cr_assert_eq(pg_entry_parse(text, &entry, &fault), 0);
	pg_entry_clear(&entry);
}
