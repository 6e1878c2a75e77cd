/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/reply.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "answer_fixture.h"

/* What the client sends; its case is its own. */
#define CLIENT "wWw.Example.COM"

#define BADVERS 16

/* Octets of a question, an OPT record without options, a SOA record of ours. */
#define QUESTION_SIZE 21
#define OPT_SIZE      11
#define SOA_SIZE      53

TestSuite(reply, .fini = free_answer);

static struct pg_dns_query query;
static struct dns_message expected;
static uint8_t *written;
static size_t written_size;

static void ask(uint16_t type, bool edns)
{
	query = (struct pg_dns_query){
		.id = 0x4711,
		.flags = PG_DNS_RD | PG_DNS_AD | PG_DNS_CD,
		.has_question = true,
		.name = dns_name(CLIENT),
		.type = type,
		.class = ns_c_in,
		.edns = edns,
		.udp_size = 1232,
	};
}

/* Writes the reply where a write behind the limit is seen. */
static size_t write_reply(const struct pg_reply *reply, size_t limit)
{
	free(written);
	written = malloc(limit);
	cr_assert(written);
	written_size = pg_reply_write(&query, reply, written, limit);
	cr_assert_leq(written_size, limit);
	return written_size;
}

/* What every reply begins with. */
static void expect_begin(unsigned int flags)
{
	dns_begin(&expected, 0x4711, PG_DNS_QR | PG_DNS_RD | PG_DNS_RA | flags, CLIENT, query.type);
}

static void expect_record(unsigned int owner, uint16_t type, uint32_t ttl, const void *data,
			  size_t size)
{
	dns_count(&expected, DNS_ANSWERS);
	dns_put16(&expected, 0xc000 | owner);
	dns_put16(&expected, type);
	dns_put16(&expected, ns_c_in);
	dns_put32(&expected, ttl);
	dns_put16(&expected, (unsigned int)size);
	dns_put(&expected, data, size);
}

static void expect_soa(unsigned int owner, uint32_t ttl)
{
	dns_count(&expected, DNS_AUTHORITIES);
	dns_put16(&expected, 0xc000 | owner);
	dns_put16(&expected, ns_t_soa);
	dns_put16(&expected, ns_c_in);
	dns_put32(&expected, ttl);
	dns_put16(&expected, SOA_SIZE - 12);
	dns_put_name(&expected, "phasegate.invalid");
	dns_put16(&expected, 0xc000 | (unsigned int)(expected.size - 19));
	dns_put32(&expected, 1);
	for (unsigned int i = 0; i < 3; i++)
		dns_put32(&expected, 3600);
	dns_put32(&expected, ttl);
}

static void expect_opt(unsigned int extended_rcode, const void *options, size_t size)
{
	dns_count(&expected, DNS_ADDITIONALS);
	dns_put8(&expected, 0);
	dns_put16(&expected, ns_t_opt);
	dns_put16(&expected, 1232);
	dns_put32(&expected, extended_rcode << 24);
	dns_put16(&expected, (unsigned int)size);
	dns_put(&expected, options, size);
}

static void expect_written(void)
{
	dns_expect_octets(written, written_size, &expected);
	free(written);
	written = NULL;
}

/* An answer of so many addresses 192.0.2.1, for www.example.com. */
static void make_answer(unsigned int count)
{
	static struct pg_addr addrs[5000];
	const struct pg_dns_name name = dns_name(ASKED);

	for (unsigned int i = 0; i < count; i++)
		addrs[i] = pg_addr_from_v4(htonl(0xc0000201));
	pg_answer_free(answer);
	answer = pg_answer_make(&name, ns_t_a, addrs, count, 60);
	cr_assert(answer);
}

Test(reply, answer)
{
	struct pg_reply reply = {.age = 10};

	ask(ns_t_a, false);
	make_answer(2);
	reply.answer = answer;
	write_reply(&reply, 512);
	expect_begin(0);
	expect_record(12, ns_t_a, 50, "\xc0\0\2\1", 4);
	expect_record(12, ns_t_a, 50, "\xc0\0\2\1", 4);
	expect_written();
}

