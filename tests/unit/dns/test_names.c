/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "dns/names_private.h"
#include "fake_server.h"

/* Longer than anything takes that is not broken. */
#define PATIENCE_MS 10000

static const struct pg_names_tuning quick = {.ttl_floor_ms = 40, .retry_ms = 60, .attempt_ms = 150};
/* Nothing is asked twice while the test runs. */
static const struct pg_names_tuning once = {.ttl_floor_ms = 600000,
					    .retry_ms = 600000,
					    .attempt_ms = 1000};

/* What learned() was told. */
struct told {
	size_t count;
	int result; /* what it returns */
	char text[4096];
	uint64_t last;
	uint64_t shortest; /* time between two calls */
};

static int learn(void *userdata, size_t name, const struct pg_addr *addr, uint32_t ttl)
{
	struct told *told = userdata;
	size_t used = strlen(told->text);
	uint64_t now = pg_monotonic_ns();
	char text[PG_ADDR_TEXT];

	if (told->count > 0 && now - told->last < told->shortest)
		told->shortest = now - told->last;
	told->last = now;
	told->count++;
	snprintf(told->text + used, sizeof(told->text) - used, "%zu:%s/%u ", name,
		 pg_addr_format(addr, text), ttl);
	return told->result;
}

static struct pg_names *open_names(const struct pg_names_tuning *tuning,
				   const struct pg_endpoint *servers, size_t server_count,
				   const char *const *texts, size_t count, struct told *told)
{
	struct pg_names *names;
	struct pg_error err;

	*told = (struct told){.shortest = UINT64_MAX};
	cr_assert_eq(pg_names_new_tuned(tuning, servers, server_count, texts, count, learn, told,
					&names, &err),
		     0, "%s", err.text);
	return names;
}

static void run_once(struct pg_names *names, uint64_t deadline)
{
	struct pollfd poller = {.fd = pg_names_fd(names), .events = POLLIN};
	struct pg_error err;

	cr_assert_lt(pg_monotonic_ns(), deadline, "it never came true");
	cr_assert_geq(poll(&poller, 1, PATIENCE_MS), 0);
	cr_assert_eq(pg_names_process(names, &err), 0, "%s", err.text);
}

/* Drives the names until the condition holds. */
#define RUN_UNTIL(names, condition) \
	do { \
		uint64_t deadline_ = pg_monotonic_ns() + PATIENCE_MS * PG_NSEC_PER_MSEC; \
		while (!(condition)) \
			run_once(names, deadline_); \
	} while (0)

/* Starts the server, loads the names from it, and expects what it says. */
static void expect_load(struct fake_rule *rules, size_t rule_count, const char *const *texts,
			size_t count, const char *expected, const char *failure)
{
	static struct fake_server server;
	struct pg_names *names;
	struct told told;
	int r;

	server = (struct fake_server){.rules = rules, .rule_count = rule_count};
	fake_bind(&server);
	fake_start(&server);
	names = open_names(&once, &server.endpoint, 1, texts, count, &told);
	r = pg_names_load(names, PATIENCE_MS, -1, NULL);
	cr_expect_eq(r, failure ? 1 : 0, "%d names failed", r);
	cr_expect_str_eq(told.text, expected);
	if (failure)
		cr_expect_str_eq(pg_names_failure(names, 0), failure);
	else
		cr_expect_null(pg_names_failure(names, 0));
	pg_names_free(names);
	fake_stop(&server);
	/* No search list, no other spelling of a name. */
	cr_expect_eq(server.others_asked, 0);
}

static const char *const api[] = {"api.example.com"};

Test(names, both_families)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .records = {{"api.example.com", ns_t_a, 60, "192.0.2.1"},
			     {"api.example.com", ns_t_a, 30, "192.0.2.2"}}},
		{.name = "api.example.com",
		 .type = ns_t_aaaa,
		 .records = {{"api.example.com", ns_t_aaaa, 20, "2001:db8::1"}}},
	};

	expect_load(rules, 2, api, 1, "0:192.0.2.1/60 0:192.0.2.2/30 0:2001:db8::1/20 ", NULL);
	cr_expect_eq(rules[0].asked, 1);
	cr_expect_eq(rules[1].asked, 1);
}

Test(names, ttl_is_capped)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .records = {{"api.example.com", ns_t_a, 86400, "192.0.2.1"},
			     {"api.example.com", ns_t_a, 86401, "192.0.2.2"},
			     {"api.example.com", ns_t_a, 2147483647, "192.0.2.3"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};

	expect_load(rules, 2, api, 1, "0:192.0.2.1/86400 0:192.0.2.2/86400 0:192.0.2.3/86400 ",
		    NULL);
}

