/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/wire.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dns_message.h"
#include "net/addr.h"

static struct dns_message message;

/* Reads the name at offset of the message, which ends where the sanitizer sees it. */
static int read_at(size_t offset, struct pg_dns_name *ret_name)
{
	pg_autofree uint8_t *copy = dns_copy(&message);
	const struct pg_dns_message parsed = {.data = copy, .size = message.size};

	return pg_dns_name_read(&parsed, offset, ret_name);
}

static int skip_at(size_t *offset)
{
	pg_autofree uint8_t *copy = dns_copy(&message);
	const struct pg_dns_message parsed = {.data = copy, .size = message.size};

	return pg_dns_name_skip(&parsed, offset);
}

static void put_octets(const char *octets, size_t size)
{
	message.size = 0;
	dns_put(&message, octets, size);
}

#define MESSAGE(octets) put_octets(octets, sizeof(octets) - 1)

Test(wire, integers)
{
	static const uint8_t octets[] = {0x80, 0x01, 0xff, 0x7f};
	const struct pg_dns_message parsed = {.data = octets, .size = sizeof(octets)};

	cr_expect_eq(pg_dns_load16(&parsed, 0), 0x8001);
	cr_expect_eq(pg_dns_load16(&parsed, 2), 0xff7f);
	cr_expect_eq(pg_dns_load32(&parsed, 0), 0x8001ff7fU);
}

Test(wire, text_to_name)
{
	const struct pg_dns_name name = dns_name("Api.example_1.com");
	static const char octets[] = "\x03"
				     "Api\x09"
				     "example_1\x03"
				     "com";

	cr_assert_eq(name.size, sizeof(octets));
	cr_expect_arr_eq(name.octets, octets, sizeof(octets));
	cr_expect_eq(dns_name("api.test.").size, dns_name("api.test").size);
	cr_expect_eq(dns_name("").size, 1);
	cr_expect_eq(dns_name(".").size, 1);
}

Test(wire, text_that_is_no_name)
{
	static const char *const rows[] = {"..",    ".a",   "a..b",	"a..",
					   "a\\.b", "a\tb", "\xc3\xa4", "a\x7f"};
	struct pg_dns_name name;

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++)
		cr_expect_eq(pg_dns_name_from_text(rows[i], &name), -EBADMSG, "%s", rows[i]);
}

Test(wire, longest_label)
{
	char label[65];
	struct pg_dns_name name;

	memset(label, 'a', sizeof(label));
	label[64] = '\0';
	cr_expect_eq(pg_dns_name_from_text(label, &name), -EBADMSG);
	label[63] = '\0';
	cr_expect_eq(pg_dns_name_from_text(label, &name), 0);
	cr_expect_eq(name.size, 65);
}

Test(wire, longest_name)
{
	char text[PG_DNS_TEXT + 1], again[PG_DNS_TEXT];
	struct pg_dns_name name = dns_name(dns_longest_name());

	cr_expect_eq(name.size, PG_DNS_NAME_MAX);
	cr_expect_eq(pg_dns_name_to_text(&name, again), 0);
	cr_expect_str_eq(again, dns_longest_name());
	strcpy(text, dns_longest_name());
	strcat(text, "a");
	cr_expect_eq(pg_dns_name_from_text(text, &name), -EBADMSG);
	text[PG_DNS_TEXT - 1] = '.';
	cr_expect_eq(pg_dns_name_from_text(text, &name), 0, "a final dot");
}

Test(wire, name_to_text)
{
	struct pg_dns_name name = dns_name("WWW.Example.COM");
	char text[PG_DNS_TEXT];

	cr_expect_eq(pg_dns_name_to_text(&name, text), 0);
	cr_expect_str_eq(text, "www.example.com");
	name = dns_name("My Printer._ipp._tcp.test");
	cr_expect_eq(pg_dns_name_to_text(&name, text), 0);
	cr_expect_str_eq(text, "my printer._ipp._tcp.test");
	name = dns_name("");
	cr_expect_eq(pg_dns_name_to_text(&name, text), 0);
	cr_expect_str_eq(text, "");
}