Test(reply, only_rd_is_echoed)
{
	ask(ns_t_a, false);
	query.flags = 0xffff & ~(PG_DNS_QR | PG_DNS_OPCODE | PG_DNS_RD);
	write_reply(&(struct pg_reply){.rcode = ns_r_servfail}, 512);
	cr_expect_eq(written[2] << 8 | written[3], PG_DNS_QR | PG_DNS_RA | ns_r_servfail);
	free(written);
}

Test(reply, chain)
{
	ask(ns_t_a, true);
	RECORDS(ns_t_a, {ASKED, ns_t_cname, 60, "a.test"}, {"a.test", ns_t_cname, 50, "b.test"},
		{"b.test", ns_t_a, 40, "192.0.2.1"}, {"b.test", ns_t_a, 40, "192.0.2.2"});
	cr_assert_eq(read_answer(ns_t_a), 0);
	write_reply(&(struct pg_reply){.answer = answer, .negative_ttl = 5}, 512);
	expect_begin(0);
	expect_record(12, ns_t_cname, 60, "\1a\4test", 8);
	expect_record(12 + QUESTION_SIZE + 12, ns_t_cname, 50, "\1b\4test", 8);
	expect_record(12 + QUESTION_SIZE + 20 + 12, ns_t_a, 40, "\xc0\0\2\1", 4);
	expect_record(12 + QUESTION_SIZE + 20 + 12, ns_t_a, 40, "\xc0\0\2\2", 4);
	expect_opt(0, NULL, 0);
	expect_written();
}

Test(reply, ttls_end_at_zero)
{
	ask(ns_t_a, false);
	make_answer(1);
	for (uint32_t age = 59; age <= 61; age++) {
		write_reply(&(struct pg_reply){.answer = answer, .age = age}, 512);
		expect_begin(0);
		expect_record(12, ns_t_a, age == 59 ? 1 : 0, "\xc0\0\2\1", 4);
		expect_written();
	}
}

Test(reply, denied)
{
	const struct pg_reply reply = {
		.rcode = ns_r_nxdomain,
		.negative_ttl = PG_REPLY_DENIED_TTL_S,
		.ede = PG_EDE_FILTERED,
		.ede_text = "not allowed",
	};

	ask(ns_t_mx, true);
	write_reply(&reply, 512);
	expect_begin(ns_r_nxdomain);
	expect_soa(12, 1);
	expect_opt(0, "\0\17\0\15\0\21not allowed", 17);
	expect_written();
	/* The same to a client without EDNS. */
	ask(ns_t_mx, false);
	write_reply(&reply, 512);
	expect_begin(ns_r_nxdomain);
	expect_soa(12, 1);
	expect_written();
}

Test(reply, extended_error_without_text)
{
	ask(ns_t_a, true);
	write_reply(&(struct pg_reply){.rcode = ns_r_servfail, .ede = 22, .ede_text = ""}, 512);
	expect_begin(ns_r_servfail);
	expect_opt(0, "\0\17\0\2\0\26", 6);
	expect_written();
	write_reply(&(struct pg_reply){.rcode = ns_r_servfail, .ede = 22}, 512);
	expect_begin(ns_r_servfail);
	expect_opt(0, NULL, 0);
	expect_written();
}

/* The SOA record belongs to the end of the chain. */
Test(reply, absence_behind_a_chain)
{
	ask(ns_t_a, false);
	RECORDS(ns_t_a, {ASKED, ns_t_cname, 60, "a.test"});
	dns_set16(&message, 2, RESPONSE | ns_r_nxdomain);
	cr_assert_eq(read_answer(ns_t_a), 0);
	write_reply(&(struct pg_reply){.rcode = ns_r_nxdomain,
				       .answer = answer,
				       .negative_ttl = 30,
				       .age = 10},
		    512);
	expect_begin(ns_r_nxdomain);
	expect_record(12, ns_t_cname, 50, "\1a\4test", 8);
	expect_soa(12 + QUESTION_SIZE + 12, 20);
	expect_written();
}