Test(names, one_family_is_enough)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com", .type = ns_t_a},
		{.name = "api.example.com",
		 .type = ns_t_aaaa,
		 .records = {{"api.example.com", ns_t_aaaa, 20, "2001:db8::1"}}},
	};

	expect_load(rules, 2, api, 1, "0:2001:db8::1/20 ", NULL);
}

Test(names, no_such_name)
{
	struct fake_rule rules[] = {{.name = "api.example.com", .rcode = ns_r_nxdomain}};

	/* What could make a resolver try other names. */
	setenv("LOCALDOMAIN", "example.net", 1);
	setenv("RES_OPTIONS", "ndots:15", 1);
	expect_load(rules, 1, api, 1, "", "there is no such name");
	cr_expect_eq(rules[0].asked, 2);
}

Test(names, no_address)
{
	struct fake_rule rules[] = {{.name = "api.example.com"}};

	expect_load(rules, 1, api, 1, "", "it has no address");
}

Test(names, hosts_file_and_search_list_are_not_used)
{
	static const char *const single[] = {"printer"};
	struct fake_rule rules[] = {{.name = "printer", .rcode = ns_r_nxdomain}};

	setenv("LOCALDOMAIN", "example.net", 1);
	expect_load(rules, 1, single, 1, "", "there is no such name");
}

Test(names, cname_chain)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .records = {{"api.example.com", ns_t_cname, 9, "edge.example.net"},
			     {"edge.example.net", ns_t_cname, 300, "node.example.org"},
			     {"node.example.org", ns_t_a, 60, "192.0.2.1"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};

	expect_load(rules, 2, api, 1, "0:192.0.2.1/9 ", NULL);
}

Test(names, unrelated_record)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .records = {{"bank.example.net", ns_t_a, 60, "198.51.100.66"},
			     {"x.example.org", ns_t_cname, 60, "bank.example.net"},
			     {"bank.example.net", ns_t_a, 60, "198.51.100.66"},
			     {"api.example.com", ns_t_a, 60, "192.0.2.1"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};

	expect_load(rules, 2, api, 1, "0:192.0.2.1/60 ", NULL);
}

Test(names, only_unrelated_records)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .records = {{"bank.example.net", ns_t_a, 60, "198.51.100.66"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};

	expect_load(rules, 2, api, 1, "", "it has no address");
}

Test(names, truncated_answers_are_asked_again_over_tcp)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .truncate = true,
		 .records = {{"api.example.com", ns_t_a, 60, "192.0.2.1"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};

	expect_load(rules, 2, api, 1, "0:192.0.2.1/60 ", NULL);
	cr_expect_eq(rules[0].asked, 1);
	cr_expect_eq(rules[0].asked_tcp, 1);
}

Test(names, addresses_that_dns_may_not_teach)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .records = {{"api.example.com", ns_t_a, 60, "127.0.0.1"},
			     {"api.example.com", ns_t_a, 60, "169.254.169.254"},
			     {"api.example.com", ns_t_a, 60, "0.0.0.0"},
			     {"api.example.com", ns_t_a, 60, "224.0.0.1"}}},
		{.name = "api.example.com",
		 .type = ns_t_aaaa,
		 .records = {{"api.example.com", ns_t_aaaa, 60, "::1"},
			     {"api.example.com", ns_t_aaaa, 60, "fe80::1"},
			     {"api.example.com", ns_t_aaaa, 60, "::ffff:169.254.169.254"},
			     {"api.example.com", ns_t_aaaa, 60, "64:ff9b::169.254.169.254"}}},
	};

	expect_load(rules, 2, api, 1, "",
		    "its only addresses are ones that DNS may not teach (loopback, link-local and "
		    "the like)");
}

Test(names, good_addresses_among_bad_ones)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .records = {{"api.example.com", ns_t_a, 60, "127.0.0.1"},
			     {"api.example.com", ns_t_a, 60, "192.0.2.1"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};

	expect_load(rules, 2, api, 1, "0:192.0.2.1/60 ", NULL);
}

Test(names, wrong_id_and_wrong_question_are_ignored)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .forge_first = true,
		 .records = {{"api.example.com", ns_t_a, 60, "192.0.2.1"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};

	expect_load(rules, 2, api, 1, "0:192.0.2.1/60 ", NULL);
	cr_expect_eq(rules[0].asked, 1);
}

Test(names, a_failing_server_is_asked_again)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .fail_first = 2,
		 .records = {{"api.example.com", ns_t_a, 60, "192.0.2.1"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};

	expect_load(rules, 2, api, 1, "0:192.0.2.1/60 ", NULL);
	cr_expect_eq(rules[0].asked, 3);
}