Test(wire, names_without_text)
{
	static const uint8_t odd[] = {'\0', '\t', 0x1f, 0x7f, 0x80, 0xff, '.', '\\'};
	char text[PG_DNS_TEXT];

	for (size_t i = 0; i < sizeof(odd); i++) {
		struct pg_dns_name name = dns_name("axb.test");

		name.octets[2] = odd[i];
		cr_expect_eq(pg_dns_name_to_text(&name, text), -EINVAL, "%#x", odd[i]);
	}
}

Test(wire, equality)
{
	struct pg_dns_name a = dns_name("www.example.com"), b = dns_name("WWW.eXample.Com");

	cr_expect(pg_dns_name_equal(&a, &b));
	b = dns_name("www.example.org");
	cr_expect_not(pg_dns_name_equal(&a, &b));
	b = dns_name("www.example.co");
	cr_expect_not(pg_dns_name_equal(&a, &b));
	/* The same octets, another division into labels. */
	a = dns_name("ab.c");
	b = dns_name("a.bc");
	cr_expect_not(pg_dns_name_equal(&a, &b));
	/* Only letters have case: '@' and '`', '[' and '{' differ by the same bit. */
	a = dns_name("@[");
	b = dns_name("`{");
	cr_expect_not(pg_dns_name_equal(&a, &b));
}

Test(wire, plain_name)
{
	struct pg_dns_name name, expected = dns_name("Api.test");
	size_t offset = 2;

	MESSAGE("xx\x03"
		"Api\x04"
		"test\0y");
	cr_assert_eq(read_at(2, &name), 0);
	cr_expect(pg_dns_name_equal(&name, &expected));
	cr_expect_eq(name.octets[1], 'A', "the case is kept");
	cr_expect_eq(skip_at(&offset), 0);
	cr_expect_eq(offset, 12);
}

Test(wire, compressed_name)
{
	struct pg_dns_name name, expected = dns_name("www.api.test");
	size_t offset = 10;

	/* api.test at 0, then www and a pointer, then a pointer to that. */
	MESSAGE("\x03"
		"api\x04"
		"test\0\x03"
		"www\xc0\0\xc0\x0a");
	cr_assert_eq(read_at(10, &name), 0);
	cr_expect(pg_dns_name_equal(&name, &expected));
	cr_assert_eq(read_at(16, &name), 0);
	cr_expect(pg_dns_name_equal(&name, &expected));
	cr_expect_eq(skip_at(&offset), 0);
	cr_expect_eq(offset, 16, "pointers are not followed");
}

Test(wire, cut_off)
{
	struct pg_dns_name name;

	MESSAGE("\x01z\0\x03"
		"www\xc0\0");
	cr_expect_eq(read_at(3, &name), 0);
	while (message.size-- > 0) {
		size_t offset = 3;

		cr_expect_eq(read_at(3, &name), -EBADMSG, "%zu octets", message.size);
		cr_expect_eq(skip_at(&offset), -EBADMSG, "%zu octets", message.size);
		cr_expect_eq(offset, 3);
	}
}

Test(wire, pointers_that_do_not_lead_backwards)
{
	struct pg_dns_name name;

	MESSAGE("\xc0\0");
	cr_expect_eq(read_at(0, &name), -EBADMSG, "to itself");
	MESSAGE("\xc0\x02\0");
	cr_expect_eq(read_at(0, &name), -EBADMSG, "forwards");
	MESSAGE("\0\xff\xff");
	cr_expect_eq(read_at(1, &name), -EBADMSG, "behind the end");
	MESSAGE("\x01"
		"a\xc0\0");
	cr_expect_eq(read_at(0, &name), -EBADMSG, "to the start of the name");
	MESSAGE("\xc0\x02\xc0\0");
	cr_expect_eq(read_at(2, &name), -EBADMSG, "to each other");
}

