/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dns/answer.h"
#include "dns_message.h"

#define RESPONSE 0x8180

static struct dns_message message;

static int collect(void *userdata, const struct pg_addr *addr, uint32_t ttl)
{
	char text[PG_ADDR_TEXT], *found = userdata;
	size_t used = strlen(found);

	snprintf(found + used, 1024 - used, "%s=%u ", pg_addr_format(addr, text), ttl);
	return 0;
}

static int refuse(void *userdata, const struct pg_addr *addr, uint32_t ttl)
{
	return -ENOSPC;
}

/* Reads the message as an answer to a question of the type for www.example.com. */
static int read_answer(uint16_t type, char found[1024])
{
	/* An allocation of the exact size lets the sanitizer see a read behind the end. */
	uint8_t *copy = malloc(message.size ? message.size : 1);
	int r;

	cr_assert(copy);
	memcpy(copy, message.data, message.size);
	found[0] = '\0';
	r = pg_answer_addresses(copy, message.size, "www.example.com", type, collect, found);
	free(copy);
	return r;
}

static void expect(const struct dns_record *records, size_t count, uint16_t type, const char *text)
{
	char found[1024];
	int r, expected = 0;

	dns_begin(&message, 1, RESPONSE, "www.example.com", type);
	for (size_t i = 0; i < count; i++)
		dns_put_record(&message, &records[i]);
	for (const char *c = text; *c; c++)
		expected += *c == '=';
	r = read_answer(type, found);
	cr_expect_eq(r, expected, "%d instead of %d", r, expected);
	cr_expect_str_eq(found, text);
}

#define EXPECT(type, text, ...) \
	do { \
		const struct dns_record records_[] = {__VA_ARGS__}; \
		expect(records_, PG_ARRAY_SIZE(records_), type, text); \
	} while (0)

Test(answer, addresses_of_the_question)
{
	EXPECT(ns_t_a, "192.0.2.1=60 192.0.2.2=30 ", {"www.example.com", ns_t_a, 60, "192.0.2.1"},
	       {"WWW.Example.COM", ns_t_a, 30, "192.0.2.2"});
	EXPECT(ns_t_aaaa, "2001:db8::1=5 ", {"www.example.com", ns_t_aaaa, 5, "2001:db8::1"});
	expect(NULL, 0, ns_t_a, "");
}

Test(answer, only_of_the_type_asked)
{
	EXPECT(ns_t_a, "192.0.2.1=60 ", {"www.example.com", ns_t_aaaa, 60, "2001:db8::1"},
	       {"www.example.com", ns_t_a, 60, "192.0.2.1"});
}

Test(answer, unrelated_records_do_not_count)
{
	EXPECT(ns_t_a, "192.0.2.1=60 ", {"www.example.org", ns_t_a, 60, "192.0.2.66"},
	       {"www.example.com", ns_t_a, 60, "192.0.2.1"},
	       {"example.com", ns_t_a, 60, "192.0.2.67"},
	       {"www.example.com.evil.test", ns_t_a, 60, "192.0.2.68"});
	EXPECT(ns_t_a, "", {"other.example.com", ns_t_a, 60, "192.0.2.66"});
}

Test(answer, chain_from_the_question_in_any_order)
{
	EXPECT(ns_t_a, "192.0.2.1=7 ", {"www.example.com", ns_t_cname, 60, "a.example.net"},
	       {"a.example.net", ns_t_cname, 7, "b.example.net"},
	       {"b.example.net", ns_t_a, 50, "192.0.2.1"});
	EXPECT(ns_t_a, "192.0.2.1=7 ", {"b.example.net", ns_t_a, 50, "192.0.2.1"},
	       {"a.example.net", ns_t_cname, 7, "B.example.net"},
	       {"www.example.com", ns_t_cname, 60, "a.example.NET"});
}

Test(answer, chain_that_begins_elsewhere_does_not_count)
{
	EXPECT(ns_t_a, "", {"x.example.org", ns_t_cname, 60, "a.example.net"},
	       {"a.example.net", ns_t_a, 50, "192.0.2.66"});
	EXPECT(ns_t_a, "192.0.2.1=60 ", {"x.example.org", ns_t_cname, 60, "a.example.net"},
	       {"a.example.net", ns_t_a, 50, "192.0.2.66"},
	       {"www.example.com", ns_t_a, 60, "192.0.2.1"});
	/* Beside a CNAME, an address of the alias itself is not at the end of the chain. */
	EXPECT(ns_t_a, "192.0.2.1=50 ", {"www.example.com", ns_t_a, 60, "192.0.2.66"},
	       {"www.example.com", ns_t_cname, 60, "a.example.net"},
	       {"a.example.net", ns_t_a, 50, "192.0.2.1"});
}

