/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked and what is denied, and how the reply says so. */
#include "resolver_lab.h"

static struct fake_rule rules[] = {
	{.name = "www.example.com",
	 .type = ns_t_a,
	 .records = {{"www.example.com", ns_t_a, 300, "192.0.2.1"}}},
	{.name = "www.example.com", .type = ns_t_aaaa},
	{.name = "www.example.com", .type = ns_t_mx, .raw = {ns_t_mx, "\0\12\4mail\0", 8}},
	{.name = "www.example.com",
	 .type = PG_DNS_TYPE_HTTPS,
	 /* 1 . alpn=h2 ipv4hint=192.0.2.9 ech=... */
	 .raw = {PG_DNS_TYPE_HTTPS, "\0\1\0\0\1\0\3\2h2\0\4\0\4\300\0\2\11\0\5\0\4\1\2\3\4", 26}},
	{.name = "a.b.example.net", .records = {{"a.b.example.net", ns_t_a, 300, "192.0.2.2"}}},
	{.name = "redis", .records = {{"redis", ns_t_a, 300, "192.0.2.3"}}},
	{.name = "1.2.0.192.in-addr.arpa",
	 .records = {{"1.2.0.192.in-addr.arpa", ns_t_ptr, 300, "www.example.com"}}},
	{.name = "odd name.example.net",
	 .records = {{"odd name.example.net", ns_t_a, 9, "192.0.2.4"}}},
	{.name = "unknown.example.org", .raw = {4242, "\1\2\3", 3}},
};
static struct fake_server server;
static struct lab lab;

static unsigned int asked(void)
{
	unsigned int count = server.others_asked;

	for (size_t i = 0; i < PG_ARRAY_SIZE(rules); i++)
		count += rules[i].asked + rules[i].asked_tcp;
	return count;
}

static void start(void)
{
	server.rules = rules;
	server.rule_count = PG_ARRAY_SIZE(rules);
	lab.allowed[0] = "www.example.com";
	lab.allowed[1] = "*.example.net";
	lab.allowed[2] = "redis";
	lab_start(&lab, &server);
}

static void stop(void)
{
	const struct pg_resolver_stats *stats = pg_resolver_stats(lab.resolver);

	cr_expect_eq(stats->queries, stats->answered + stats->denied + stats->malformed +
					     stats->failed + stats->overload + stats->cancelled);
	lab_stop(&lab, &server);
}

TestSuite(resolver, .init = start, .fini = stop);

Test(resolver, an_allowed_name)
{
	cr_expect_eq(lab_ask(&lab, "www.example.com", ns_t_a), ns_r_noerror);
	lab_expect_log(&lab, "commit www.example.com 192.0.2.1 300\nreply 0 1\n");
	cr_expect_eq(reply_field(&lab, 0), 0x1234);
	cr_expect_eq(reply_field(&lab, 2), 0x8180);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->answered, 1);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->upstream, 1);
}

Test(resolver, the_clients_case_comes_back)
{
	static const uint8_t expected[] = "\3wWw\7EXAMPLE\3com";

	cr_expect_eq(lab_ask(&lab, "wWw.EXAMPLE.com", ns_t_a), ns_r_noerror);
	cr_expect_eq(memcmp(lab.reply + HFIXEDSZ, expected, sizeof(expected)), 0);
	/* The server knows the name in lower case alone. */
	cr_expect_eq(rules[0].asked, 1);
	lab_expect_log(&lab, "commit www.example.com 192.0.2.1 300\nreply 0 1\n");
}

Test(resolver, a_denied_name_is_not_asked)
{
	static const uint16_t types[] = {ns_t_a,   ns_t_aaaa, ns_t_txt,		 ns_t_mx,
					 ns_t_ptr, ns_t_any,  PG_DNS_TYPE_HTTPS, 4242};

	for (size_t i = 0; i < PG_ARRAY_SIZE(types); i++)
		lab_ask(&lab, "secret.evil.test", types[i]);
	cr_expect_eq(asked(), 0);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->denied, PG_ARRAY_SIZE(types));
	cr_expect_eq(lab.commits, 0);
}