Test(wire, reserved_label_types)
{
	struct pg_dns_name name;
	size_t offset = 1;

	MESSAGE("\0\x40\0");
	cr_expect_eq(read_at(1, &name), -EBADMSG);
	cr_expect_eq(skip_at(&offset), -EBADMSG);
	MESSAGE("\0\x80\0");
	cr_expect_eq(read_at(1, &name), -EBADMSG);
	cr_expect_eq(skip_at(&offset), -EBADMSG);
}

/* A label and a pointer to a name: together they have 255 octets, or 256. */
Test(wire, compression_cannot_make_a_name_too_long)
{
	struct pg_dns_name name;
	size_t at;

	for (unsigned int extra = 0; extra <= 1; extra++) {
		char text[PG_DNS_TEXT];

		strcpy(text, dns_longest_name());
		text[PG_DNS_TEXT - 1 - 3 + extra] = '\0';
		message.size = 0;
		dns_put_name(&message, text);
		at = message.size;
		dns_put(&message, "\x02xx\xc0\0", 5);
		cr_expect_eq(read_at(at, &name), extra ? -EBADMSG : 0);
	}
}

/* As many labels as fit, each followed by a pointer; and pointers to pointers. */
Test(wire, pointers_are_bounded)
{
	struct pg_dns_name name;
	size_t at = 0;

	MESSAGE("\0");
	for (unsigned int i = 0; i < 126; i++) {
		size_t here = message.size;

		dns_put(&message, "\x01z", 2);
		dns_put16(&message, 0xc000 | (unsigned int)at);
		at = here;
	}
	cr_expect_eq(read_at(at, &name), 0);
	cr_expect_eq(name.size, 253);
	for (unsigned int pointers = 127; pointers <= 128; pointers++) {
		size_t here = message.size;

		dns_put16(&message, 0xc000 | (unsigned int)at);
		at = here;
		cr_expect_eq(read_at(at, &name), pointers <= 127 ? 0 : -EBADMSG);
	}
}

static void expect_reverse(const char *text, const char *expected)
{
	char found[PG_ADDR_TEXT] = "none";
	struct pg_addr addr;

	if (pg_dns_reverse_address(text, &addr))
		pg_addr_format(&addr, found);
	cr_expect_str_eq(found, expected, "%s: %s", text, found);
}

#define ZEROS "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0."

Test(wire, reverse_names)
{
	expect_reverse("4.3.2.1.in-addr.arpa", "1.2.3.4");
	expect_reverse("0.255.0.192.in-addr.arpa", "192.0.255.0");
	expect_reverse("f.0." ZEROS "8.b.d.0.1.0.0.2.ip6.arpa", "none");
	expect_reverse("f." ZEROS "8.b.d.0.1.0.0.2.ip6.arpa", "2001:db8::f");
	expect_reverse("4.0.3.0.2.0.1.0.f.f.f.f."
		       "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa",
		       "1.2.3.4");
}

Test(wire, names_that_stand_for_no_address)
{
	static const char *const rows[] = {
		"",
		"in-addr.arpa",
		"1.in-addr.arpa",
		"3.2.1.in-addr.arpa",
		"5.4.3.2.1.in-addr.arpa",
		"256.3.2.1.in-addr.arpa",
		"04.3.2.1.in-addr.arpa",
		"a.3.2.1.in-addr.arpa",
		".3.2.1.in-addr.arpa",
		"4.3.2.1",
		"4.3.2.1.",
		"4.3.2.1.in-addr.arpa.test",
		"4.3.2.1.in-addr.arpax",
		"ip6.arpa",
		"f.ip6.arpa",
		"g." ZEROS "8.b.d.0.1.0.0.2.ip6.arpa",
		"00." ZEROS "8.b.d.0.1.0.0.2.ip6.arpa",
		"f." ZEROS "8.b.d.0.1.0.0.2.ip6.arp",
		"f." ZEROS "8.b.d.0.1.0.0.2",
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++)
		expect_reverse(rows[i], "none");
}
