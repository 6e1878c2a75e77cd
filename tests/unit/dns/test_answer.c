/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/answer.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "answer_fixture.h"

TestSuite(answer, .fini = free_answer);

Test(answer, addresses_of_the_question)
{
	EXPECT(ns_t_a, "192.0.2.1=60 192.0.2.2=30 ", {ASKED, ns_t_a, 60, "192.0.2.1"},
	       {"WWW.Example.COM", ns_t_a, 30, "192.0.2.2"});
	cr_expect_eq(answer->count, 2);
	cr_expect_eq(answer->chain, 0);
	cr_expect_eq(answer->ttl, 30);
	cr_expect_eq(answer->rcode, ns_r_noerror);
	cr_expect_not(pg_answer_is_dangling(answer));
	EXPECT(ns_t_aaaa, "2001:db8::1=5 ", {ASKED, ns_t_aaaa, 5, "2001:db8::1"});
	cr_expect_eq(answer->type, ns_t_aaaa);
}

Test(answer, only_of_the_type_asked)
{
	EXPECT(ns_t_a, "192.0.2.1=60 ", {ASKED, ns_t_aaaa, 60, "2001:db8::1"},
	       {ASKED, ns_t_a, 60, "192.0.2.1"});
	cr_expect_eq(answer->count, 1);
}

Test(answer, only_of_class_in)
{
	RECORDS(ns_t_a, {ASKED, ns_t_a, 60, "192.0.2.1"});
	dns_set16(&message, message.size - 12, ns_c_chaos);
	cr_expect_eq(read_answer(ns_t_a), 0);
	cr_expect_eq(answer->count, 0);
	RECORDS(ns_t_a, {"a.example.net", ns_t_a, 60, "192.0.2.1"}, {ASKED, ns_t_cname, 60, ""});
	dns_set16(&message, message.size - 9, ns_c_chaos);
	cr_expect_eq(read_answer(ns_t_a), 0);
	cr_expect_eq(answer->chain, 0);
}

Test(answer, unrelated_records_do_not_count)
{
	EXPECT(ns_t_a, "192.0.2.1=60 ", {"www.example.org", ns_t_a, 60, "192.0.2.66"},
	       {ASKED, ns_t_a, 60, "192.0.2.1"}, {"example.com", ns_t_a, 60, "192.0.2.67"},
	       {"www.example.com.evil.test", ns_t_a, 60, "192.0.2.68"});
	EXPECT(ns_t_a, "", {"other.example.com", ns_t_a, 60, "192.0.2.66"});
}

Test(answer, chain_from_the_question_in_any_order)
{
	EXPECT(ns_t_a, "192.0.2.1=7 ", {ASKED, ns_t_cname, 60, "a.example.net"},
	       {"a.example.net", ns_t_cname, 7, "b.example.net"},
	       {"b.example.net", ns_t_a, 50, "192.0.2.1"});
	expect_targets("a.example.net=60 b.example.net=7 ");
	cr_expect_eq(answer->ttl, 7);
	EXPECT(ns_t_a, "192.0.2.1=7 ", {"b.example.net", ns_t_a, 50, "192.0.2.1"},
	       {"a.example.net", ns_t_cname, 7, "B.example.net"},
	       {ASKED, ns_t_cname, 60, "a.example.NET"});
	expect_targets("a.example.net=60 b.example.net=7 ");
	cr_expect_eq(answer->chain, 2);
	cr_expect_eq(answer->count, 3);
}

Test(answer, records_are_in_order_with_names_whole)
{
	struct dns_message expected = {.size = 0};

	RECORDS(ns_t_a, {"b.example.net", ns_t_a, 50, "192.0.2.1"},
		{"unrelated.test", ns_t_a, 50, "192.0.2.66"},
		{"a.example.net", ns_t_cname, 7, "B.example.net"},
		{"WWW.example.com", ns_t_cname, 60, "a.example.net"});
	cr_assert_eq(read_answer(ns_t_a), 0);
	dns_put_raw(&expected, ASKED, ns_t_cname, 60, "\1a\7example\3net", 15);
	dns_put_raw(&expected, "a.example.net", ns_t_cname, 7, "\1B\7example\3net", 15);
	dns_put_raw(&expected, "B.example.net", ns_t_a, 50, "\xc0\0\2\1", 4);
	dns_expect_octets(answer->records, answer->size, &expected);
}