Test(resolver, how_a_denial_looks)
{
	struct reply_record soa;

	cr_expect_eq(lab_ask(&lab, "secret.evil.test", ns_t_a), ns_r_nxdomain);
	cr_expect_eq(reply_field(&lab, DNS_ADDITIONALS), 0);
	cr_expect_eq(reply_field(&lab, DNS_AUTHORITIES), 1);
	soa = reply_record(&lab, 0);
	cr_expect_eq(soa.type, ns_t_soa);
	cr_expect_eq(soa.ttl, PG_REPLY_DENIED_TTL_S);
	lab_begin_edns(&lab, "secret.evil.test", ns_t_a, 1232);
	cr_expect_eq(reply_code(&lab), ns_r_nxdomain);
	cr_expect_eq(reply_ede(&lab), PG_EDE_FILTERED);
}

Test(resolver, refused_if_so_wanted)
{
	lab_close(&lab);
	lab_open_denying(&lab, &server.endpoint, 1, PG_DENIAL_REFUSED);
	cr_expect_eq(lab_ask(&lab, "secret.evil.test", ns_t_a), ns_r_refused);
	cr_expect_eq(reply_field(&lab, DNS_AUTHORITIES), 0);
}

Test(resolver, a_denied_type_is_no_data)
{
	cr_expect_eq(lab_ask(&lab, "www.example.com", 4242), ns_r_noerror);
	cr_expect_eq(reply_field(&lab, DNS_ANSWERS), 0);
	cr_expect_eq(reply_record(&lab, 0).type, ns_t_soa);
	lab_begin_edns(&lab, "www.example.com", ns_t_hinfo, 1232);
	cr_expect_eq(reply_ede(&lab), PG_EDE_FILTERED);
	cr_expect_eq(asked(), 0);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->denied, 2);
}

Test(resolver, other_types_of_an_allowed_name)
{
	cr_expect_eq(lab_ask(&lab, "www.example.com", ns_t_mx), ns_r_noerror);
	cr_expect_eq(reply_field(&lab, DNS_ANSWERS), 1);
	cr_expect_eq(lab.commits, 0);
}

Test(resolver, hints_are_stripped)
{
	struct reply_record https;

	cr_expect_eq(lab_ask(&lab, "www.example.com", PG_DNS_TYPE_HTTPS), ns_r_noerror);
	cr_assert_eq(reply_field(&lab, DNS_ANSWERS), 1);
	https = reply_record(&lab, 0);
	cr_expect_eq(https.type, PG_DNS_TYPE_HTTPS);
	cr_assert_eq(https.data_size, 10);
	cr_expect_eq(memcmp(https.data, "\0\1\0\0\1\0\3\2h2", 10), 0);
	cr_expect_eq(lab.commits, 0);
}

Test(resolver, any_and_transfers_are_refused)
{
	static const uint16_t types[] = {ns_t_any, ns_t_axfr, ns_t_ixfr};

	for (unsigned int is_public = 0; is_public < 2; is_public++) {
		lab.is_public = is_public;
		for (size_t i = 0; i < PG_ARRAY_SIZE(types); i++)
			cr_expect_eq(lab_ask(&lab, "www.example.com", types[i]), ns_r_refused);
	}
	cr_expect_eq(asked(), 0);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->denied, 6);
}

Test(resolver, another_class)
{
	struct dns_message message;

	dns_begin(&message, 1, PG_DNS_RD, "www.example.com", ns_t_a);
	dns_set16(&message, message.size - 2, ns_c_chaos);
	lab_send(&lab, &message, LAB_UDP);
	cr_expect_eq(reply_code(&lab), ns_r_nxdomain);
	cr_expect_eq(asked(), 0);
}

Test(resolver, wildcards_and_their_budget)
{
	cr_expect_eq(lab_ask(&lab, "a.b.example.net", ns_t_a), ns_r_noerror);
	cr_expect_eq(lab_ask(&lab, "notexample.net", ns_t_a), ns_r_nxdomain);
	lab.over_budget = true;
	cr_expect_eq(lab_ask(&lab, "c.example.net", ns_t_a), ns_r_servfail);
	lab_begin_edns(&lab, "c.example.net", ns_t_a, 1232);
	cr_expect_eq(reply_ede(&lab), PG_EDE_FILTERED);
	cr_expect_eq(asked(), 1);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->overload, 2);
}

