/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are put together, made, and walked. */
#include "dns/answer.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "answer_fixture.h"

TestSuite(answer_join, .fini = free_answer);

/* Reads one answer for the question and, as *ret_more, one for the name. */
static void read_two(const struct dns_record *first, size_t first_count, const char *name,
		     const struct dns_record *more, size_t more_count, struct pg_answer **ret_more)
{
	const struct pg_dns_name asked = dns_name(name);

	dns_begin(&message, 1, RESPONSE, name, ns_t_a);
	for (size_t i = 0; i < more_count; i++)
		dns_put_record(&message, &more[i]);
	cr_assert_eq(pg_answer_read(message.data, message.size, &asked, ns_t_a, ret_more), 0);
	put_records(first, first_count, ns_t_a);
	cr_assert_eq(read_answer(ns_t_a), 0);
}

static const struct dns_record to_a = {ASKED, ns_t_cname, 60, "a.example.net"};

Test(answer_join, joined)
{
	static const struct dns_record rest[] = {{"a.example.net", ns_t_cname, 50, "b.test"},
						 {"b.test", ns_t_a, 70, "192.0.2.1"},
						 {"b.test", ns_t_a, 40, "192.0.2.2"}};
	PG_CLEANUP(pg_answer_freep) struct pg_answer *more = NULL;

	read_two(&to_a, 1, "A.example.net", rest, PG_ARRAY_SIZE(rest), &more);
	cr_assert_eq(pg_answer_join(&answer, more), 0);
	cr_expect_eq(answer->chain, 2);
	cr_expect_eq(answer->count, 4);
	cr_expect_eq(answer->ttl, 40);
	cr_expect_not(pg_answer_is_dangling(answer));
	cr_expect(pg_dns_name_equal(&answer->target, &more->target));
	expect_addresses("192.0.2.1=50 192.0.2.2=40 ");
	expect_targets("a.example.net=60 b.test=50 ");
	cr_expect_eq(pg_answer_join(&answer, more), -EINVAL, "it has its end");
}

Test(answer_join, joined_to_an_absence)
{
	PG_CLEANUP(pg_answer_freep) struct pg_answer *more = NULL;

	read_two(&to_a, 1, "a.example.net", NULL, 0, &more);
	cr_assert_eq(pg_answer_join(&answer, more), 0);
	cr_expect_eq(answer->count, 1);
	cr_expect_eq(answer->ttl, PG_ANSWER_NEGATIVE_S);
	cr_expect_not(pg_answer_is_dangling(answer), "it was asked for");
}

Test(answer_join, joined_to_a_chain_that_dangles)
{
	static const struct dns_record rest = {"a.example.net", ns_t_cname, 50, "b.test"};
	PG_CLEANUP(pg_answer_freep) struct pg_answer *more = NULL;

	read_two(&to_a, 1, "a.example.net", &rest, 1, &more);
	cr_assert_eq(pg_answer_join(&answer, more), 0);
	cr_expect(pg_answer_is_dangling(answer));
	cr_expect_eq(answer->ttl, 50);
}

Test(answer_join, joined_chain_may_not_meet_itself)
{
	static const struct dns_record loops[] = {
		{"a.example.net", ns_t_cname, 50, "WWW.example.com"},
		{"b.example.net", ns_t_cname, 50, "a.example.net"},
	};
	static const struct dns_record two[] = {
		{ASKED, ns_t_cname, 60, "a.example.net"},
		{"a.example.net", ns_t_cname, 60, "b.example.net"},
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(loops); i++) {
		PG_CLEANUP(pg_answer_freep) struct pg_answer *more = NULL;
		const struct pg_answer *before;

		read_two(two, i + 1, loops[i].owner, &loops[i], 1, &more);
		before = answer;
		cr_expect_eq(pg_answer_join(&answer, more), -ELOOP);
		cr_expect_eq(answer, before);
		cr_expect_eq(answer->chain, i + 1);
	}
}

