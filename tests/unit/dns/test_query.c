/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/query.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "dns_message.h"

static struct dns_message message;
static struct pg_dns_query query;

static enum pg_dns_parsed parse(void)
{
	pg_autofree uint8_t *copy = dns_copy(&message);

	memset(&query, 0xa5, sizeof(query));
	return pg_dns_query_parse(copy, message.size, &query);
}

#define EXPECT(outcome) cr_expect_eq(parse(), PG_DNS_PARSED_##outcome)

/* The question that most tests ask. */
static void begin(void)
{
	dns_begin(&message, 0x1234, PG_DNS_RD, "Www.Example.com", ns_t_aaaa);
}

/* An OPT record with what stands in place of class and TTL. */
static void put_opt(unsigned int udp_size, uint32_t ttl, const void *options, size_t size)
{
	dns_count(&message, DNS_ADDITIONALS);
	dns_put8(&message, 0);
	dns_put16(&message, ns_t_opt);
	dns_put16(&message, udp_size);
	dns_put32(&message, ttl);
	dns_put16(&message, (unsigned int)size);
	dns_put(&message, options, size);
}

Test(query, plain)
{
	begin();
	EXPECT(OK);
	cr_expect_eq(query.id, 0x1234);
	cr_expect_eq(query.flags, PG_DNS_RD);
	cr_expect(query.has_question && query.has_text);
	cr_expect_str_eq(query.text, "www.example.com");
	cr_expect_eq(query.name.octets[1], 'W', "the client's case");
	cr_expect_eq(query.type, ns_t_aaaa);
	cr_expect_eq(query.class, ns_c_in);
	cr_expect_not(query.edns);
	cr_expect_eq(query.udp_size, 512);
}

Test(query, root)
{
	dns_begin(&message, 1, 0, "", ns_t_ns);
	EXPECT(OK);
	cr_expect(query.has_question && query.has_text);
	cr_expect_str_eq(query.text, "");
}

Test(query, name_without_text)
{
	begin();
	message.data[HFIXEDSZ + 1] = '.';
	EXPECT(OK);
	cr_expect(query.has_question);
	cr_expect_not(query.has_text);
	cr_expect_str_eq(query.text, "");
}

Test(query, other_class_is_the_callers_business)
{
	begin();
	dns_set16(&message, message.size - 2, ns_c_chaos);
	EXPECT(OK);
	cr_expect_eq(query.class, ns_c_chaos);
}

Test(query, longest_name)
{
	dns_begin(&message, 1, 0, dns_longest_name(), ns_t_a);
	EXPECT(OK);
	cr_expect_eq(query.name.size, PG_DNS_NAME_MAX);
	/* One octet more: the first label is divided in two. */
	dns_begin(&message, 1, 0, "", ns_t_a);
	message.size = HFIXEDSZ;
	dns_put8(&message, 61);
	for (unsigned int i = 0; i < 61; i++)
		dns_put8(&message, 'b');
	dns_put_name(&message, dns_longest_name() + 61);
	dns_put32(&message, ns_t_a << 16 | ns_c_in);
	EXPECT(FORMERR);
	cr_expect_not(query.has_question);
}

Test(query, edns_sizes)
{
	static const uint16_t rows[][2] = {{0, 512},   {511, 512},   {512, 512},
					   {513, 513}, {1232, 1232}, {65535, 65535}};

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++) {
		begin();
		put_opt(rows[i][0], 0x8000, NULL, 0);
		EXPECT(OK);
		cr_expect(query.edns);
		cr_expect_eq(query.udp_size, rows[i][1], "%u", rows[i][0]);
	}
}

Test(query, edns_options)
{
	/* A cookie and an empty option. */
	static const uint8_t options[] = {0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 3, 0, 0};

	for (size_t size = 0; size <= sizeof(options); size++) {
		bool whole = size == 0 || size == 12 || size == sizeof(options);

		begin();
		put_opt(1232, 0, options, size);
		cr_expect_eq(parse(), whole ? PG_DNS_PARSED_OK : PG_DNS_PARSED_FORMERR,
			     "%zu octets", size);
		cr_expect(query.edns);
	}
}