Test(resolver, odd_labels_only_in_public)
{
	cr_expect_eq(lab_ask(&lab, "odd name.example.net", ns_t_a), ns_r_nxdomain);
	cr_expect_eq(lab_ask(&lab, "line\nfeed.example.net", ns_t_a), ns_r_nxdomain);
	cr_expect_eq(asked(), 0);
	lab.is_public = true;
	cr_expect_eq(lab_ask(&lab, "odd name.example.net", ns_t_a), ns_r_noerror);
	cr_expect_eq(reply_field(&lab, DNS_ANSWERS), 1);
	cr_expect_eq(lab_ask(&lab, "line\nfeed.example.net", ns_t_a), ns_r_nxdomain);
	cr_expect_eq(asked(), 1);
}

Test(resolver, public_asks_everything)
{
	lab.is_public = true;
	cr_expect_eq(lab_ask(&lab, "unknown.example.org", 4242), ns_r_noerror);
	cr_assert_eq(reply_field(&lab, DNS_ANSWERS), 1);
	cr_expect_eq(reply_record(&lab, 0).data_size, 3);
	cr_expect_eq(lab_ask(&lab, "a.b.example.net", ns_t_a), ns_r_noerror);
	cr_expect_eq(lab.commits, 1, "the environment decides whether a list has the name");
	cr_expect_eq(lab_ask(&lab, "1.2.0.192.in-addr.arpa", ns_t_ptr), ns_r_noerror);
	cr_expect_eq(lab.commits, 1);
}

Test(resolver, pointers_of_allowed_addresses)
{
	cr_expect_eq(lab_ask(&lab, "1.2.0.192.in-addr.arpa", ns_t_ptr), ns_r_nxdomain);
	cr_expect_eq(asked(), 0);
	lab.allowed_address = "192.0.2.1";
	cr_expect_eq(lab_ask(&lab, "1.2.0.192.in-addr.arpa", ns_t_ptr), ns_r_noerror);
	cr_expect_eq(reply_field(&lab, DNS_ANSWERS), 1);
	cr_expect_eq(lab_ask(&lab, "2.2.0.192.in-addr.arpa", ns_t_ptr), ns_r_nxdomain);
	cr_expect_eq(lab_ask(&lab, "x.1.2.0.192.in-addr.arpa", ns_t_ptr), ns_r_nxdomain);
	cr_expect_eq(asked(), 1);
}

Test(resolver, localhost)
{
	static const char *const names[] = {"localhost", "LocalHost", "a.b.localhost"};

	for (size_t i = 0; i < PG_ARRAY_SIZE(names); i++) {
		cr_expect_eq(lab_ask(&lab, names[i], ns_t_a), ns_r_noerror);
		cr_assert_eq(reply_field(&lab, DNS_ANSWERS), 1);
		cr_expect_eq(memcmp(reply_record(&lab, 0).data, "\177\0\0\1", 4), 0);
		cr_expect_eq(lab_ask(&lab, names[i], ns_t_aaaa), ns_r_noerror);
		cr_assert_eq(reply_field(&lab, DNS_ANSWERS), 1);
		cr_expect_eq(memcmp(reply_record(&lab, 0).data, &in6addr_loopback, 16), 0);
		cr_expect_eq(lab_ask(&lab, names[i], ns_t_mx), ns_r_noerror);
		cr_expect_eq(reply_field(&lab, DNS_ANSWERS), 0);
	}
	cr_expect_eq(lab_ask(&lab, "notlocalhost", ns_t_a), ns_r_nxdomain);
	cr_expect_eq(lab.commits, 0);
	cr_expect_eq(asked(), 0);
}

Test(resolver, names_of_loopback_addresses)
{
	static const char reverse6[] = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0."
				       "0.0.0.ip6.arpa";

	cr_expect_eq(lab_ask(&lab, "1.0.0.127.in-addr.arpa", ns_t_ptr), ns_r_noerror);
	cr_expect_eq(memcmp(reply_record(&lab, 0).data, "\11localhost", 11), 0);
	cr_expect_eq(lab_ask(&lab, reverse6, ns_t_ptr), ns_r_noerror);
	cr_expect_eq(reply_field(&lab, DNS_ANSWERS), 1);
	cr_expect_eq(lab_ask(&lab, "2.0.0.127.in-addr.arpa", ns_t_ptr), ns_r_nxdomain);
	cr_expect_eq(asked(), 0);
}

