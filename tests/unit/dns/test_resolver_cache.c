/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked once for many, and what is kept. */
#include "dns/cache.h"
#include "resolver_lab.h"

static const struct dns_record any = {NULL, ns_t_a, 300, "192.0.2.1"};
static struct fake_server server;
static struct lab lab;

static void start(struct fake_rule *rules, size_t count)
{
	server.rules = rules;
	server.rule_count = count;
	lab.allowed[0] = "*.example.com";
	lab_start(&lab, &server);
}

Test(resolver_cache, one_question_for_all_who_ask)
{
	static struct fake_rule rules[] = {
		{.name = "www.example.com",
		 .type = ns_t_a,
		 .records = {{"www.example.com", ns_t_a, 0, "192.0.2.1"}}},
	};

	start(rules, 1);
	for (unsigned int i = 0; i < 100; i++)
		lab_begin(&lab, i % 2 ? "www.example.com" : "WWW.example.com", ns_t_a);
	cr_expect_eq(lab.replies, 0);
	lab_wait(&lab, 100);
	cr_expect_eq(rules[0].asked, 1);
	cr_expect_eq(lab.commits, 100);
	/* TTL 0 is for those who waited. */
	lab_ask(&lab, "www.example.com", ns_t_a);
	cr_expect_eq(rules[0].asked, 2);
	/* Another type is another question. */
	lab_begin(&lab, "www.example.com", ns_t_a);
	lab_begin(&lab, "www.example.com", ns_t_aaaa);
	lab_wait(&lab, 103);
	cr_expect_eq(server.others_asked, 1);
	lab_stop(&lab, &server);
}

Test(resolver_cache, ttls_are_lowered)
{
	static struct fake_rule rules[] = {
		{.name = "www.example.com",
		 .records = {{"www.example.com", ns_t_a, 300, "192.0.2.1"},
			     {"www.example.com", ns_t_a, 2, "192.0.2.2"}}},
	};

	start(rules, 1);
	lab_ask(&lab, "www.example.com", ns_t_a);
	lab_expect_log(&lab, "commit www.example.com 192.0.2.1 300\n"
			     "commit www.example.com 192.0.2.2 2\nreply 0 2\n");
	lab_idle(&lab, 1100);
	lab_ask(&lab, "www.example.com", ns_t_a);
	lab_expect_log(&lab, "commit www.example.com 192.0.2.1 299\n"
			     "commit www.example.com 192.0.2.2 1\nreply 0 2\n");
	cr_expect_eq(reply_record(&lab, 0).ttl, 299);
	cr_expect_eq(reply_record(&lab, 1).ttl, 1);
	cr_expect_eq(rules[0].asked, 1);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->cached, 1);
	lab_idle(&lab, 1000);
	lab_ask(&lab, "www.example.com", ns_t_a);
	cr_expect_eq(rules[0].asked, 2, "the smallest TTL is over");
	cr_expect_eq(reply_record(&lab, 0).ttl, 300);
	lab_stop(&lab, &server);
}

Test(resolver_cache, what_is_not_there)
{
	static struct fake_rule rules[] = {
		{.name = "gone.example.com", .rcode = ns_r_nxdomain, .soa_minimum = 60},
		{.name = "empty.example.com", .soa_minimum = 60},
		{.name = "broken.example.com", .rcode = ns_r_servfail},
	};

	start(rules, 3);
	for (unsigned int i = 0; i < 2; i++) {
		cr_expect_eq(lab_ask(&lab, "gone.example.com", ns_t_a), ns_r_nxdomain);
		cr_expect_eq(reply_record(&lab, 0).type, ns_t_soa);
		cr_expect_eq(reply_record(&lab, 0).ttl, 60);
		cr_expect_eq(lab_ask(&lab, "empty.example.com", ns_t_a), ns_r_noerror);
		cr_expect_eq(reply_field(&lab, DNS_ANSWERS), 0);
		cr_expect_eq(reply_record(&lab, 0).ttl, 60);
		cr_expect_eq(lab_ask(&lab, "broken.example.com", ns_t_a), ns_r_servfail);
	}
	cr_expect_eq(rules[0].asked, 1);
	cr_expect_eq(rules[1].asked, 1);
	cr_expect_eq(rules[2].asked, 6, "failures are not kept");
	cr_expect_eq(pg_resolver_stats(lab.resolver)->answered, 4);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->failed, 2);
	lab_stop(&lab, &server);
}