Test(answer, first_of_several_cnames_counts)
{
	EXPECT(ns_t_a, "192.0.2.1=50 ", {"www.example.com", ns_t_cname, 60, "a.example.net"},
	       {"www.example.com", ns_t_cname, 60, "b.example.net"},
	       {"a.example.net", ns_t_a, 50, "192.0.2.1"},
	       {"b.example.net", ns_t_a, 50, "192.0.2.2"});
}

Test(answer, chain_is_bounded)
{
	char owners[PG_ANSWER_CHAIN_MAX + 2][32] = {"www.example.com"}, found[1024];
	const struct dns_record loop = {"www.example.com", ns_t_cname, 60, "www.example.com"};

	for (size_t links = PG_ANSWER_CHAIN_MAX; links <= PG_ANSWER_CHAIN_MAX + 1; links++) {
		struct dns_record last = {owners[links], ns_t_a, 60, "192.0.2.1"};

		dns_begin(&message, 1, RESPONSE, "www.example.com", ns_t_a);
		for (size_t i = 0; i < links; i++) {
			struct dns_record link = {owners[i], ns_t_cname, 60, owners[i + 1]};

			snprintf(owners[i + 1], sizeof(owners[0]), "a%zu.example.net", i);
			dns_put_record(&message, &link);
		}
		dns_put_record(&message, &last);
		cr_expect_eq(read_answer(ns_t_a, found), links <= PG_ANSWER_CHAIN_MAX ? 1 : -ELOOP,
			     "%zu links", links);
	}
	dns_begin(&message, 1, RESPONSE, "www.example.com", ns_t_a);
	dns_put_record(&message, &loop);
	cr_expect_eq(read_answer(ns_t_a, found), -ELOOP);
}

Test(answer, ttl_with_the_top_bit_is_zero)
{
	EXPECT(ns_t_a, "192.0.2.1=0 ", {"www.example.com", ns_t_a, 0x80000000U, "192.0.2.1"});
	EXPECT(ns_t_a, "192.0.2.1=2147483647 ",
	       {"www.example.com", ns_t_a, 0x7fffffffU, "192.0.2.1"});
}

Test(answer, must_be_a_response_to_the_question)
{
	const struct dns_record record = {"www.example.com", ns_t_a, 60, "192.0.2.1"};
	char found[1024];

	dns_begin(&message, 1, 0x0100, "www.example.com", ns_t_a);
	dns_put_record(&message, &record);
	cr_expect_eq(read_answer(ns_t_a, found), -EBADMSG, "a query");
	dns_begin(&message, 1, RESPONSE | 0x2800, "www.example.com", ns_t_a);
	dns_put_record(&message, &record);
	cr_expect_eq(read_answer(ns_t_a, found), -EBADMSG, "an update");
	dns_begin(&message, 1, RESPONSE, "www.example.org", ns_t_a);
	dns_put_record(&message, &record);
	cr_expect_eq(read_answer(ns_t_a, found), -EBADMSG, "another name");
	dns_begin(&message, 1, RESPONSE, "www.example.com", ns_t_aaaa);
	dns_put_record(&message, &record);
	cr_expect_eq(read_answer(ns_t_a, found), -EBADMSG, "another type");
	dns_begin(&message, 1, RESPONSE, "www.example.com", ns_t_a);
	dns_set16(&message, 4, 2);
	dns_put_record(&message, &record);
	cr_expect_eq(read_answer(ns_t_a, found), -EBADMSG, "two questions");
	cr_expect_str_eq(found, "");
}

Test(answer, compression)
{
	const struct dns_record record = {"", ns_t_a, 60, "192.0.2.1"};
	char found[1024];

	/* A pointer to the question, then "www" and a pointer into it. */
	dns_begin(&message, 1, RESPONSE, "www.example.com", ns_t_a);
	dns_put16(&message, 0xc000 | HFIXEDSZ);
	dns_put_record_rest(&message, &record);
	dns_put8(&message, 3);
	dns_put8(&message, 'w');
	dns_put8(&message, 'W');
	dns_put8(&message, 'w');
	dns_put16(&message, 0xc000 | (HFIXEDSZ + 4));
	dns_put_record_rest(&message, &record);
	cr_expect_eq(read_answer(ns_t_a, found), 2);
	cr_expect_str_eq(found, "192.0.2.1=60 192.0.2.1=60 ");
}