Test(resolver, local_names)
{
	const struct pg_addr addr = pg_addr_from_v4(htonl(0xac110001));
	struct pg_error err;

	cr_assert_eq(pg_resolver_add_local(lab.resolver, "host.example.net", &addr, &err), 0);
	cr_assert_eq(pg_resolver_add_local(lab.resolver, "hidden.test", &addr, &err), 0);
	cr_expect_eq(pg_resolver_add_local(lab.resolver, "a..b", &addr, &err), -EINVAL);
	cr_expect_eq(lab_ask(&lab, "host.example.net", ns_t_a), ns_r_noerror);
	lab_expect_log(&lab, "commit host.example.net 172.17.0.1 60\nreply 0 1\n");
	cr_expect_eq(lab_ask(&lab, "host.example.net", ns_t_aaaa), ns_r_noerror);
	lab_expect_log(&lab, "reply 0 0\n");
	cr_expect_eq(lab_ask(&lab, "hidden.test", ns_t_a), ns_r_nxdomain);
	cr_expect_eq(asked(), 0);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->cached, 2);
}

Test(resolver, single_labels_have_their_own_server)
{
	static struct fake_rule own_rules[] = {
		{.name = "redis", .records = {{"redis", ns_t_a, 300, "172.18.0.2"}}},
	};
	static struct fake_server own;

	own.rules = own_rules;
	own.rule_count = 1;
	fake_bind(&own);
	fake_start(&own);
	cr_expect_eq(lab_ask(&lab, "redis", ns_t_a), ns_r_noerror);
	cr_expect_eq(memcmp(reply_record(&lab, 0).data, "\300\0\2\3", 4), 0);
	cr_assert_eq(pg_resolver_add_upstream(lab.resolver, &own.endpoint, 1, -1, &lab.own_upstream,
					      NULL),
		     0);
	cr_expect_neq(lab.own_upstream, lab.upstream);
	cr_expect_eq(lab_ask(&lab, "redis", ns_t_a), ns_r_noerror);
	cr_expect_eq(memcmp(reply_record(&lab, 0).data, "\254\22\0\2", 4), 0, "cached apart");
	cr_expect_eq(lab_ask(&lab, "www.example.com", ns_t_a), ns_r_noerror);
	cr_expect_eq(own_rules[0].asked, 1);
	cr_expect_eq(own.others_asked, 0);
	fake_stop(&own);
}

Test(resolver, no_query)
{
	static const uint8_t octets[HFIXEDSZ] = {0};
	const struct pg_resolver_client client = {.owner = &lab, .upstream = lab.upstream};
	struct dns_message message;

	pg_resolver_ask(lab.resolver, &client, octets, 5);
	dns_begin(&message, 1, PG_DNS_QR, "www.example.com", ns_t_a);
	lab_send(&lab, &message, LAB_UDP);
	cr_expect_eq(lab.replies, 0, "nothing is said to a response");
	lab_send(&lab, &message, LAB_TCP);
	lab_expect_log(&lab, "no reply\n");
	dns_begin(&message, 1, 0, "www.example.com", ns_t_a);
	message.data[5] = 2;
	lab_send(&lab, &message, LAB_UDP);
	cr_expect_eq(reply_code(&lab), ns_r_formerr);
	dns_begin(&message, 1, ns_o_notify << 11, "www.example.com", ns_t_soa);
	lab_send(&lab, &message, LAB_UDP);
	cr_expect_eq(reply_code(&lab), ns_r_notimpl);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->malformed, 5);
	cr_expect_eq(asked(), 0);
}

Test(resolver, without_a_server)
{
	pg_resolver_remove_upstream(lab.resolver, lab.upstream);
	cr_expect_eq(lab_ask(&lab, "www.example.com", ns_t_a), ns_r_servfail);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->failed, 1);
}
