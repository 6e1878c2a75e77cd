/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses are committed before a reply goes out, for what is allowed then, along the chain. */
#include "resolver_lab.h"

#define LONG_CHAIN 20

static struct fake_rule rules[] = {
	{.name = "www.example.com",
	 .type = ns_t_a,
	 .records = {{"www.example.com", ns_t_a, 300, "192.0.2.1"},
		     {"www.example.com", ns_t_a, 200, "192.0.2.2"},
		     {"other.example.org", ns_t_a, 300, "198.51.100.1"},
		     {"www.example.com", ns_t_aaaa, 300, "2001:db8::1"}}},
	{.name = "chain.example.com",
	 .records = {{"chain.example.com", ns_t_cname, 300, "a.cdn.test"},
		     {"a.cdn.test", ns_t_cname, 60, "b.cdn.test"},
		     {"b.cdn.test", ns_t_a, 100, "192.0.2.3"},
		     {"c.cdn.test", ns_t_a, 100, "198.51.100.2"}}},
	{.name = "split.example.com",
	 .records = {{"split.example.com", ns_t_cname, 40, "a.split.test"}}},
	{.name = "a.split.test", .records = {{"a.split.test", ns_t_cname, 50, "b.split.test"}}},
	{.name = "b.split.test", .records = {{"b.split.test", ns_t_a, 60, "192.0.2.4"}}},
	{.name = "loop.example.com",
	 .records = {{"loop.example.com", ns_t_cname, 60, "back.loop.test"}}},
	{.name = "back.loop.test",
	 .records = {{"back.loop.test", ns_t_cname, 60, "loop.example.com"}}},
	{.name = "nowhere.example.com",
	 .records = {{"nowhere.example.com", ns_t_cname, 60, "nowhere.test"}}},
	{.name = "nowhere.test", .rcode = ns_r_nxdomain},
	{.name = "dead.example.com",
	 .records = {{"dead.example.com", ns_t_cname, 60, "dead.test"}}},
	{.name = "dead.test", .rcode = ns_r_servfail},
	{.name = "zero.example.com",
	 .records = {{"zero.example.com", ns_t_cname, 0, "zero.test"},
		     {"zero.test", ns_t_a, 0, "192.0.2.5"}}},
	{.name = "zero.test", .records = {{"zero.test", ns_t_a, 30, "192.0.2.6"}}},
	{.name = "brief.example.com",
	 .records = {{"brief.example.com", ns_t_cname, 0, "brief.test"},
		     {"brief.test", ns_t_a, 0, "192.0.2.9"}}},
	{.name = "brief.test",
	 .records = {{"brief.test", ns_t_cname, 300, "far.test"},
		     {"far.test", ns_t_a, 300, "192.0.2.10"}}},
	{.name = "a.cdn.test",
	 .records = {{"a.cdn.test", ns_t_cname, 60, "b.cdn.test"},
		     {"b.cdn.test", ns_t_a, 100, "192.0.2.7"}}},
	{.name = "b.cdn.test", .records = {{"b.cdn.test", ns_t_a, 100, "192.0.2.8"}}},
};
static struct fake_server server;
static struct lab lab;

static void start(void)
{
	server.rules = rules;
	server.rule_count = PG_ARRAY_SIZE(rules);
	lab.allowed[0] = "*.example.com";
	lab_start(&lab, &server);
}

static void stop(void)
{
	lab_stop(&lab, &server);
}

static struct fake_rule *rule(const char *name)
{
	return fake_find(&server, name, ns_t_a);
}

TestSuite(resolver_commit, .init = start, .fini = stop);

Test(resolver_commit, only_what_was_asked)
{
	lab_ask(&lab, "www.example.com", ns_t_a);
	lab_expect_log(&lab, "commit www.example.com 192.0.2.1 300\n"
			     "commit www.example.com 192.0.2.2 200\nreply 0 2\n");
	/* The same from the cache. */
	lab_ask(&lab, "www.example.com", ns_t_a);
	lab_expect_log(&lab, "commit www.example.com 192.0.2.1 300\n"
			     "commit www.example.com 192.0.2.2 200\nreply 0 2\n");
	cr_expect_eq(rule("www.example.com")->asked, 1);
}

Test(resolver_commit, what_is_not_stored_is_not_told)
{
	lab.commit_result = -ENOSPC;
	cr_expect_eq(lab_ask(&lab, "www.example.com", ns_t_a), ns_r_servfail);
	lab_expect_log(&lab, "commit www.example.com 192.0.2.1 300\nreply 2 0\n");
	lab.commit_result = 0;
	cr_expect_eq(lab_ask(&lab, "www.example.com", ns_t_a), ns_r_noerror);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->failed, 1);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->answered, 1);
}

