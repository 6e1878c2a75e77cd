/* SPDX-License-Identifier: Apache-2.0 */
/* Upstream servers that are dead, slow, wrong or lying. */
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "dns/upstream_channel.h"
#include "resolver_lab.h"

static const struct dns_record any = {NULL, ns_t_a, 300, "192.0.2.1"};

/* "www.example.com" with an address, and what goes wrong with it. */
#define WWW(...) \
	static struct fake_rule rules[] = { \
		{.name = "www.example.com", \
		 .records = {{"www.example.com", ns_t_a, 300, "192.0.2.1"}}, \
		 __VA_ARGS__}}

static struct lab lab;

static void start(struct fake_server *server, struct fake_rule *rules)
{
	server->rules = rules;
	server->rule_count = rules ? 1 : 0;
	lab.allowed[0] = "*.example.com";
	lab_start(&lab, server);
}

static uint64_t since_ms(uint64_t start_ns)
{
	return (pg_monotonic_ns() - start_ns) / PG_NSEC_PER_MSEC;
}

static void expect_answer(void)
{
	cr_expect_eq(lab_ask(&lab, "www.example.com", ns_t_a), ns_r_noerror);
	lab_expect_log(&lab, "commit www.example.com 192.0.2.1 300\nreply 0 1\n");
}

/* The extended error of a question that fails. */
static int ask_in_vain(const char *name)
{
	size_t replies = lab.replies;

	lab_begin_edns(&lab, name, ns_t_a, 1232);
	lab_wait(&lab, replies + 1);
	cr_expect_eq(reply_code(&lab), ns_r_servfail);
	cr_expect_eq(lab.commits, 0);
	return reply_ede(&lab);
}

Test(resolver_servers, dead_first_server)
{
	static struct fake_server dead, alive;
	char name[32];
	uint64_t begun;

	/* Bound, but no one reads. */
	fake_bind(&dead);
	alive = (struct fake_server){.other = &any};
	fake_bind(&alive);
	fake_start(&alive);
	lab.allowed[0] = "*.example.com";
	lab.quiet = true;
	lab_open(&lab, (struct pg_endpoint[]){dead.endpoint, alive.endpoint}, 2);
	begun = pg_monotonic_ns();
	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%u.example.com", i);
		cr_assert_eq(lab_ask(&lab, name, ns_t_a), ns_r_noerror);
	}
	/* Only the first waits for it. */
	cr_expect_lt(since_ms(begun), 3000, "%lu ms", since_ms(begun));
	lab_stop(&lab, &alive);
	fake_close(&dead);
}

Test(resolver_servers, closed_port_first)
{
	static struct fake_server closed, alive;

	fake_bind(&closed);
	fake_close(&closed);
	alive = (struct fake_server){.other = &any};
	fake_bind(&alive);
	fake_start(&alive);
	lab.allowed[0] = "*.example.com";
	lab_open(&lab, (struct pg_endpoint[]){closed.endpoint, alive.endpoint}, 2);
	expect_answer();
	lab_stop(&lab, &alive);
}

Test(resolver_servers, only_a_closed_port)
{
	static struct fake_server closed;

	fake_bind(&closed);
	fake_close(&closed);
	lab.allowed[0] = "*.example.com";
	lab_open(&lab, &closed.endpoint, 1);
	cr_expect_eq(ask_in_vain("www.example.com"), PG_EDE_NETWORK_ERROR);
	lab_close(&lab);
}

Test(resolver_servers, no_server_answers)
{
	static struct fake_server dead;
	uint64_t begun;

	fake_bind(&dead);
	lab.allowed[0] = "*.example.com";
	lab_open(&lab, &dead.endpoint, 1);
	begun = pg_monotonic_ns();
	cr_expect_eq(ask_in_vain("www.example.com"), PG_EDE_NO_REACHABLE);
	/* Three attempts; at 1.2 s each that is below 5 s. */
	cr_expect(since_ms(begun) >= 3 * ATTEMPT_MS && since_ms(begun) < 4 * ATTEMPT_MS + 200,
		  "%lu ms", since_ms(begun));
	cr_expect_eq(pg_resolver_stats(lab.resolver)->upstream, 3);
	/* What c-ares still has ends, too, and then nothing wakes anybody. */
	lab_idle(&lab, 6 * ATTEMPT_MS);
	cr_expect_eq(lab_idle(&lab, 3 * ATTEMPT_MS), 0);
	lab_close(&lab);
	fake_close(&dead);
}