Test(answer, chain_that_begins_elsewhere_does_not_count)
{
	EXPECT(ns_t_a, "", {"x.example.org", ns_t_cname, 60, "a.example.net"},
	       {"a.example.net", ns_t_a, 50, "192.0.2.66"});
	EXPECT(ns_t_a, "192.0.2.1=60 ", {"x.example.org", ns_t_cname, 60, "a.example.net"},
	       {"a.example.net", ns_t_a, 50, "192.0.2.66"}, {ASKED, ns_t_a, 60, "192.0.2.1"});
	/* Beside a CNAME, an address of the alias itself is not at the end of the chain. */
	EXPECT(ns_t_a, "192.0.2.1=50 ", {ASKED, ns_t_a, 60, "192.0.2.66"},
	       {ASKED, ns_t_cname, 60, "a.example.net"},
	       {"a.example.net", ns_t_a, 50, "192.0.2.1"});
}

Test(answer, first_of_several_cnames_counts)
{
	EXPECT(ns_t_a, "192.0.2.1=50 ", {ASKED, ns_t_cname, 60, "a.example.net"},
	       {ASKED, ns_t_cname, 60, "b.example.net"}, {"a.example.net", ns_t_a, 50, "192.0.2.1"},
	       {"b.example.net", ns_t_a, 50, "192.0.2.2"});
}

Test(answer, cname_asked_for_is_not_followed)
{
	RECORDS(ns_t_cname, {ASKED, ns_t_cname, 60, "a.example.net"},
		{"a.example.net", ns_t_cname, 7, "b.example.net"});
	cr_assert_eq(read_answer(ns_t_cname), 0);
	cr_expect_eq(answer->chain, 0);
	cr_expect_eq(answer->count, 1);
	cr_expect_eq(answer->ttl, 60);
	cr_expect(pg_dns_name_equal(&answer->target, &answer->question));
	expect_targets("");
	expect_addresses("");
}

/* Puts a chain of so many links, then an address. */
static void put_chain(size_t links)
{
	char owner[64] = ASKED, target[64];
	struct dns_record record = {owner, ns_t_cname, 60, target};

	dns_begin(&message, 1, RESPONSE, ASKED, ns_t_a);
	for (size_t i = 0; i < links; i++) {
		snprintf(target, sizeof(target), "a%zu.example.net", i);
		dns_put_record(&message, &record);
		strcpy(owner, target);
	}
	record = (struct dns_record){owner, ns_t_a, 60, "192.0.2.1"};
	dns_put_record(&message, &record);
}

Test(answer, chain_is_bounded)
{
	put_chain(PG_ANSWER_CHAIN_MAX);
	cr_expect_eq(read_answer(ns_t_a), 0);
	expect_addresses("192.0.2.1=60 ");
	put_chain(PG_ANSWER_CHAIN_MAX + 1);
	cr_expect_eq(read_answer(ns_t_a), -ELOOP);
}

Test(answer, chain_that_meets_itself)
{
	RECORDS(ns_t_a, {ASKED, ns_t_cname, 60, "WWW.example.com"});
	cr_expect_eq(read_answer(ns_t_a), -ELOOP);
	RECORDS(ns_t_a, {ASKED, ns_t_cname, 60, "a.test"}, {"a.test", ns_t_cname, 60, "b.test"},
		{"b.test", ns_t_cname, 60, "a.test"});
	cr_expect_eq(read_answer(ns_t_a), -ELOOP);
}

Test(answer, cnames_of_others_are_bounded)
{
	const struct dns_record other = {"x.test", ns_t_cname, 60, "y.test"},
				address = {ASKED, ns_t_a, 60, "192.0.2.1"};

	RECORDS(ns_t_a, address);
	for (unsigned int i = 0; i < 64; i++)
		dns_put_record(&message, &other);
	cr_expect_eq(read_answer(ns_t_a), 0);
	dns_put_record(&message, &other);
	cr_expect_eq(read_answer(ns_t_a), -ELOOP);
}

Test(answer, ttls)
{
	/* The top bit means zero; nothing is kept for more than a day. */
	EXPECT(ns_t_a, "192.0.2.1=0 ", {ASKED, ns_t_a, 0x80000000U, "192.0.2.1"});
	EXPECT(ns_t_a, "192.0.2.1=86400 ", {ASKED, ns_t_a, 0x7fffffffU, "192.0.2.1"});
	EXPECT(ns_t_a, "192.0.2.1=86400 ", {ASKED, ns_t_a, 86401, "192.0.2.1"});
	cr_expect_eq(answer->ttl, 86400);
	EXPECT(ns_t_a, "192.0.2.1=86399 192.0.2.2=0 ", {ASKED, ns_t_a, 86399, "192.0.2.1"},
	       {ASKED, ns_t_a, 0, "192.0.2.2"});
	cr_expect_eq(answer->ttl, 0);
}