Test(resolver_cache, absence_grows_old)
{
	static struct fake_rule rules[] = {
		{.name = "gone.example.com", .rcode = ns_r_nxdomain, .soa_minimum = 60},
	};

	start(rules, 1);
	lab_ask(&lab, "gone.example.com", ns_t_a);
	lab_idle(&lab, 1100);
	lab_ask(&lab, "gone.example.com", ns_t_a);
	cr_expect_eq(reply_record(&lab, 0).type, ns_t_soa);
	cr_expect_eq(reply_record(&lab, 0).ttl, 59, "%u", reply_record(&lab, 0).ttl);
	cr_expect_eq(rules[0].asked, 1);
	lab_stop(&lab, &server);
}

/* Names that nobody answers. */
static void ask_many(unsigned int first, unsigned int count)
{
	char name[64];

	for (unsigned int i = first; i < first + count; i++) {
		snprintf(name, sizeof(name), "n%u.example.com", i);
		lab_begin(&lab, name, ns_t_a);
	}
}

Test(resolver_cache, too_many_questions)
{
	lab.allowed[0] = "*.example.com";
	lab.quiet = true;
	fake_bind(&server);
	lab_open(&lab, &server.endpoint, 1);
	ask_many(0, PG_RESOLVER_IN_FLIGHT_MAX);
	cr_expect_eq(lab.replies, 0);
	ask_many(PG_RESOLVER_IN_FLIGHT_MAX, 10);
	cr_expect_eq(lab.replies, 10);
	cr_expect_eq(reply_code(&lab), ns_r_servfail);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->overload, 10);
	ask_many(0, 1);
	cr_expect_eq(lab.replies, 10, "somebody asks that already");
	lab_wait(&lab, PG_RESOLVER_IN_FLIGHT_MAX + 11);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->failed, PG_RESOLVER_IN_FLIGHT_MAX + 1);
	lab_close(&lab);
	fake_close(&server);
}

Test(resolver_cache, too_many_clients)
{
	lab.allowed[0] = "*.example.com";
	lab.quiet = true;
	fake_bind(&server);
	lab_open(&lab, &server.endpoint, 1);
	for (unsigned int i = 0; i < PG_RESOLVER_WAITING_MAX + 3; i++)
		lab_begin(&lab, "www.example.com", ns_t_a);
	cr_expect_eq(lab.replies, 3);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->overload, 3);
	/* With all of them waiting. */
	lab_close(&lab);
	fake_close(&server);
}

Test(resolver_cache, who_has_gone_gets_no_reply)
{
	static struct fake_rule rules[] = {
		{.name = "www.example.com",
		 .records = {{"www.example.com", ns_t_a, 300, "192.0.2.1"}}},
	};
	static struct lab other;
	struct dns_message message;
	struct pg_resolver_client client;

	start(rules, 1);
	client = (struct pg_resolver_client){.owner = &other, .upstream = lab.upstream};
	dns_begin(&message, 1, PG_DNS_RD, "www.example.com", ns_t_a);
	pg_resolver_ask(lab.resolver, &client, message.data, message.size);
	lab_begin(&lab, "www.example.com", ns_t_a);
	pg_resolver_cancel(lab.resolver, &other);
	lab_wait(&lab, 1);
	cr_expect_eq(other.replies, 0);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->cancelled, 1);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->answered, 1);
	lab_stop(&lab, &server);
}