Test(answer, bad_pointers)
{
	const struct dns_record record = {"", ns_t_a, 60, "192.0.2.1"};
	const size_t here = HFIXEDSZ + 17 + QFIXEDSZ;
	/* To itself, forwards, behind the end. */
	const size_t targets[] = {here, here + 4, 0x3fff};
	char found[1024];

	for (size_t i = 0; i < PG_ARRAY_SIZE(targets); i++) {
		dns_begin(&message, 1, RESPONSE, "www.example.com", ns_t_a);
		cr_assert_eq(message.size, here);
		dns_put16(&message, 0xc000 | (unsigned int)targets[i]);
		dns_put_record_rest(&message, &record);
		cr_expect_eq(read_answer(ns_t_a, found), -EBADMSG, "pointer %zu", i);
	}
	/* Label types that were never used. */
	dns_begin(&message, 1, RESPONSE, "www.example.com", ns_t_a);
	dns_put16(&message, 0x8000 | HFIXEDSZ);
	dns_put_record_rest(&message, &record);
	cr_expect_eq(read_answer(ns_t_a, found), -EBADMSG);
}

Test(answer, nothing_is_reported_of_a_broken_message)
{
	const struct dns_record records[] = {
		{"www.example.com", ns_t_cname, 60, "a.example.net"},
		{"a.example.net", ns_t_a, 60, "192.0.2.1"},
		{"a.example.net", ns_t_a, 60, "192.0.2.2"},
	};
	char found[1024];
	size_t whole;

	dns_begin(&message, 1, RESPONSE, "www.example.com", ns_t_a);
	for (size_t i = 0; i < PG_ARRAY_SIZE(records); i++)
		dns_put_record(&message, &records[i]);
	whole = message.size;
	cr_expect_eq(read_answer(ns_t_a, found), 2);
	while (message.size-- > 0) {
		cr_expect_eq(read_answer(ns_t_a, found), -EBADMSG, "%zu octets", message.size);
		cr_expect_str_eq(found, "");
	}
	message.size = whole;
	dns_set16(&message, 6, 4);
	cr_expect_eq(read_answer(ns_t_a, found), -EBADMSG, "a record that is not there");
	/* The last address loses an octet. */
	dns_set16(&message, 6, 3);
	dns_set16(&message, whole - 6, 3);
	message.size--;
	cr_expect_eq(read_answer(ns_t_a, found), -EBADMSG, "an address of three octets");
	cr_expect_str_eq(found, "");
}

Test(answer, the_sink_can_end_it)
{
	const struct dns_record record = {"www.example.com", ns_t_a, 60, "192.0.2.1"};

	dns_begin(&message, 1, RESPONSE, "www.example.com", ns_t_a);
	dns_put_record(&message, &record);
	cr_expect_eq(pg_answer_addresses(message.data, message.size, "www.example.com", ns_t_a,
					 refuse, NULL),
		     -ENOSPC);
}

Test(answer, names_that_cannot_be_asked)
{
	char found[1024] = "";
	char label[65];

	memset(label, 'a', sizeof(label) - 1);
	label[sizeof(label) - 1] = '\0';
	dns_begin(&message, 1, RESPONSE, "www.example.com", ns_t_a);
	cr_expect_eq(pg_answer_addresses(message.data, message.size, "a..b", ns_t_a, collect,
					 found),
		     -EBADMSG);
	cr_expect_eq(pg_answer_addresses(message.data, message.size, label, ns_t_a, collect, found),
		     -EBADMSG);
}

/* Damaged messages never lead outside of the message; the sanitizers look on. */
Test(answer, mutations)
{
	const struct dns_record records[] = {
		{"www.example.com", ns_t_cname, 60, "a.example.net"},
		{"a.example.net", ns_t_cname, 60, "b.example.net"},
		{"b.example.net", ns_t_a, 60, "192.0.2.1"},
	};
	struct dns_message whole;
	uint64_t state = 42;
	char found[1024];

	dns_begin(&whole, 1, RESPONSE, "www.example.com", ns_t_a);
	for (size_t i = 0; i < PG_ARRAY_SIZE(records); i++)
		dns_put_record(&whole, &records[i]);
	dns_put16(&whole, 0xc000 | HFIXEDSZ);
	dns_put_record_rest(&whole, &records[2]);
	for (unsigned int i = 0; i < 100000; i++) {
		message.size = whole.size;
		memcpy(message.data, whole.data, whole.size);
		for (unsigned int n = 0; n < 1 + i % 4; n++) {
			state = state * 6364136223846793005ULL + 1442695040888963407ULL;
			message.data[(state >> 33) % whole.size] =
				(state >> 20) % 2 ? (uint8_t)(state >> 40) : 0xc0;
		}
		message.size -= (state >> 50) % 8 ? 0 : (state >> 53) % whole.size;
		cr_assert_leq(read_answer(ns_t_a, found), 2);
	}
}