Test(answer, must_be_a_response_to_the_question)
{
	const struct dns_record record = {ASKED, ns_t_a, 60, "192.0.2.1"};
	static const unsigned int flags[] = {0x0100, RESPONSE | 0x2800, RESPONSE | PG_DNS_TC};

	for (size_t i = 0; i < PG_ARRAY_SIZE(flags); i++) {
		dns_begin(&message, 1, flags[i], ASKED, ns_t_a);
		dns_put_record(&message, &record);
		cr_expect_eq(read_answer(ns_t_a), -EBADMSG, "flags %#x", flags[i]);
	}
	dns_begin(&message, 1, RESPONSE, "www.example.org", ns_t_a);
	dns_put_record(&message, &record);
	cr_expect_eq(read_answer(ns_t_a), -EBADMSG, "another name");
	RECORDS(ns_t_aaaa, record);
	cr_expect_eq(read_answer(ns_t_a), -EBADMSG, "another type");
	for (unsigned int count = 0; count <= 2; count += 2) {
		RECORDS(ns_t_a, record);
		dns_set16(&message, 4, count);
		cr_expect_eq(read_answer(ns_t_a), -EBADMSG, "%u questions", count);
	}
	RECORDS(ns_t_a, record);
	dns_set16(&message, HFIXEDSZ + sizeof(ASKED) + 3, ns_c_chaos);
	cr_expect_eq(read_answer(ns_t_a), -EBADMSG, "another class");
}

Test(answer, rcodes)
{
	for (unsigned int rcode = 0; rcode <= 15; rcode++) {
		bool known = rcode == ns_r_noerror || rcode == ns_r_nxdomain;

		dns_begin(&message, 1, RESPONSE | rcode, ASKED, ns_t_a);
		cr_expect_eq(read_answer(ns_t_a), known ? 0 : -EPROTO, "%u", rcode);
		cr_expect(!known || answer->rcode == rcode);
	}
	RECORDS(ns_t_a, {ASKED, ns_t_a, 60, "192.0.2.1"});
	dns_set16(&message, 2, RESPONSE | ns_r_nxdomain);
	cr_expect_eq(read_answer(ns_t_a), -EBADMSG, "no such name, and an address of it");
}

Test(answer, compression)
{
	const struct dns_record record = {"", ns_t_a, 60, "192.0.2.1"};

	/* A pointer to the question, then "www" and a pointer into it. */
	dns_begin(&message, 1, RESPONSE, ASKED, ns_t_a);
	dns_put16(&message, 0xc000 | HFIXEDSZ);
	dns_put_record_rest(&message, &record);
	dns_put(&message, "\3wWw", 4);
	dns_put16(&message, 0xc000 | (HFIXEDSZ + 4));
	dns_put_record_rest(&message, &record);
	cr_assert_eq(read_answer(ns_t_a), 0);
	expect_addresses("192.0.2.1=60 192.0.2.1=60 ");
}

Test(answer, bad_pointers)
{
	const struct dns_record record = {"", ns_t_a, 60, "192.0.2.1"};
	const size_t here = HFIXEDSZ + 17 + QFIXEDSZ;
	/* To itself, forwards, behind the end; a label type that was never used. */
	const size_t owners[] = {0xc000 | here, 0xc000 | (here + 4), 0xffff, 0x8000 | HFIXEDSZ};

	for (size_t i = 0; i < PG_ARRAY_SIZE(owners); i++) {
		dns_begin(&message, 1, RESPONSE, ASKED, ns_t_a);
		cr_assert_eq(message.size, here);
		dns_put16(&message, (unsigned int)owners[i]);
		dns_put_record_rest(&message, &record);
		cr_expect_eq(read_answer(ns_t_a), -EBADMSG, "pointer %zu", i);
	}
}