Test(reply, soa_only_without_records)
{
	ask(ns_t_a, false);
	make_answer(0);
	write_reply(&(struct pg_reply){.answer = answer}, 512);
	expect_begin(0);
	expect_written();
	write_reply(&(struct pg_reply){.answer = answer, .negative_ttl = 5, .age = 9}, 512);
	expect_begin(0);
	expect_soa(12, 0);
	expect_written();
	make_answer(1);
	write_reply(&(struct pg_reply){.answer = answer, .negative_ttl = 5}, 512);
	expect_begin(0);
	expect_record(12, ns_t_a, 60, "\xc0\0\2\1", 4);
	expect_written();
}

Test(reply, without_question)
{
	ask(ns_t_a, false);
	query.has_question = false;
	query.flags = 0x2800;
	make_answer(1);
	write_reply(&(struct pg_reply){.rcode = ns_r_notimpl, .answer = answer, .negative_ttl = 5},
		    512);
	message.size = 0;
	dns_put(&message, "\x47\x11\xa8\x84\0\0\0\0\0\0\0\0", 12);
	dns_expect_octets(written, written_size, &message);
	free(written);
}

Test(reply, bad_version)
{
	ask(ns_t_a, true);
	write_reply(&(struct pg_reply){.rcode = BADVERS}, 512);
	expect_begin(0);
	expect_opt(1, NULL, 0);
	expect_written();
}

Test(reply, whole_records_up_to_the_limit)
{
	const size_t whole = 12 + QUESTION_SIZE + 40 * 16;

	ask(ns_t_a, false);
	make_answer(40);
	for (size_t limit = whole - 17; limit <= whole; limit++) {
		unsigned int fit = limit == whole ? 40 : limit >= whole - 16 ? 39 : 38;

		write_reply(&(struct pg_reply){.answer = answer}, limit);
		expect_begin(fit < 40 ? PG_DNS_TC : 0);
		for (unsigned int i = 0; i < fit; i++)
			expect_record(12, ns_t_a, 60, "\xc0\0\2\1", 4);
		expect_written();
	}
}

/* 40 addresses do not fit without EDNS and do with it. */
Test(reply, many_addresses)
{
	ask(ns_t_a, false);
	make_answer(40);
	cr_expect_eq(write_reply(&(struct pg_reply){.answer = answer}, 512), 12 + 21 + 29 * 16);
	cr_expect(written[2] & PG_DNS_TC >> 8);
	cr_expect_eq(written[7], 29);
	ask(ns_t_a, true);
	cr_expect_eq(write_reply(&(struct pg_reply){.answer = answer}, 1232),
		     12 + 21 + 40 * 16 + OPT_SIZE);
	cr_expect_not(written[2] & PG_DNS_TC >> 8);
	free(written);
}

Test(reply, opt_goes_before_answers)
{
	const size_t whole = 12 + QUESTION_SIZE + 40 * 16 + OPT_SIZE;

	ask(ns_t_a, true);
	make_answer(40);
	for (size_t limit = whole - 1; limit <= whole; limit++) {
		unsigned int fit = limit == whole ? 40 : 39;

		write_reply(&(struct pg_reply){.answer = answer}, limit);
		expect_begin(fit < 40 ? PG_DNS_TC : 0);
		for (unsigned int i = 0; i < fit; i++)
			expect_record(12, ns_t_a, 60, "\xc0\0\2\1", 4);
		expect_opt(0, NULL, 0);
		expect_written();
	}
}

Test(reply, largest_message)
{
	const unsigned int most = (PG_DNS_MESSAGE_MAX - 12 - QUESTION_SIZE) / 16;

	ask(ns_t_a, false);
	for (unsigned int count = most; count <= most + 1; count++) {
		make_answer(count);
		write_reply(&(struct pg_reply){.answer = answer}, PG_DNS_MESSAGE_MAX + 100);
		expect_begin(count > most ? PG_DNS_TC : 0);
		for (unsigned int i = 0; i < most; i++)
			expect_record(12, ns_t_a, 60, "\xc0\0\2\1", 4);
		expect_written();
	}
}

