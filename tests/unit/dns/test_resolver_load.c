/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are asked when a policy is loaded. */
#include <stdlib.h>
#include <sys/eventfd.h>

#include "resolver_lab.h"

#define MANY 100000

static const struct dns_record any = {NULL, ns_t_a, 300, "192.0.2.1"};
static struct fake_server server;
static struct lab lab;

/* What failed() was told. */
static char failures[LAB_LOG];
static const char *last_reason;

static void failed(void *userdata, const char *name, const char *reason)
{
	size_t used = strlen(failures);

	last_reason = reason;
	if (!lab.quiet)
		snprintf(failures + used, sizeof(failures) - used, "%s: %s\n", name, reason);
}

static int load(const char *const *names, size_t count, int timeout_ms)
{
	struct pg_error err;
	int r = pg_resolver_load(lab.resolver, names, count, lab.upstream, lab.own_upstream,
				 timeout_ms, -1, failed, NULL, &err);

	cr_expect_geq(r, 0, "%s", err.text);
	return r;
}

/* "n0.example.com" and on; freed with free(). */
static const char **make_names(size_t count)
{
	const char **names = malloc(count * (sizeof(*names) + 32));
	char *room;

	cr_assert(names);
	room = (char *)(names + count);
	for (size_t i = 0; i < count; i++) {
		snprintf(room + i * 32, 32, "n%u.example.com", (unsigned int)i);
		names[i] = room + i * 32;
	}
	return names;
}

static uint64_t since_ms(uint64_t start)
{
	return (pg_monotonic_ns() - start) / PG_NSEC_PER_MSEC;
}

Test(resolver_load, names_and_their_addresses)
{
	static struct fake_rule rules[] = {
		{.name = "a.example.com",
		 .type = ns_t_a,
		 .records = {{"a.example.com", ns_t_a, 300, "192.0.2.1"}}},
		{.name = "a.example.com",
		 .type = ns_t_aaaa,
		 .records = {{"a.example.com", ns_t_aaaa, 60, "2001:db8::1"}}},
		{.name = "b.example.com",
		 .records = {{"b.example.com", ns_t_cname, 60, "b.cdn.test"},
			     {"b.cdn.test", ns_t_a, 300, "192.0.2.2"}}},
		{.name = "empty.example.com"},
		{.name = "meta.example.com",
		 .type = ns_t_a,
		 .records = {{"meta.example.com", ns_t_a, 300, "169.254.169.254"}}},
		{.name = "broken.example.com", .rcode = ns_r_servfail},
		{.name = "refused.example.com", .rcode = ns_r_refused},
		{.name = "half.example.com",
		 .type = ns_t_a,
		 .records = {{"half.example.com", ns_t_a, 300, "192.0.2.3"}}},
		{.name = "half.example.com", .type = ns_t_aaaa, .rcode = ns_r_servfail},
	};
	static const char *const names[] = {
		"a.example.com",      "b.example.com",
		"empty.example.com",  "meta.example.com",
		"broken.example.com", "refused.example.com",
		"half.example.com",   "gone.example.com",
		"local.example.com",  "redis",
		"localhost",
	};
	const struct pg_addr addr = pg_addr_from_v4(htonl(0xac110001));

	server.rules = rules;
	server.rule_count = PG_ARRAY_SIZE(rules);
	lab_start(&lab, &server);
	cr_assert_eq(pg_resolver_add_local(lab.resolver, "local.example.com", &addr, NULL), 0);
	cr_expect_eq(load(names, PG_ARRAY_SIZE(names), PATIENCE_MS), 6);
	cr_expect_str_eq(failures,
			 "empty.example.com: it has no address\n"
			 "meta.example.com: its only addresses are ones that DNS may not teach "
			 "(loopback, link-local and the like)\n"
			 "broken.example.com: the server failed (SERVFAIL)\n"
			 "refused.example.com: the server refused to answer\n"
			 "gone.example.com: there is no such name\n"
			 "redis: there is no such name\n");
	cr_expect(strstr(lab.log, "commit a.example.com 192.0.2.1 300\n"));
	cr_expect(strstr(lab.log, "commit a.example.com 2001:db8::1 60\n"));
	cr_expect(strstr(lab.log, "commit b.example.com 192.0.2.2 60\n"));
	cr_expect(strstr(lab.log, "commit local.example.com 172.17.0.1 60\n"));
	cr_expect_eq(pg_resolver_stats(lab.resolver)->queries, 0);
	/* What was loaded is at hand, and its targets are askable. */
	lab.allowed[0] = "b.example.com";
	lab_begin(&lab, "b.example.com", ns_t_a);
	cr_expect_eq(lab.replies, 1);
	lab_begin(&lab, "b.cdn.test", ns_t_mx);
	lab_wait(&lab, 2);
	cr_expect_neq(reply_field(&lab, 2) & 0xf, ns_r_servfail);
	lab_stop(&lab, &server);
}

Test(resolver_load, not_stored)
{
	static const char *const names[] = {"a.example.com"};

	server.other = &any;
	lab.commit_result = -ENOSPC;
	lab_start(&lab, &server);
	cr_expect_eq(load(names, 1, PATIENCE_MS), 1);
	cr_expect_str_eq(failures, "a.example.com: its addresses could not be stored\n");
	lab_stop(&lab, &server);
}