Test(query, edns_of_another_version)
{
	begin();
	put_opt(1232, 0x00010000, NULL, 0);
	EXPECT(BADVERS);
	cr_expect(query.edns && query.has_question);
	/* What another version has in it cannot be known. */
	begin();
	put_opt(1232, 0x00ff0000, "\1", 1);
	EXPECT(BADVERS);
	dns_put8(&message, 0);
	EXPECT(FORMERR);
}

Test(query, dropped)
{
	begin();
	dns_set16(&message, 2, PG_DNS_QR);
	EXPECT(DROP);
	begin();
	for (message.size = 0; message.size < HFIXEDSZ; message.size++)
		EXPECT(DROP);
	/* One octet more, and there is somebody to answer. */
	EXPECT(FORMERR);
}

Test(query, other_opcodes)
{
	for (unsigned int opcode = 1; opcode <= 15; opcode++) {
		begin();
		dns_set16(&message, 2, opcode << 11 | PG_DNS_RD);
		EXPECT(NOTIMP);
		cr_expect_eq(query.id, 0x1234);
		cr_expect_eq(query.flags, opcode << 11 | PG_DNS_RD);
		cr_expect_not(query.has_question);
	}
}

Test(query, other_than_one_question)
{
	begin();
	dns_set16(&message, 4, 0);
	EXPECT(FORMERR);
	cr_expect_not(query.has_question);
	begin();
	dns_set16(&message, 4, 2);
	dns_put_name(&message, "other.test");
	dns_put32(&message, ns_t_a << 16 | ns_c_in);
	EXPECT(FORMERR);
	cr_expect_not(query.has_question);
	cr_expect_eq(query.id, 0x1234);
}

Test(query, records_where_none_belong)
{
	static const size_t sections[] = {DNS_ANSWERS, DNS_AUTHORITIES, DNS_ADDITIONALS};

	for (size_t i = 0; i < PG_ARRAY_SIZE(sections); i++) {
		begin();
		dns_count(&message, sections[i]);
		dns_put_raw(&message, "", ns_t_a, 0, "abcd", 4);
		EXPECT(FORMERR);
		cr_expect(query.has_question, "section %zu", i);
		cr_expect_eq(query.id, 0x1234);
	}
	begin();
	dns_count(&message, DNS_ADDITIONALS);
	dns_put_raw(&message, "key.test", ns_t_tsig, 0, "", 0);
	EXPECT(FORMERR);
	begin();
	dns_count(&message, DNS_ADDITIONALS);
	dns_put_raw(&message, "", ns_t_sig, 0, "", 0);
	EXPECT(FORMERR);
}

Test(query, opt_record_at_fault)
{
	begin();
	put_opt(1232, 0, NULL, 0);
	put_opt(1232, 0, NULL, 0);
	EXPECT(FORMERR);
	/* It belongs to the root. */
	begin();
	dns_count(&message, DNS_ADDITIONALS);
	dns_put_raw(&message, "a", ns_t_opt, 0, "", 0);
	EXPECT(FORMERR);
	/* With a TSIG record behind it. */
	begin();
	put_opt(1232, 0, NULL, 0);
	dns_count(&message, DNS_ADDITIONALS);
	dns_put_raw(&message, "key.test", ns_t_tsig, 0, "", 0);
	EXPECT(FORMERR);
}

Test(query, compression_in_the_question)
{
	begin();
	message.size = HFIXEDSZ;
	/* Into the header, where the counts are an empty name. */
	dns_put16(&message, 0xc006);
	dns_put32(&message, ns_t_a << 16 | ns_c_in);
	EXPECT(FORMERR);
	cr_expect_not(query.has_question);
	message.size = HFIXEDSZ;
	dns_put16(&message, 0xc00c);
	dns_put32(&message, ns_t_a << 16 | ns_c_in);
	EXPECT(FORMERR);
	cr_expect_not(query.has_question);
}

Test(query, trailing_octets)
{
	begin();
	dns_put8(&message, 0);
	EXPECT(FORMERR);
	cr_expect(query.has_question);
	begin();
	put_opt(1232, 0, NULL, 0);
	dns_put8(&message, 0);
	EXPECT(FORMERR);
}

Test(query, cut_off)
{
	size_t question;

	begin();
	question = message.size;
	put_opt(1232, 0, "\0\3\0\1x", 5);
	EXPECT(OK);
	while (--message.size >= HFIXEDSZ) {
		EXPECT(FORMERR);
		cr_expect_eq(query.has_question, message.size >= question, "%zu", message.size);
	}
}