/* A text is cut so that all but answers fits behind the longest name; never inside a character. */
Test(reply, longest_text)
{
	char text[300], option[6 + 160] = "\0\17\0\242\0\21";
	struct pg_reply reply = {
		.rcode = ns_r_nxdomain,
		.negative_ttl = 1,
		.ede = PG_EDE_FILTERED,
		.ede_text = text,
	};

	ask(ns_t_a, true);
	query.name = dns_name(dns_longest_name());
	memset(option + 6, 't', 160);
	for (size_t size = 160; size < sizeof(text); size += 139) {
		memset(text, 't', size);
		text[size] = '\0';
		write_reply(&reply, 512);
		dns_begin(&expected, 0x4711, 0x8180 | ns_r_nxdomain, dns_longest_name(), ns_t_a);
		expect_soa(12, 1);
		expect_opt(0, option, sizeof(option));
		expect_written();
	}
	/* The 160th octet is the first of three, the second of three, the last of three. */
	for (unsigned int behind = 1; behind <= 3; behind++) {
		memset(text, 't', 200);
		memcpy(text + 160 - behind, "\xe2\x82\xac", 3);
		write_reply(&reply, 512);
		cr_expect_eq(written_size, 12 + 259 + SOA_SIZE + OPT_SIZE + 6 +
						   (behind == 3 ? 160 : 160 - behind));
	}
	free(written);
}

/* A chain that fits and a SOA record that does not. */
Test(reply, soa_that_does_not_fit)
{
	struct pg_reply reply = {.rcode = ns_r_nxdomain, .negative_ttl = 5};
	char owner[64] = ASKED, target[64];
	const struct dns_record link = {owner, ns_t_cname, 60, target};
	size_t whole;

	ask(ns_t_a, false);
	dns_begin(&message, 1, RESPONSE | ns_r_nxdomain, ASKED, ns_t_a);
	for (unsigned int i = 0; i < 16; i++) {
		snprintf(target, sizeof(target), "a-name-of-a-chain-%02u.example.net", i);
		dns_put_record(&message, &link);
		strcpy(owner, target);
	}
	cr_assert_eq(read_answer(ns_t_a), 0);
	reply.answer = answer;
	whole = write_reply(&reply, 4096);
	cr_expect_eq(written[9], 1);
	cr_expect_not(written[2] & PG_DNS_TC >> 8);
	cr_expect_eq(write_reply(&reply, whole), whole);
	cr_expect_eq(write_reply(&reply, whole - 1), whole - SOA_SIZE);
	cr_expect_eq(written[7], 16);
	cr_expect_eq(written[9], 0);
	cr_expect(written[2] & PG_DNS_TC >> 8);
	free(written);
}

/* The longest chain of the longest names: what is written reads as what it was made of. */
Test(reply, is_read_again)
{
	char owner[PG_DNS_TEXT] = ASKED, target[PG_DNS_TEXT];
	const struct dns_record link = {owner, ns_t_cname, 60, target};
	const struct dns_record last = {owner, ns_t_a, 60, "192.0.2.1"};
	PG_CLEANUP(pg_answer_freep) struct pg_answer *again = NULL;

	dns_begin(&message, 1, RESPONSE, ASKED, ns_t_a);
	for (unsigned int i = 0; i < PG_ANSWER_CHAIN_MAX; i++) {
		strcpy(target, dns_longest_name());
		target[0] = (char)('a' + i);
		target[1] = 'b';
		dns_put_record(&message, &link);
		strcpy(owner, target);
	}
	dns_put_record(&message, &last);
	cr_assert_eq(read_answer(ns_t_a), 0);
	ask(ns_t_a, true);
	write_reply(&(struct pg_reply){.answer = answer}, PG_DNS_MESSAGE_MAX);
	cr_assert_eq(pg_answer_read(written, written_size, &query.name, ns_t_a, &again), 0);
	cr_expect_eq(again->count, answer->count);
	cr_expect_eq(again->size, answer->size);
	/* But for the case of the first owner. */
	cr_expect_arr_eq(again->records + sizeof(ASKED) + 1, answer->records + sizeof(ASKED) + 1,
			 answer->size - sizeof(ASKED) - 1);
	free(written);
}