Test(answer, nothing_is_reported_of_a_broken_message)
{
	size_t whole;

	RECORDS(ns_t_a, {ASKED, ns_t_cname, 60, "a.example.net"},
		{"a.example.net", ns_t_a, 60, "192.0.2.1"},
		{"a.example.net", ns_t_a, 60, "192.0.2.2"});
	whole = message.size;
	cr_expect_eq(read_answer(ns_t_a), 0);
	while (message.size-- > 0)
		cr_expect_eq(read_answer(ns_t_a), -EBADMSG, "%zu octets", message.size);
	message.size = whole;
	dns_set16(&message, DNS_ANSWERS, 4);
	cr_expect_eq(read_answer(ns_t_a), -EBADMSG, "a record that is not there");
	/* The last address loses an octet. */
	dns_set16(&message, DNS_ANSWERS, 3);
	dns_set16(&message, whole - 6, 3);
	message.size--;
	cr_expect_eq(read_answer(ns_t_a), -EBADMSG, "an address of three octets");
}

Test(answer, absence)
{
	dns_begin(&message, 1, RESPONSE, ASKED, ns_t_a);
	cr_assert_eq(read_answer(ns_t_a), 0);
	cr_expect_eq(answer->ttl, PG_ANSWER_NEGATIVE_S, "nobody says how long");
	cr_expect_eq(answer->size, 0);
	cr_expect_not(pg_answer_is_dangling(answer));
	dns_set16(&message, 2, RESPONSE | ns_r_nxdomain);
	cr_assert_eq(read_answer(ns_t_a), 0);
	cr_expect_eq(answer->ttl, PG_ANSWER_NEGATIVE_S);
}

Test(answer, absence_lasts_as_the_soa_says)
{
	static const uint32_t rows[][3] = {
		{60, 90, 60}, {90, 60, 60},	 {300, 300, 300},      {301, 301, 300}, {0, 60, 0},
		{60, 0, 0},   {86400, 299, 299}, {0x80000000U, 60, 0}, {60, ~0U, 60},
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++) {
		dns_begin(&message, 1, RESPONSE | ns_r_nxdomain, ASKED, ns_t_a);
		put_soa("Example.com", rows[i][0], rows[i][1]);
		cr_assert_eq(read_answer(ns_t_a), 0);
		cr_expect_eq(answer->ttl, rows[i][2], "row %zu: %u", i, answer->ttl);
	}
}

Test(answer, only_a_zone_of_the_name_says_so)
{
	static const struct {
		const char *zone;
		bool counts;
	} rows[] = {
		{"", true},
		{"com", true},
		{"example.com", true},
		{"www.example.com", true},
		{"a.example.com", false},
		{"x.www.example.com", false},
		{"ample.com", false},
		{"example.org", false},
		{"www", false},
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++) {
		dns_begin(&message, 1, RESPONSE | ns_r_nxdomain, ASKED, ns_t_a);
		put_soa(rows[i].zone, 77, 77);
		cr_assert_eq(read_answer(ns_t_a), 0);
		cr_expect_eq(answer->ttl, rows[i].counts ? 77 : PG_ANSWER_NEGATIVE_S, "%s",
			     rows[i].zone);
	}
}

Test(answer, broken_authority_of_an_absence)
{
	size_t whole, empty;

	dns_begin(&message, 1, RESPONSE, ASKED, ns_t_a);
	empty = message.size;
	put_soa("example.com", 60, 60);
	whole = message.size;
	cr_expect_eq(read_answer(ns_t_a), 0);
	while (--message.size >= empty)
		cr_expect_eq(read_answer(ns_t_a), -EBADMSG, "%zu octets", message.size);
	/* An octet too few for the numbers. */
	message.size = whole - 1;
	dns_set16(&message, empty + 21, (unsigned int)(message.size - empty - 23));
	cr_expect_eq(read_answer(ns_t_a), -EBADMSG);
}

Test(answer, dangling_chain)
{
	RECORDS(ns_t_a, {ASKED, ns_t_cname, 60, "a.example.net"});
	cr_assert_eq(read_answer(ns_t_a), 0);
	cr_expect(pg_answer_is_dangling(answer));
	cr_expect_eq(answer->ttl, 60);
	/* A SOA of the question's zone says nothing of the target; one of the target's does. */
	put_soa("example.com", 30, 30);
	cr_assert_eq(read_answer(ns_t_a), 0);
	cr_expect(pg_answer_is_dangling(answer));
	put_soa("example.net", 30, 30);
	cr_assert_eq(read_answer(ns_t_a), 0);
	cr_expect_not(pg_answer_is_dangling(answer));
	cr_expect_eq(answer->ttl, 30);
	cr_expect_eq(answer->count, 1);
}