Test(resolver_commit, denied_meanwhile)
{
	lab_begin(&lab, "www.example.com", ns_t_a);
	lab.allowed[0] = NULL;
	lab.generation++;
	lab_wait(&lab, 1);
	lab_expect_log(&lab, "reply 3 0\n");
	cr_expect_eq(pg_resolver_stats(lab.resolver)->denied, 1);
	/* Without a new generation the verdict stands. */
	lab.allowed[0] = "*.example.com";
	lab_begin(&lab, "chain.example.com", ns_t_a);
	lab.allowed[0] = NULL;
	lab_wait(&lab, 2);
	lab_expect_log(&lab, "commit chain.example.com 192.0.2.3 60\nreply 0 3\n");
}

static void change_once(struct lab *changed)
{
	if (changed->commits == 1)
		changed->generation++;
}

Test(resolver_commit, changed_during_the_commit)
{
	lab.on_commit = change_once;
	lab_ask(&lab, "chain.example.com", ns_t_a);
	lab_expect_log(&lab, "commit chain.example.com 192.0.2.3 60\n"
			     "commit chain.example.com 192.0.2.3 60\nreply 0 3\n");
}

static void deny(struct lab *changed)
{
	changed->generation++;
	changed->allowed[0] = NULL;
}

Test(resolver_commit, denied_during_the_commit)
{
	lab.on_commit = deny;
	lab_ask(&lab, "chain.example.com", ns_t_a);
	lab_expect_log(&lab, "commit chain.example.com 192.0.2.3 60\nreply 3 0\n");
}

static void change(struct lab *changed)
{
	changed->generation++;
}

Test(resolver_commit, a_policy_that_never_rests)
{
	lab.on_commit = change;
	cr_expect_eq(lab_ask(&lab, "chain.example.com", ns_t_a), ns_r_servfail);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->failed, 1);
}

Test(resolver_commit, chain_in_one_answer)
{
	lab_ask(&lab, "chain.example.com", ns_t_a);
	lab_expect_log(&lab, "commit chain.example.com 192.0.2.3 60\nreply 0 3\n");
	cr_expect_str_eq(reply_record(&lab, 2).owner, "b.cdn.test");
}

Test(resolver_commit, chain_over_several_answers)
{
	lab_ask(&lab, "split.example.com", ns_t_a);
	lab_expect_log(&lab, "commit split.example.com 192.0.2.4 40\nreply 0 3\n");
	cr_expect_eq(pg_resolver_stats(lab.resolver)->upstream, 3);
	lab_ask(&lab, "split.example.com", ns_t_a);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->upstream, 3, "kept as a whole");
}

Test(resolver_commit, chain_without_end)
{
	cr_expect_eq(lab_ask(&lab, "loop.example.com", ns_t_a), ns_r_servfail);
	cr_expect_eq(lab.commits, 0);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->failed, 1);
}

Test(resolver_commit, chain_that_is_too_long)
{
	static struct fake_rule links[LONG_CHAIN];
	static char names[LONG_CHAIN + 1][32];
	static struct fake_server longer;
	static struct lab asking;

	snprintf(names[0], sizeof(names[0]), "long.example.com");
	for (unsigned int i = 0; i < LONG_CHAIN; i++) {
		snprintf(names[i + 1], sizeof(names[0]), "l%u.test", i);
		links[i].name = names[i];
		links[i].records[0] = (struct dns_record){names[i], ns_t_cname, 60, names[i + 1]};
	}
	longer.rules = links;
	longer.rule_count = LONG_CHAIN;
	asking.allowed[0] = "*.example.com";
	lab_start(&asking, &longer);
	cr_expect_eq(lab_ask(&asking, "long.example.com", ns_t_a), ns_r_servfail);
	cr_expect_eq(links[PG_ANSWER_CHAIN_MAX - 1].asked, 1);
	cr_expect_eq(links[PG_ANSWER_CHAIN_MAX + 1].asked, 0);
	lab_stop(&asking, &longer);
}

Test(resolver_commit, chain_to_nowhere)
{
	cr_expect_eq(lab_ask(&lab, "nowhere.example.com", ns_t_a), ns_r_nxdomain);
	cr_expect_eq(reply_field(&lab, DNS_ANSWERS), 1);
	cr_expect_eq(lab_ask(&lab, "dead.example.com", ns_t_a), ns_r_servfail);
	cr_expect_eq(lab.commits, 0);
}

