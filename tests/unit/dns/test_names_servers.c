/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that are dead, slow or overrun. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "dns/names_private.h"
#include "fake_server.h"

#define PATIENCE_MS 20000

static const struct pg_names_tuning once = {.ttl_floor_ms = 600000,
					    .retry_ms = 600000,
					    .attempt_ms = 200};

static const struct dns_record any = {NULL, ns_t_a, 300, "192.0.2.1"};

static int count(void *userdata, size_t name, const struct pg_addr *addr, uint32_t ttl)
{
	(*(size_t *)userdata)++;
	return 0;
}

static struct pg_names *open_names(const struct pg_endpoint *servers, size_t server_count,
				   const char *const *texts, size_t text_count, size_t *learned)
{
	struct pg_names *names;
	struct pg_error err;

	*learned = 0;
	cr_assert_eq(pg_names_new_tuned(&once, servers, server_count, texts, text_count, count,
					learned, &names, &err),
		     0, "%s", err.text);
	return names;
}

static uint64_t since_ms(uint64_t start)
{
	return (pg_monotonic_ns() - start) / PG_NSEC_PER_MSEC;
}

#define MANY 100000

/* "n0.example.com" and on; freed with free(). */
static const char **make_names(size_t text_count)
{
	const char **texts = malloc(text_count * (sizeof(*texts) + 32));
	char *room;

	cr_assert(texts);
	room = (char *)(texts + text_count);
	for (size_t i = 0; i < text_count; i++) {
		snprintf(room + i * 32, 32, "n%u.example.com", (unsigned int)i);
		texts[i] = room + i * 32;
	}
	return texts;
}

static const char *const api[] = {"api.example.com"};

Test(names_servers, dead_first_server)
{
	static struct fake_server dead, alive;
	const size_t text_count = 1000;
	const char **texts = make_names(text_count);
	struct pg_names *names;
	uint64_t start, took;
	size_t learned;

	/* Bound, but no one reads. */
	fake_bind(&dead);
	alive = (struct fake_server){.other = &any};
	fake_bind(&alive);
	fake_start(&alive);
	names = open_names((struct pg_endpoint[]){dead.endpoint, alive.endpoint}, 2, texts,
			   text_count, &learned);
	start = pg_monotonic_ns();
	cr_expect_eq(pg_names_load(names, PATIENCE_MS, -1, NULL), 0);
	took = since_ms(start);
	cr_expect_eq(learned, text_count);
	/* Only the first names wait for it: 16 rounds of time-outs would be 3.2 s. */
	cr_expect_lt(took, 3000, "%lu ms", took);
	pg_names_free(names);
	fake_stop(&alive);
	fake_close(&dead);
	free(texts);
}

Test(names_servers, closed_port_first)
{
	static struct fake_server closed, alive;
	struct pg_names *names;
	size_t learned;

	fake_bind(&closed);
	fake_close(&closed);
	alive = (struct fake_server){.other = &any};
	fake_bind(&alive);
	fake_start(&alive);
	names = open_names((struct pg_endpoint[]){closed.endpoint, alive.endpoint}, 2, api, 1,
			   &learned);
	cr_expect_eq(pg_names_load(names, PATIENCE_MS, -1, NULL), 0);
	cr_expect_eq(learned, 1);
	pg_names_free(names);
	fake_stop(&alive);
}

Test(names_servers, only_a_closed_port)
{
	static struct fake_server closed;
	struct pg_names *names;
	size_t learned;

	fake_bind(&closed);
	fake_close(&closed);
	names = open_names(&closed.endpoint, 1, api, 1, &learned);
	cr_expect_eq(pg_names_load(names, PATIENCE_MS, -1, NULL), 1);
	cr_expect_str_eq(pg_names_failure(names, 0), "no server can be reached");
	pg_names_free(names);
}

Test(names_servers, no_server_answers)
{
	static struct fake_server dead;
	struct pg_names *names;
	size_t learned;

	fake_bind(&dead);
	names = open_names(&dead.endpoint, 1, api, 1, &learned);
	cr_expect_eq(pg_names_load(names, PATIENCE_MS, -1, NULL), 1);
	cr_expect_str_eq(pg_names_failure(names, 0), "no server answers");
	pg_names_free(names);
	fake_close(&dead);
}

Test(names_servers, load_does_not_wait_longer_than_told)
{
	static struct fake_server dead;
	const char **texts = make_names(MANY);
	struct pg_names *names;
	uint64_t start, took;
	size_t learned;

	fake_bind(&dead);
	names = open_names(&dead.endpoint, 1, texts, MANY, &learned);
	start = pg_monotonic_ns();
	cr_expect_eq(pg_names_load(names, 300, -1, NULL), MANY);
	took = since_ms(start);
	cr_expect(took >= 300 && took < 1000, "%lu ms", took);
	cr_expect_str_eq(pg_names_failure(names, MANY - 1), "no answer yet");
	/* With queries under way. */
	pg_names_free(names);
	fake_close(&dead);
	free(texts);
}