Test(resolver_cache, replies_fit)
{
	static struct fake_rule rules[] = {{.name = "many.example.com", .type = ns_t_txt}};
	char text[3000];

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = i % 250 == 0 ? (char)249 : 'x';
	rules[0].raw = (struct fake_raw){ns_t_txt, text, sizeof(text)};
	rules[0].truncate = true;
	start(rules, 1);
	lab_ask(&lab, "many.example.com", ns_t_txt);
	cr_expect(reply_field(&lab, 2) & PG_DNS_TC);
	cr_expect_leq(lab.reply_size, 512);
	lab_begin_edns(&lab, "many.example.com", ns_t_txt, 1232);
	cr_expect(reply_field(&lab, 2) & PG_DNS_TC);
	lab_begin_edns(&lab, "many.example.com", ns_t_txt, 4096);
	cr_expect(!(reply_field(&lab, 2) & PG_DNS_TC));
	cr_expect_gt(lab.reply_size, 3000);
	cr_expect_eq(rules[0].asked_tcp, 1, "the rest is from the cache");
	lab_stop(&lab, &server);
}

static void put(struct pg_cache *cache, const struct pg_hash_key *secret, unsigned int number,
		uint32_t ttl, uint64_t now)
{
	const struct pg_addr addr = pg_addr_from_v4(htonl(number));
	struct pg_answer_key key = {.upstream = 1, .type = ns_t_a};
	struct pg_dns_name name;
	char text[64];

	snprintf(text, sizeof(text), "n%u.example.com", number);
	name = dns_name(text);
	key.name = &name;
	pg_cache_put(cache, &key, pg_answer_key_hash(&key, secret),
		     pg_answer_make(&name, ns_t_a, &addr, 1, ttl), now);
}

static bool has(struct pg_cache *cache, const struct pg_hash_key *secret, unsigned int number,
		uint64_t now)
{
	struct pg_answer_key key = {.upstream = 1, .type = ns_t_a};
	struct pg_dns_name name;
	uint32_t age;
	char text[64];

	snprintf(text, sizeof(text), "n%u.example.com", number);
	name = dns_name(text);
	key.name = &name;
	return pg_cache_get(cache, &key, pg_answer_key_hash(&key, secret), now, &age);
}

Test(cache, is_bounded)
{
	const struct pg_hash_key secret = {.word = {1, 2}};
	struct pg_cache *cache = pg_cache_new(100000);

	for (unsigned int i = 0; i < 10000; i++) {
		put(cache, &secret, i, 60, 1);
		cr_assert_leq(pg_cache_octets(cache), 100000);
		cr_assert(has(cache, &secret, 0, 2), "what is used stays");
	}
	cr_expect_gt(pg_cache_octets(cache), 90000);
	cr_expect(has(cache, &secret, 9999, 2));
	cr_expect(!has(cache, &secret, 1, 2));
	pg_cache_free(cache);
}

Test(cache, forgets)
{
	const struct pg_hash_key secret = {.word = {1, 2}};
	struct pg_cache *cache = pg_cache_new(100000);

	put(cache, &secret, 1, 0, 1);
	cr_expect(!has(cache, &secret, 1, 1), "TTL 0");
	put(cache, &secret, 2, 10, 1);
	cr_expect(has(cache, &secret, 2, 10 * PG_NSEC_PER_SEC));
	cr_expect(!has(cache, &secret, 2, 10 * PG_NSEC_PER_SEC + 1));
	cr_expect_eq(pg_cache_octets(cache), 0);
	put(cache, &secret, 3, 10, 1);
	put(cache, &secret, 3, 10, 5 * PG_NSEC_PER_SEC);
	cr_expect(has(cache, &secret, 3, 12 * PG_NSEC_PER_SEC), "replaced");
	pg_cache_free(cache);
}

Test(resolver_cache, many_names_in_bounded_memory)
{
	server.other = &any;
	start(NULL, 0);
	lab.quiet = true;
	for (unsigned int i = 0; i < 20000; i += 500) {
		ask_many(i, 500);
		lab_wait(&lab, i + 500);
	}
	cr_expect_eq(pg_resolver_stats(lab.resolver)->answered, 20000);
	cr_expect_leq(pg_cache_octets(lab.resolver->cache), PG_RESOLVER_CACHE_MAX);
	cr_expect_eq(lab.resolver->in_flight, 0);
	cr_expect_eq(lab.resolver->waiting, 0);
	cr_expect_gt(server.ports, 10, "%u ports", server.ports);
	lab_stop(&lab, &server);
}