Test(resolver_load, servers_out_of_reach)
{
	static const char *const names[] = {"a.example.com"};

	fake_bind(&server);
	lab_open(&lab, &server.endpoint, 1);
	cr_expect_eq(load(names, 1, PATIENCE_MS), 1);
	cr_expect_str_eq(failures, "a.example.com: no server answers\n");
	fake_close(&server);
	failures[0] = '\0';
	cr_expect_eq(load(names, 1, PATIENCE_MS), 1);
	cr_expect_str_eq(failures, "a.example.com: no server can be reached\n");
	failures[0] = '\0';
	pg_resolver_remove_upstream(lab.resolver, lab.upstream);
	cr_expect_eq(load(names, 1, PATIENCE_MS), 1);
	cr_expect_str_eq(failures, "a.example.com: there is no server to ask\n");
	lab_close(&lab);
}

Test(resolver_load, does_not_wait_longer_than_told)
{
	const char **names = make_names(MANY);
	uint64_t start, took;

	fake_bind(&server);
	lab.quiet = true;
	lab_open(&lab, &server.endpoint, 1);
	start = pg_monotonic_ns();
	cr_expect_eq(load(names, MANY, 300), MANY);
	took = since_ms(start);
	cr_expect(took >= 300 && took < 1000, "%lu ms", took);
	cr_expect_str_eq(last_reason, "no answer yet");
	free(names);
	lab_idle(&lab, 2 * ATTEMPT_MS);
	/* With questions under way, and names left. */
	lab_close(&lab);
	fake_close(&server);
}

Test(resolver_load, late_answers_count_in_the_background)
{
	const char **names = make_names(1000);

	server.other = &any;
	fake_bind(&server);
	lab.quiet = true;
	lab_open(&lab, &server.endpoint, 1);
	cr_expect_eq(load(names, 1000, 1), 1000);
	free(names);
	fake_start(&server);
	while (lab.commits < 1000)
		lab_idle(&lab, 10);
	lab_idle(&lab, 50);
	cr_expect(LIST_EMPTY(&lab.resolver->loads));
	cr_expect_eq(lab.resolver->in_flight, 0);
	lab_stop(&lab, &server);
}

Test(resolver_load, interrupted)
{
	static const char *const names[] = {"a.example.com"};
	int fd = eventfd(1, EFD_CLOEXEC);
	struct pg_error err;

	fake_bind(&server);
	lab_open(&lab, &server.endpoint, 1);
	cr_expect_eq(pg_resolver_load(lab.resolver, names, 1, lab.upstream, 0, PATIENCE_MS, fd,
				      failed, NULL, &err),
		     -ECANCELED);
	cr_expect_str_empty(failures);
	lab_idle(&lab, 5 * ATTEMPT_MS);
	cr_expect(LIST_EMPTY(&lab.resolver->loads));
	lab_close(&lab);
	fake_close(&server);
	close(fd);
}

Test(resolver_load, questions_under_way_are_bounded)
{
	const char **names = make_names(1000);

	server = (struct fake_server){.other = &any, .hold = true};
	lab.quiet = true;
	lab_start(&lab, &server);
	cr_expect_eq(load(names, 1000, PATIENCE_MS), 0);
	cr_expect_eq(lab.commits, 1000);
	lab_stop(&lab, &server);
	cr_expect_gt(server.held_most, 1);
	cr_expect_leq(server.held_most, PG_RESOLVER_IN_FLIGHT_MAX / 8);
	free(names);
}

Test(resolver_load, clients_have_used_up_all_questions)
{
	static const char *const names[] = {"late.example.net"};
	char name[32];

	server = (struct fake_server){.other = &any, .hold = true};
	lab.allowed[0] = "*.example.com";
	lab.quiet = true;
	lab_start(&lab, &server);
	for (unsigned int i = 0; i < PG_RESOLVER_IN_FLIGHT_MAX; i++) {
		snprintf(name, sizeof(name), "n%u.example.com", i);
		lab_begin(&lab, name, ns_t_a);
	}
	cr_expect_eq(load(names, 1, PATIENCE_MS), 0, "it waits for its turn");
	lab_stop(&lab, &server);
}

Test(resolver_load, a_hundred_thousand_names)
{
	const char **names = make_names(MANY);
	uint64_t start;

	server.other = &any;
	lab.quiet = true;
	lab_start(&lab, &server);
	start = pg_monotonic_ns();
	cr_expect_eq(load(names, MANY, 100000), 0);
	cr_log_info("%d names in %lu ms", MANY, since_ms(start));
	cr_expect_eq(lab.commits, MANY);
	lab_stop(&lab, &server);
	free(names);
}

Test(resolver_load, nothing_to_ask)
{
	lab_open(&lab, NULL, 0);
	cr_expect_eq(load(NULL, 0, PATIENCE_MS), 0);
	cr_expect(LIST_EMPTY(&lab.resolver->loads));
	lab_close(&lab);
}