Test(resolver_commit, targets_stay_askable)
{
	cr_expect_eq(lab_ask(&lab, "a.cdn.test", ns_t_a), ns_r_nxdomain);
	cr_expect_eq(lab_ask(&lab, "b.cdn.test", ns_t_a), ns_r_nxdomain);
	lab_ask(&lab, "chain.example.com", ns_t_a);
	lab.log[0] = '\0';
	cr_expect_eq(lab_ask(&lab, "b.cdn.test", ns_t_a), ns_r_noerror);
	lab_expect_log(&lab, "commit chain.example.com 192.0.2.8 100\nreply 0 1\n");
	cr_expect_eq(lab_ask(&lab, "a.cdn.test", ns_t_a), ns_r_noerror);
	lab_expect_log(&lab, "commit chain.example.com 192.0.2.7 60\nreply 0 2\n");
	cr_expect_eq(lab_ask(&lab, "c.cdn.test", ns_t_a), ns_r_nxdomain, "not of the chain");
	/* Not what is no longer allowed. */
	lab.allowed[0] = NULL;
	lab.generation++;
	cr_expect_eq(lab_ask(&lab, "b.cdn.test", ns_t_a), ns_r_nxdomain);
	/* In public under all names that may have led here. */
	lab.log[0] = '\0';
	lab.is_public = true;
	lab.generation++;
	cr_expect_eq(lab_ask(&lab, "b.cdn.test", ns_t_a), ns_r_noerror);
	lab_expect_log(&lab, "commit b.cdn.test 192.0.2.8 100\n"
			     "commit chain.example.com 192.0.2.8 100\nreply 0 1\n");
}

Test(resolver_commit, targets_are_judged_by_the_name_that_led_there)
{
	lab_ask(&lab, "chain.example.com", ns_t_a);
	lab.log[0] = '\0';
	lab_begin(&lab, "b.cdn.test", ns_t_a);
	lab.allowed[0] = NULL;
	lab.generation++;
	lab_wait(&lab, 2);
	lab_expect_log(&lab, "reply 3 0\n");
	cr_expect_eq(lab_ask(&lab, "b.cdn.test", 4242), ns_r_nxdomain);
}

Test(resolver_commit, targets_for_a_moment)
{
	lab_ask(&lab, "zero.example.com", ns_t_a);
	lab_expect_log(&lab, "commit zero.example.com 192.0.2.5 0\nreply 0 2\n");
	cr_expect_eq(lab_ask(&lab, "zero.test", ns_t_a), ns_r_noerror);
	lab_expect_log(&lab, "commit zero.example.com 192.0.2.6 30\nreply 0 1\n");
}

/* Or whoever runs the target's zone could keep a name askable that the allowed one no longer leads
 * to. */
Test(resolver_commit, targets_of_a_target_do_not_last_longer)
{
	struct pg_original originals[PG_TARGETS_ORIGINALS_MAX];
	uint64_t latest;

	lab_ask(&lab, "brief.example.com", ns_t_a);
	cr_assert_eq(pg_targets_find(lab.resolver->targets, "brief.test", pg_boottime_ns(),
				     originals),
		     1);
	latest = originals[0].expires;
	cr_expect_eq(lab_ask(&lab, "brief.test", ns_t_a), ns_r_noerror);
	cr_assert_eq(pg_targets_find(lab.resolver->targets, "far.test", pg_boottime_ns(),
				     originals),
		     1);
	cr_expect_str_eq(originals[0].name, "brief.example.com");
	cr_expect_leq(originals[0].expires, latest);
}

Test(targets, are_bounded)
{
	const struct pg_hash_key secret = {.word = {3, 4}};
	struct pg_targets *targets = pg_targets_new(100, &secret);
	struct pg_original originals[PG_TARGETS_ORIGINALS_MAX];
	char name[32];

	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "o%u", i);
		pg_targets_add(targets, "shared.test", name, 1000 + i, 1);
		pg_targets_add(targets, name, "x", 1000, 1);
	}
	cr_expect_eq(pg_targets_find(targets, "shared.test", 2, originals),
		     PG_TARGETS_ORIGINALS_MAX);
	cr_expect_str_eq(originals[0].name, "o999");
	cr_expect_eq(pg_targets_find(targets, "o999", 2, originals), 1);
	cr_expect_eq(pg_targets_find(targets, "o999", 1000, originals), 0, "over");
	cr_expect_eq(pg_targets_find(targets, "o1", 2, originals), 0, "the oldest are gone");
	/* No expiry moves earlier. */
	pg_targets_add(targets, "o999", "x", 5, 2);
	cr_expect_eq(pg_targets_find(targets, "o999", 6, originals), 1);
	pg_targets_free(targets);
}