Test(names, a_server_without_edns)
{
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .no_edns = true,
		 .records = {{"api.example.com", ns_t_a, 60, "192.0.2.1"}}},
		{.name = "api.example.com", .type = ns_t_aaaa, .no_edns = true},
	};

	expect_load(rules, 2, api, 1, "0:192.0.2.1/60 ", NULL);
	cr_expect_eq(rules[0].asked, 2);
}

Test(names, servfail_names_its_reason)
{
	struct fake_rule rules[] = {{.name = "api.example.com", .rcode = ns_r_servfail}};

	expect_load(rules, 1, api, 1, "", "the server failed (SERVFAIL)");
}

Test(names, an_address_that_cannot_be_stored_is_a_failure)
{
	static struct fake_server server;
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .records = {{"api.example.com", ns_t_a, 0, "192.0.2.1"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};
	struct pg_names *names;
	struct told told;

	server = (struct fake_server){.rules = rules, .rule_count = 2};
	fake_bind(&server);
	fake_start(&server);
	names = open_names(&quick, &server.endpoint, 1, api, 1, &told);
	told.result = -ENOSPC;
	cr_expect_eq(pg_names_load(names, PATIENCE_MS, -1, NULL), 1);
	cr_expect_str_eq(pg_names_failure(names, 0), "its addresses could not be stored");
	/* It is tried again, and then there is room. */
	told.result = 0;
	RUN_UNTIL(names, !pg_names_failure(names, 0));
	pg_names_free(names);
	fake_stop(&server);
}

Test(names, refresh_not_before_the_floor)
{
	static struct fake_server server;
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .records = {{"api.example.com", ns_t_a, 0, "192.0.2.1"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};
	struct pg_names *names;
	struct told told;

	server = (struct fake_server){.rules = rules, .rule_count = 2};
	fake_bind(&server);
	fake_start(&server);
	names = open_names(&quick, &server.endpoint, 1, api, 1, &told);
	cr_expect_eq(pg_names_load(names, PATIENCE_MS, -1, NULL), 0);
	RUN_UNTIL(names, told.count >= 4);
	cr_expect_str_eq(told.text, "0:192.0.2.1/0 0:192.0.2.1/0 0:192.0.2.1/0 0:192.0.2.1/0 ");
	/* The time of the answer varies, that of the question is what the floor is about. */
	cr_expect_geq(told.shortest, quick.ttl_floor_ms / 2 * PG_NSEC_PER_MSEC);
	pg_names_free(names);
	fake_stop(&server);
	cr_expect_leq(rules[0].asked, 5);
}

Test(names, a_failed_name_is_tried_again)
{
	static struct fake_server server;
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .absent_first = 1,
		 .records = {{"api.example.com", ns_t_a, 60, "192.0.2.1"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};
	struct pg_names *names;
	struct told told;

	server = (struct fake_server){.rules = rules, .rule_count = 2};
	fake_bind(&server);
	fake_start(&server);
	names = open_names(&quick, &server.endpoint, 1, api, 1, &told);
	cr_expect_eq(pg_names_load(names, PATIENCE_MS, -1, NULL), 1);
	cr_expect_str_eq(pg_names_failure(names, 0), "there is no such name");
	RUN_UNTIL(names, told.count >= 1);
	cr_expect_str_eq(told.text, "0:192.0.2.1/60 ");
	pg_names_free(names);
	fake_stop(&server);
}

Test(names, a_name_that_vanishes_has_no_address)
{
	static struct fake_server server;
	struct fake_rule rules[] = {
		{.name = "api.example.com",
		 .type = ns_t_a,
		 .absent_after = 2,
		 .records = {{"api.example.com", ns_t_a, 0, "192.0.2.1"}}},
		{.name = "api.example.com", .type = ns_t_aaaa},
	};
	struct pg_names *names;
	struct told told;

	server = (struct fake_server){.rules = rules, .rule_count = 2};
	fake_bind(&server);
	fake_start(&server);
	names = open_names(&quick, &server.endpoint, 1, api, 1, &told);
	cr_expect_eq(pg_names_load(names, PATIENCE_MS, -1, NULL), 0);
	RUN_UNTIL(names, pg_names_failure(names, 0));
	cr_expect_str_eq(pg_names_failure(names, 0), "there is no such name");
	cr_expect_str_eq(told.text, "0:192.0.2.1/0 0:192.0.2.1/0 ");
	pg_names_free(names);
	fake_stop(&server);
}