Test(resolver_servers, a_dead_one_is_no_matter_to_others)
{
	static struct fake_server dead, alive;
	unsigned int dead_upstream;
	uint64_t begun;
	char name[32];

	alive = (struct fake_server){.other = &any};
	start(&alive, NULL);
	fake_bind(&dead);
	cr_assert_eq(pg_resolver_add_upstream(lab.resolver, &dead.endpoint, 1, -1, &dead_upstream,
					      NULL),
		     0);
	lab.own_upstream = dead_upstream;
	lab.allowed[1] = "redis";
	lab_begin(&lab, "redis", ns_t_a);
	begun = pg_monotonic_ns();
	for (unsigned int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%u.example.com", i);
		cr_assert_eq(lab_ask(&lab, name, ns_t_a), ns_r_noerror);
	}
	cr_expect_lt(since_ms(begun), ATTEMPT_MS, "%lu ms", since_ms(begun));
	/* Its questions end when it is removed. */
	pg_resolver_remove_upstream(lab.resolver, dead_upstream);
	cr_expect_eq(lab.replies, 101);
	cr_expect_eq(reply_code(&lab), ns_r_servfail);
	lab_stop(&lab, &alive);
	fake_close(&dead);
}

Test(resolver_servers, slow_server)
{
	static struct fake_server slow;
	uint64_t begun;

	/* Longer than one attempt. */
	slow = (struct fake_server){.other = &any, .delay_ms = 2 * ATTEMPT_MS - 50};
	start(&slow, NULL);
	begun = pg_monotonic_ns();
	expect_answer();
	cr_expect_lt(since_ms(begun), 3 * ATTEMPT_MS, "%lu ms", since_ms(begun));
	lab_idle(&lab, 4 * ATTEMPT_MS);
	cr_expect_eq(lab.replies, 1, "the answers to the other attempts are for nobody");
	lab_stop(&lab, &slow);
}

Test(resolver_servers, lost_packets)
{
	static struct fake_server server;
	WWW(.silent_first = 2);

	start(&server, rules);
	expect_answer();
	cr_expect_eq(rules[0].asked, 3);
	lab_stop(&lab, &server);
}

Test(resolver_servers, servfail_is_asked_again)
{
	static struct fake_server server;
	WWW(.fail_first = 1);

	start(&server, rules);
	expect_answer();
	lab_stop(&lab, &server);
}

Test(resolver_servers, servfail_for_good)
{
	static struct fake_server server;
	WWW(.rcode = ns_r_servfail);

	start(&server, rules);
	cr_expect_eq(ask_in_vain("www.example.com"), PG_EDE_NO_REACHABLE);
	cr_expect_eq(rules[0].asked, 3);
	rules[0].rcode = ns_r_refused;
	cr_expect_eq(ask_in_vain("www.example.com"), PG_EDE_NO_REACHABLE);
	lab_stop(&lab, &server);
}

Test(resolver_servers, without_edns)
{
	static struct fake_server server;
	WWW(.no_edns = true);

	start(&server, rules);
	expect_answer();
	lab_stop(&lab, &server);
}

Test(resolver_servers, truncated_answers_come_over_tcp)
{
	static struct fake_server server;
	WWW(.truncate = true);

	start(&server, rules);
	expect_answer();
	cr_expect_eq(rules[0].asked, 1);
	cr_expect_eq(rules[0].asked_tcp, 1);
	lab_stop(&lab, &server);
}

Test(resolver_servers, forged_answers)
{
	static struct fake_server server;
	WWW(.lie = FAKE_FORGED);

	start(&server, rules);
	expect_answer();
	cr_expect_eq(rules[0].asked, 1);
	lab_stop(&lab, &server);
}

Test(resolver_servers, guessed_answers)
{
	static struct fake_server server;
	WWW(.lie = FAKE_GUESSED);

	start(&server, rules);
	expect_answer();
	cr_expect_eq(rules[0].asked, 1);
	cr_expect_eq(rules[0].asked_tcp, 1);
	/* Only this question, and no longer than it lasts. */
	rules[0].lie = FAKE_HONEST;
	lab.log[0] = '\0';
	lab_ask(&lab, "www.example.com", ns_t_aaaa);
	cr_expect_eq(rules[0].asked, 2);
	lab_stop(&lab, &server);
}