Test(answer_join, joined_chain_is_bounded)
{
	for (size_t links = PG_ANSWER_CHAIN_MAX - 1; links <= PG_ANSWER_CHAIN_MAX; links++) {
		static const struct dns_record rest[] = {{"end.test", ns_t_cname, 50, "z.test"},
							 {"z.test", ns_t_a, 50, "192.0.2.1"}};
		PG_CLEANUP(pg_answer_freep) struct pg_answer *more = NULL;
		char owner[64] = ASKED, target[64];
		struct dns_record link = {owner, ns_t_cname, 60, target};

		read_two(NULL, 0, "end.test", rest, PG_ARRAY_SIZE(rest), &more);
		for (size_t i = 1; i <= links; i++) {
			snprintf(target, sizeof(target), i < links ? "a%zu.test" : "end.test", i);
			dns_put_record(&message, &link);
			strcpy(owner, target);
		}
		cr_assert_eq(read_answer(ns_t_a), 0);
		cr_expect_eq(pg_answer_join(&answer, more),
			     links < PG_ANSWER_CHAIN_MAX ? 0 : -ELOOP);
	}
}

Test(answer_join, joined_only_to_the_answer_for_its_end)
{
	static const struct dns_record other = {"other.test", ns_t_a, 50, "192.0.2.66"};
	PG_CLEANUP(pg_answer_freep) struct pg_answer *more = NULL;

	read_two(&to_a, 1, "other.test", &other, 1, &more);
	cr_expect_eq(pg_answer_join(&answer, more), -EINVAL);
	cr_expect_eq(answer->count, 1);
}

Test(answer_join, made)
{
	const struct pg_dns_name name = dns_name("localhost");
	struct pg_addr addrs[3];
	struct dns_message expected = {.size = 0};

	cr_assert_eq(pg_addr_parse("127.0.0.1", &addrs[0]), 0);
	cr_assert_eq(pg_addr_parse("::1", &addrs[1]), 0);
	cr_assert_eq(pg_addr_parse("127.0.0.2", &addrs[2]), 0);
	answer = pg_answer_make(&name, ns_t_a, addrs, 3, 10);
	expect_addresses("127.0.0.1=10 127.0.0.2=10 ");
	dns_put_raw(&expected, "localhost", ns_t_a, 10, "\x7f\0\0\1", 4);
	dns_put_raw(&expected, "localhost", ns_t_a, 10, "\x7f\0\0\2", 4);
	dns_expect_octets(answer->records, answer->size, &expected);
	pg_answer_free(answer);
	answer = pg_answer_make(&name, ns_t_aaaa, addrs, 3, PG_ANSWER_TTL_MAX_S + 1);
	expect_addresses("::1=86400 ");
	pg_answer_free(answer);
	answer = pg_answer_make(&name, ns_t_mx, addrs, 3, 10);
	cr_assert(answer);
	cr_expect_eq(answer->count, 0);
	cr_expect_eq(answer->rcode, ns_r_noerror);
	cr_expect_eq(answer->ttl, 10);
	pg_answer_free(answer);
	answer = pg_answer_make(&name, ns_t_a, NULL, 0, 10);
	expect_addresses("");
}

static int refuse(void *userdata, const struct pg_addr *addr, uint32_t ttl)
{
	unsigned int *calls = userdata;

	return ++*calls == 2 ? -ENOSPC : 0;
}

static int refuse_name(void *userdata, const struct pg_dns_name *name, uint32_t ttl)
{
	return refuse(userdata, NULL, ttl);
}

Test(answer_join, the_sink_can_end_it)
{
	unsigned int calls = 0;

	RECORDS(ns_t_a, {ASKED, ns_t_cname, 60, "a.test"}, {"a.test", ns_t_cname, 60, "b.test"},
		{"b.test", ns_t_cname, 60, "c.test"}, {"c.test", ns_t_a, 60, "192.0.2.1"},
		{"c.test", ns_t_a, 60, "192.0.2.2"}, {"c.test", ns_t_a, 60, "192.0.2.3"});
	cr_assert_eq(read_answer(ns_t_a), 0);
	cr_expect_eq(pg_answer_addresses(answer, refuse, &calls), -ENOSPC);
	cr_expect_eq(calls, 2);
	calls = 0;
	cr_expect_eq(pg_answer_targets(answer, refuse_name, &calls), -ENOSPC);
	cr_expect_eq(calls, 2);
}