Test(names_servers, late_answers_count_in_the_background)
{
	static struct fake_server late;
	struct pg_names *names;
	size_t learned;

	late = (struct fake_server){.other = &any};
	fake_bind(&late);
	names = open_names(&late.endpoint, 1, api, 1, &learned);
	cr_expect_eq(pg_names_load(names, 1, -1, NULL), 1);
	cr_expect_str_eq(pg_names_failure(names, 0), "no answer yet");
	fake_start(&late);
	while (pg_names_failure(names, 0)) {
		struct pollfd poller = {.fd = pg_names_fd(names), .events = POLLIN};

		cr_assert_eq(poll(&poller, 1, PATIENCE_MS), 1);
		cr_assert_eq(pg_names_process(names, NULL), 0);
	}
	cr_expect_eq(learned, 1);
	pg_names_free(names);
	fake_stop(&late);
}

Test(names_servers, queries_in_flight_are_bounded)
{
	static struct fake_server server;
	const size_t text_count = 1000;
	const char **texts = make_names(text_count);
	struct pg_names *names;
	size_t learned;

	server = (struct fake_server){.other = &any, .hold = true};
	fake_bind(&server);
	fake_start(&server);
	names = open_names(&server.endpoint, 1, texts, text_count, &learned);
	cr_expect_eq(pg_names_load(names, PATIENCE_MS, -1, NULL), 0);
	cr_expect_eq(learned, text_count);
	pg_names_free(names);
	fake_stop(&server);
	cr_expect_gt(server.held_most, 1);
	cr_expect_leq(server.held_most, PG_NAMES_IN_FLIGHT);
	free(texts);
}

Test(names_servers, a_hundred_thousand_names)
{
	static struct fake_server server;
	const char **texts = make_names(MANY);
	struct pg_names *names;
	size_t learned;
	uint64_t start;

	server = (struct fake_server){.other = &any};
	fake_bind(&server);
	fake_start(&server);
	names = open_names(&server.endpoint, 1, texts, MANY, &learned);
	start = pg_monotonic_ns();
	cr_expect_eq(pg_names_load(names, 100000, -1, NULL), 0);
	cr_log_info("%d names in %lu ms", MANY, since_ms(start));
	cr_expect_eq(learned, MANY);
	pg_names_free(names);
	fake_stop(&server);
	free(texts);
}

Test(names_servers, nothing_to_ask)
{
	const struct pg_endpoint server = {.addr = pg_addr_from_v4(htonl(0x7f000001)),
					   .port = htons(9)};
	struct pg_names *names;
	struct pg_error err;
	size_t learned;

	names = open_names(&server, 1, NULL, 0, &learned);
	cr_expect_eq(pg_names_load(names, PATIENCE_MS, -1, NULL), 0);
	pg_names_free(names);
	cr_expect_eq(pg_names_new(NULL, 0, api, 1, count, &learned, &names, &err), -EINVAL);
}

/* A resolv.conf with this content; the caller removes it. */
static void write_conf(char path[static 32], const char *text)
{
	int fd;

	snprintf(path, 32, "/tmp/resolv.XXXXXX");
	fd = mkostemp(path, O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

Test(names_servers, host_servers)
{
	static const char text[] = "# nameserver 192.0.2.9\n"
				   "search example.net\n"
				   "nameserver 192.0.2.53\n"
				   " nameserver 192.0.2.54\n"
				   "nameserver\t2001:db8::53  \r\n"
				   "nameserver fe80::1%eth0\n"
				   "nameservers 192.0.2.55\n"
				   "nameserver\n"
				   "nameserver 127.0.0.53 # local\n"
				   "nameserver 192.0.2.56";
	struct pg_endpoint servers[3];
	char path[32], found[PG_ADDR_TEXT];
	struct pg_error err;
	size_t server_count = 0;

	write_conf(path, text);
	cr_assert_eq(pg_names_host_servers(path, servers, 3, &server_count, &err), 0, "%s",
		     err.text);
	unlink(path);
	cr_assert_eq(server_count, 3);
	cr_expect_str_eq(pg_endpoint_format(&servers[0], found), "192.0.2.53:53");
	cr_expect_str_eq(pg_endpoint_format(&servers[1], found), "[2001:db8::53]:53");
	cr_expect_str_eq(pg_endpoint_format(&servers[2], found), "127.0.0.53:53");
}

Test(names_servers, host_without_servers)
{
	struct pg_endpoint servers[3];
	size_t server_count = 7;
	struct pg_error err;
	char path[32];

	write_conf(path, "options ndots:2\n");
	cr_expect_eq(pg_names_host_servers(path, servers, 3, &server_count, &err), -ENOENT);
	unlink(path);
	cr_expect_eq(pg_names_host_servers(path, servers, 3, &server_count, &err), -ENOENT);
	cr_expect_eq(server_count, 7);
}