Test(answer, chain_to_no_such_name)
{
	RECORDS(ns_t_a, {ASKED, ns_t_cname, 3, "a.example.net"});
	dns_set16(&message, 2, RESPONSE | ns_r_nxdomain);
	cr_assert_eq(read_answer(ns_t_a), 0);
	cr_expect_not(pg_answer_is_dangling(answer));
	cr_expect_eq(answer->rcode, ns_r_nxdomain);
	cr_expect_eq(answer->chain, 1);
	cr_expect_eq(answer->ttl, 3);
}

static void put_many(uint16_t type, const char *data, unsigned int count)
{
	const struct dns_record record = {"", type, 60, data};

	for (unsigned int i = 0; i < count; i++) {
		dns_put16(&message, 0xc000 | HFIXEDSZ);
		dns_put_record_rest(&message, &record);
	}
}

/* Records of 255 octets of owner, compressed, until they are the limit or one more. */
Test(answer, records_are_bounded)
{
	const struct pg_dns_name question = dns_name(dns_longest_name());
	/* "a.b" has five octets. */
	const unsigned int most = PG_ANSWER_RECORDS_MAX / (PG_DNS_NAME_MAX + RRFIXEDSZ + 5);

	for (unsigned int count = most; count <= most + 1; count++) {
		struct pg_answer *read = NULL;

		dns_begin(&message, 1, RESPONSE, dns_longest_name(), ns_t_ns);
		put_many(ns_t_ns, "a.b", count);
		cr_expect_eq(pg_answer_read(message.data, message.size, &question, ns_t_ns, &read),
			     count == most ? 0 : -EBADMSG);
		cr_expect(!read || read->count == most);
		pg_answer_free(read);
	}
}

/* The first ones are kept, and nothing of the others; the chain does not count. */
Test(answer, addresses_are_bounded)
{
	static const uint16_t types[] = {ns_t_a, ns_t_aaaa};
	static const char *const addresses[] = {"192.0.2.1", "2001:db8::1"};
	static const char *const late[] = {"192.0.2.2", "2001:db8::2"};

	for (size_t i = 0; i < PG_ARRAY_SIZE(types); i++) {
		for (int more = -1; more <= 1; more++) {
			dns_begin(&message, 1, RESPONSE, ASKED, types[i]);
			put_many(types[i], addresses[i],
				 (unsigned int)(PG_ANSWER_ADDRESSES_MAX - 1));
			for (int j = -1; j < more; j++)
				dns_put_record(&message,
					       &(struct dns_record){ASKED, types[i], j < 0 ? 50 : 7,
								    late[i]});
			cr_assert_eq(read_answer(types[i]), 0);
			cr_expect_eq(answer->count, PG_ANSWER_ADDRESSES_MAX - (more < 0));
			cr_expect_eq(answer->ttl, more < 0 ? 60 : 50);
		}
	}
}

/* Damaged messages never lead outside of the message; the sanitizers look on. */
Test(answer, mutations)
{
	struct dns_message whole;
	uint64_t state = 42;
	char found[1024];

	RECORDS(ns_t_a, {ASKED, ns_t_cname, 60, "a.example.net"},
		{"a.example.net", ns_t_cname, 60, "b.example.net"},
		{"b.example.net", ns_t_a, 60, "192.0.2.1"});
	dns_put16(&message, 0xc000 | HFIXEDSZ);
	dns_put_record_rest(&message, &(struct dns_record){"", ns_t_a, 60, "192.0.2.2"});
	put_soa("example.com", 60, 60);
	whole = message;
	for (unsigned int i = 0; i < 100000; i++) {
		message.size = whole.size;
		memcpy(message.data, whole.data, whole.size);
		for (unsigned int n = 0; n < 1 + i % 4; n++) {
			state = state * 6364136223846793005ULL + 1442695040888963407ULL;
			message.data[(state >> 33) % whole.size] =
				(state >> 20) % 2 ? (uint8_t)(state >> 40) : 0xc0;
		}
		message.size -= (state >> 50) % 8 ? 0 : (state >> 53) % whole.size;
		if (read_answer(ns_t_a) < 0)
			continue;
		found[0] = '\0';
		cr_assert_eq(pg_answer_addresses(answer, collect, found), 0);
		cr_assert_leq(answer->count, 4);
	}
}