Test(resolver_servers, case_is_not_kept)
{
	static struct fake_server server;
	WWW(.lie = FAKE_LOWER);

	start(&server, rules);
	expect_answer();
	cr_expect_eq(rules[0].asked_tcp, 1);
	lab_stop(&lab, &server);
}

Test(resolver_servers, case_is_not_kept_and_there_is_no_tcp)
{
	static struct fake_server server;
	WWW(.lie = FAKE_LOWER);

	server.rules = rules;
	server.rule_count = 1;
	fake_bind(&server);
	close(server.tcp);
	server.tcp = -1;
	fake_start(&server);
	lab.allowed[0] = "*.example.com";
	lab_open(&lab, &server.endpoint, 1);
	cr_expect_eq(ask_in_vain("www.example.com"), PG_EDE_NETWORK_ERROR);
	cr_expect_eq(rules[0].asked, 1);
	lab_stop(&lab, &server);
}

static unsigned int prepared;
static int preparing;

static int prepare_socket(void *userdata, int fd, struct pg_error *err)
{
	struct sockaddr_in peer;
	socklen_t size = sizeof(peer);

	cr_expect_eq(userdata, &lab);
	cr_expect(getpeername(fd, (struct sockaddr *)&peer, &size) < 0, "connected before");
	prepared++;
	return preparing < 0 ? pg_fail(err, preparing, "no right to prepare") : 0;
}

Test(resolver_servers, each_socket_is_prepared)
{
	struct pg_resolver_hooks hooks = {.judge = lab_judge,
					  .allows_address = lab_allows_address,
					  .commit = lab_commit,
					  .generation = lab_generation,
					  .reply = lab_reply,
					  .prepare_socket = prepare_socket,
					  .userdata = &lab};
	static struct fake_server server;
	struct pg_error err = {};
	WWW(.truncate = true);
	unsigned int before;

	server.rules = rules;
	server.rule_count = 1;
	fake_bind(&server);
	fake_start(&server);
	lab.allowed[0] = "*.example.com";
	cr_assert_eq(pg_resolver_new_tuned(&hooks, PG_DENIAL_NXDOMAIN, ATTEMPT_MS, &lab.resolver,
					   &err),
		     0);
	preparing = -EPERM;
	cr_expect_eq(pg_resolver_add_upstream(lab.resolver, &server.endpoint, 1, -1, &lab.upstream,
					      &err),
		     -EPERM);
	cr_expect(strstr(err.text, "127.0.0.1") && strstr(err.text, "no right to prepare"), "%s",
		  err.text);
	preparing = 0;
	cr_assert_eq(pg_resolver_add_upstream(lab.resolver, &server.endpoint, 1, -1, &lab.upstream,
					      &err),
		     0);
	before = prepared;
	expect_answer();
	/* One for UDP, one for TCP. */
	cr_expect_geq(prepared, before + 2);
	/* What cannot be prepared is not used; one had been before. */
	preparing = -EPERM;
	lab_ask(&lab, "a.example.com", ns_t_a);
	lab.commits = 0;
	ask_in_vain("b.example.com");
	lab_stop(&lab, &server);
}

static void expect_lie(enum fake_lie lie)
{
	static struct fake_server server;
	WWW(.lie_first = 2);

	rules[0].lie = lie;
	start(&server, rules);
	/* The third answer is well-formed. */
	expect_answer();
	cr_expect_eq(rules[0].asked, 3);
	lab_stop(&lab, &server);
}

Test(resolver_servers, cut_answers)
{
	expect_lie(FAKE_CUT);
}

Test(resolver_servers, compression_loops)
{
	expect_lie(FAKE_LOOP);
}

Test(resolver_servers, noise)
{
	expect_lie(FAKE_NOISE);
}

Test(resolver_servers, nothing_but_lies)
{
	static struct fake_server server;
	WWW(.lie = FAKE_LOOP);

	start(&server, rules);
	cr_expect_eq(ask_in_vain("www.example.com"), PG_EDE_NO_REACHABLE);
	lab_stop(&lab, &server);
}

/* Descriptors that take all numbers that are left. Returns their count. */
static size_t use_up(int *fds, size_t max)
{
	size_t count = 0;

	while (count < max) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			break;
		fds[count++] = fd;
	}
	return count;
}

Test(resolver_servers, out_of_descriptors)
{
	const struct rlimit limit = {64, 64};
	static struct fake_server server;
	int fds[64];
	size_t count;

	server = (struct fake_server){.other = &any};
	start(&server, NULL);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	count = use_up(fds, PG_ARRAY_SIZE(fds));
	cr_expect_eq(ask_in_vain("www.example.com"), PG_EDE_NETWORK_ERROR);
	cr_expect_leq(lab_idle(&lab, 300), 2, "nothing spins");
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
	lab.log[0] = '\0';
	expect_answer();
	lab_stop(&lab, &server);
}

Test(resolver_servers, out_of_descriptors_under_load)
{
	const struct rlimit limit = {64, 64};
	static struct fake_server server;
	char name[32];
	int fds[64];
	size_t count;

	server = (struct fake_server){.other = &any, .delay_ms = ATTEMPT_MS / 2};
	start(&server, NULL);
	lab.quiet = true;
	for (unsigned int i = 0; i < PG_CHANNEL_QUERIES; i++) {
		snprintf(name, sizeof(name), "n%u.example.com", i);
		lab_begin(&lab, name, ns_t_a);
	}
	/* Another port would be next. */
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	count = use_up(fds, PG_ARRAY_SIZE(fds));
	lab_begin(&lab, "www.example.com", ns_t_a);
	lab_wait(&lab, PG_CHANNEL_QUERIES + 1);
	cr_expect_eq(pg_resolver_stats(lab.resolver)->answered, PG_CHANNEL_QUERIES + 1);
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
	lab_stop(&lab, &server);
}

/* A server that only those in its namespace reach. Returns the namespace's descriptor. */
static int bind_elsewhere(struct fake_server *server)
{
	int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), there, fd;
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};

	if (unshare(CLONE_NEWNET) < 0)
		cr_skip_test("needs root for a network namespace: %s", strerror(errno));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(ioctl(fd, SIOCSIFFLAGS, &lo), 0);
	close(fd);
	fake_bind(server);
	there = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	cr_assert_geq(there, 0);
	cr_assert_eq(setns(here, CLONE_NEWNET), 0);
	close(here);
	return there;
}

Test(resolver_servers, asked_from_another_namespace)
{
	static struct fake_server server;
	WWW(.truncate = true);
	int netns_fd = bind_elsewhere(&server);

	server.rules = rules;
	server.rule_count = 1;
	fake_start(&server);
	lab.allowed[0] = "*.example.com";
	lab_open(&lab, &server.endpoint, 1);
	cr_expect_eq(ask_in_vain("www.example.com"), PG_EDE_NETWORK_ERROR);
	lab.log[0] = '\0';
	cr_assert_eq(pg_resolver_add_upstream(lab.resolver, &server.endpoint, 1, netns_fd,
					      &lab.upstream, NULL),
		     0);
	expect_answer();
	cr_expect_eq(rules[0].asked_tcp, 1);
	lab_stop(&lab, &server);
	close(netns_fd);
}

Test(resolver_servers, ports_change)
{
	static struct fake_server server;
	char name[32];

	server = (struct fake_server){.other = &any, .delay_ms = 1};
	start(&server, NULL);
	lab.quiet = true;
	/* Never without a question under way. */
	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%u.example.com", i);
		lab_begin(&lab, name, ns_t_a);
		if (i >= 10)
			lab_wait(&lab, i - 10);
	}
	lab_wait(&lab, 1000);
	cr_expect_gt(server.ports, 5, "%u", server.ports);
	lab_stop(&lab, &server);
}

Test(resolver_servers, none)
{
	struct pg_error err;
	unsigned int upstream = 0;

	lab_open(&lab, NULL, 0);
	cr_expect_eq(pg_resolver_add_upstream(lab.resolver, NULL, 0, -1, &upstream, &err), -EINVAL);
	cr_expect_eq(upstream, 0);
	lab_close(&lab);
}
