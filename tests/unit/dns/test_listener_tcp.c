/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/listener.h"

#include <criterion/criterion.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "listener_lab.h"

static struct lab lab;

static unsigned int connection_count(void)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < PG_LISTENER_CONNECTIONS_MAX; i++)
		count += lab.listener->connections[i] ? 1 : 0;
	return count;
}

/* Clients and the listener's end of each have a descriptor in this process. */
static void allow_descriptors(rlim_t count)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < count)
		cr_skip_test("needs %llu descriptors", (unsigned long long)count);
	limit.rlim_cur = count;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Test(listener_tcp, round_trip)
{
	lab_open(&lab);
	for (int ipv6 = 0; ipv6 <= pg_listener_has_ipv6(lab.listener); ipv6++) {
		int fd = lab_client(&lab, SOCK_STREAM, ipv6);

		for (uint16_t size = 4; size < 2000; size = (uint16_t)(size * 3)) {
			size_t got;

			lab_ask(fd, size, size);
			lab_serve(&lab);
			cr_expect_eq(lab_read(fd, &got), size);
			cr_expect_eq(got, size);
			cr_expect(lab.last.tcp);
			cr_expect_gt(lab.last.peer.connection, 0);
			cr_expect_eq(lab.last.peer.addr.any.sa_family, ipv6 ? AF_INET6 : AF_INET);
		}
		close(fd);
		lab_serve(&lab);
		cr_expect_eq(connection_count(), 0);
	}
	pg_listener_close(lab.listener);
}

/* Otherwise the second of two replies waits for the first to be acknowledged. */
Test(listener_tcp, replies_go_at_once)
{
	socklen_t size = sizeof(int);
	int fd, on = 0;

	lab_open(&lab);
	fd = lab_connect(&lab);
	lab_serve(&lab);
	cr_assert_eq(connection_count(), 1);
	cr_assert_eq(getsockopt(lab.listener->connections[0]->fd, IPPROTO_TCP, TCP_NODELAY, &on,
				&size),
		     0);
	cr_expect_eq(on, 1);
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, many_queries_at_once)
{
	int fd;

	lab_open(&lab);
	fd = lab_connect(&lab);
	for (uint32_t i = 0; i < 500; i++)
		lab_ask(fd, i, 40);
	lab_serve(&lab);
	for (uint32_t i = 0; i < 500; i++)
		cr_assert_eq(lab_read(fd, NULL), i);
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, a_call_handles_a_batch_of_all)
{
	struct pg_error err = {};
	int fds[20];

	lab_open(&lab);
	for (int c = 0; c < 20; c++)
		fds[c] = lab_connect(&lab);
	lab_serve(&lab);
	for (int c = 0; c < 20; c++) {
		for (uint32_t i = 0; i < 30; i++)
			lab_ask(fds[c], i, 40);
	}
	for (unsigned int before = 0; lab.queries < 600; before = lab.queries) {
		cr_assert_eq(pg_wait_readable(pg_listener_fd(lab.listener), -1, 1000), 1);
		cr_assert_eq(pg_listener_process(lab.listener, &err), 0);
		cr_expect_leq(lab.queries - before, PG_LISTENER_BATCH);
	}
	for (int c = 0; c < 20; c++) {
		for (uint32_t i = 0; i < 30; i++)
			cr_assert_eq(lab_read(fds[c], NULL), i);
		close(fds[c]);
	}
	pg_listener_close(lab.listener);
}

Test(listener_tcp, answers_in_any_order)
{
	int fd;

	lab_open(&lab);
	lab.hold = true;
	fd = lab_connect(&lab);
	for (uint32_t i = 0; i < 5; i++)
		lab_ask(fd, i, 12);
	lab_serve(&lab);
	cr_assert_eq(lab.held_count, 5);
	for (uint32_t i = 5; i > 0; i--)
		lab_answer(&lab, i - 1);
	for (uint32_t i = 5; i > 0; i--)
		cr_expect_eq(lab_read(fd, NULL), i - 1);
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, octet_by_octet)
{
	const uint8_t frames[] = {0, 5, 7, 0, 0, 0, 1, 0, 4, 8, 0, 0, 0};
	int fd;

	lab_open(&lab);
	fd = lab_connect(&lab);
	for (size_t i = 0; i < sizeof(frames); i++) {
		cr_assert_eq(send(fd, &frames[i], 1, 0), 1);
		lab_serve_for(&lab, 2);
	}
	lab_serve(&lab);
	cr_expect_eq(lab_read(fd, NULL), 7);
	cr_expect_eq(lab_read(fd, NULL), 8);
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, a_message_that_is_too_long_is_cut)
{
	static const uint16_t sizes[] = {PG_LISTENER_MESSAGE_MAX, PG_LISTENER_MESSAGE_MAX + 1, 9000,
					 UINT16_MAX};
	int fd;

	lab_open(&lab);
	fd = lab_connect(&lab);
	for (unsigned int i = 0; i < PG_ARRAY_SIZE(sizes); i++) {
		size_t size;

		lab_ask(fd, i, sizes[i]);
		lab_ask(fd, 100 + i, 30);
		lab_serve(&lab);
		cr_expect_eq(lab_read(fd, &size), i);
		cr_expect_eq(size, PG_LISTENER_MESSAGE_MAX);
		cr_expect_eq(lab_read(fd, &size), 100 + i);
		cr_expect_eq(size, 30);
	}
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, an_empty_message_ends_the_connection)
{
	int fd;

	lab_open(&lab);
	fd = lab_connect(&lab);
	lab_ask(fd, 1, 12);
	cr_assert_eq(send(fd, "\0\0", 2, 0), 2);
	lab_serve(&lab);
	cr_expect_eq(lab_read(fd, NULL), 1);
	cr_expect_eq(lab_read(fd, NULL), -1);
	cr_expect_eq(connection_count(), 0);
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, what_is_no_query_ends_the_connection)
{
	int fd;

	lab_open(&lab);
	lab.hold = true;
	fd = lab_connect(&lab);
	lab_ask(fd, 1, 12);
	lab_serve(&lab);
	cr_assert_eq(lab.held_count, 1);
	pg_listener_send(lab.listener, &lab.held[0].peer, NULL, 0);
	lab_serve(&lab);
	cr_expect_eq(lab_read(fd, NULL), -1);
	cr_expect_eq(connection_count(), 0);
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, no_more_wait_than_the_limit)
{
	int fd;

	lab_open(&lab);
	lab.hold = true;
	fd = lab_connect(&lab);
	for (uint32_t i = 0; i < 100; i++)
		lab_ask(fd, i, 12);
	lab_serve(&lab);
	cr_expect_eq(lab.held_count, PG_LISTENER_PIPELINE_MAX);
	for (uint32_t i = 0; i < 10; i++)
		lab_answer(&lab, i);
	lab_serve(&lab);
	cr_expect_eq(lab.held_count, PG_LISTENER_PIPELINE_MAX + 10);
	for (uint32_t i = 10; i < 100; i++) {
		lab_answer(&lab, i);
		lab_serve_for(&lab, 0);
	}
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_eq(lab_read(fd, NULL), i);
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, who_does_not_read_is_closed)
{
	int reader, other;

	lab_open(&lab);
	lab.hold = true;
	reader = lab_connect(&lab);
	other = lab_connect(&lab);
	for (uint32_t i = 0; i < PG_LISTENER_PIPELINE_MAX; i++)
		lab_ask(reader, i, 12);
	lab_serve(&lab);
	for (uint32_t i = 0; i < PG_LISTENER_PIPELINE_MAX; i++) {
		static uint8_t reply[60000];

		cr_expect_leq(lab.listener->connections[0]->output_room,
			      PG_LISTENER_OUTPUT_MAX + 4096);
		pg_listener_send(lab.listener, &lab.held[i].peer, reply, sizeof(reply));
	}
	lab.hold = false;
	lab_ask(other, 1, 12);
	lab_serve(&lab);
	cr_expect_eq(lab_read(other, NULL), 1);
	cr_expect_eq(connection_count(), 1);
	while (lab_read(reader, NULL) >= 0)
		continue;
	close(reader);
	close(other);
	pg_listener_close(lab.listener);
}

/* Who asks faster than it reads, but does read, gets everything. */
Test(listener_tcp, who_reads_slowly_is_waited_for)
{
	uint32_t asked = 0;
	int fd;

	lab_open(&lab);
	lab.reply_size = 60000;
	fd = lab_connect(&lab);
	for (; asked < 40; asked++)
		lab_ask(fd, asked, 100);
	lab_serve(&lab);
	cr_expect_lt(lab.queries, 40);
	for (uint32_t i = 0; i < asked; i++) {
		size_t size;

		cr_assert_eq(lab_read(fd, &size), i);
		cr_assert_eq(size, 60000);
		lab_serve_for(&lab, 5);
	}
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, half_closed_clients_get_their_answers)
{
	int fd;

	lab_open(&lab);
	lab.hold = true;
	fd = lab_connect(&lab);
	for (uint32_t i = 0; i < 20; i++)
		lab_ask(fd, i, 12);
	cr_assert_eq(send(fd, "\0\5part", 6, 0), 6);
	cr_assert_eq(shutdown(fd, SHUT_WR), 0);
	lab_serve(&lab);
	cr_assert_eq(lab.held_count, 20);
	/* Nothing to do is nothing to wake up for. */
	cr_expect_eq(pg_wait_readable(pg_listener_fd(lab.listener), -1, 0), 0);
	for (uint32_t i = 0; i < 20; i++)
		lab_answer(&lab, i);
	lab_serve(&lab);
	for (uint32_t i = 0; i < 20; i++)
		cr_expect_eq(lab_read(fd, NULL), i);
	cr_expect_eq(lab_read(fd, NULL), -1);
	cr_expect_eq(connection_count(), 0);
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, a_thousand_connections)
{
	static int fds[1000];
	unsigned int ended = 0;

	allow_descriptors(1200);
	lab_open(&lab);
	for (uint32_t i = 0; i < PG_ARRAY_SIZE(fds); i++) {
		fds[i] = lab_connect(&lab);
		lab_ask(fds[i], i, 20);
		lab_serve_until(&lab, i + 1);
		cr_assert_eq(lab_read(fds[i], NULL), i);
		cr_assert_leq(connection_count(), PG_LISTENER_CONNECTIONS_MAX);
	}
	for (uint32_t i = 0; i < PG_ARRAY_SIZE(fds); i++)
		ended += lab_has_ended(fds[i]);
	cr_expect_eq(ended, PG_ARRAY_SIZE(fds) - PG_LISTENER_CONNECTIONS_MAX);
	cr_expect(!lab_has_ended(fds[PG_ARRAY_SIZE(fds) - PG_LISTENER_CONNECTIONS_MAX]));
	pg_listener_close(lab.listener);
}

Test(listener_tcp, the_longest_idle_goes_first)
{
	int fds[PG_LISTENER_CONNECTIONS_MAX + 2];

	lab_open(&lab);
	lab.hold = true;
	/* The first waits for an answer, the second was idle for less time than the third. */
	for (uint32_t i = 0; i < PG_LISTENER_CONNECTIONS_MAX; i++) {
		fds[i] = lab_connect(&lab);
		if (i == 0)
			lab_ask(fds[i], i, 20);
		lab_serve_for(&lab, 1);
	}
	lab_ask(fds[1], 1, 20);
	lab_serve(&lab);
	lab_answer(&lab, 1);
	for (uint32_t i = 0; i < 2; i++) {
		fds[PG_LISTENER_CONNECTIONS_MAX + i] = lab_connect(&lab);
		lab_serve(&lab);
	}
	cr_expect(!lab_has_ended(fds[0]));
	cr_expect_eq(lab_read(fds[1], NULL), 1);
	cr_expect(!lab_has_ended(fds[1]));
	cr_expect(lab_has_ended(fds[2]));
	cr_expect(lab_has_ended(fds[3]));
	cr_expect(!lab_has_ended(fds[4]));
	lab_answer(&lab, 0);
	cr_expect_eq(lab_read(fds[0], NULL), 0);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, if_all_wait_the_oldest_goes)
{
	int fds[PG_LISTENER_CONNECTIONS_MAX + 1];

	lab_open(&lab);
	lab.hold = true;
	for (uint32_t i = 0; i <= PG_LISTENER_CONNECTIONS_MAX; i++) {
		fds[i] = lab_connect(&lab);
		lab_ask(fds[i], i, 20);
		lab_serve_until(&lab, i + 1);
	}
	cr_expect(lab_has_ended(fds[0]));
	/* The answer to the one that is gone does not go to the one in its place. */
	lab_answer(&lab, 0);
	lab_answer(&lab, PG_LISTENER_CONNECTIONS_MAX);
	cr_expect_eq(lab_read(fds[PG_LISTENER_CONNECTIONS_MAX], NULL), PG_LISTENER_CONNECTIONS_MAX);
	cr_expect(!lab_has_ended(fds[1]));
	pg_listener_close(lab.listener);
}

Test(listener_tcp, idle_connections_are_closed)
{
	uint64_t start = pg_monotonic_ns();
	int idle, busy;

	lab_open(&lab);
	lab.listener->idle_ns = 500 * PG_NSEC_PER_MSEC;
	idle = lab_connect(&lab);
	busy = lab_connect(&lab);
	for (uint32_t i = 0; i < 6; i++) {
		lab_ask(busy, i, 20);
		lab_serve_for(&lab, 120);
		cr_assert_eq(lab_read(busy, NULL), i);
	}
	cr_expect(lab_has_ended(idle));
	cr_expect(!lab_has_ended(busy));
	cr_expect_eq(connection_count(), 1);
	lab_serve_for(&lab, 800);
	cr_expect(lab_has_ended(busy));
	cr_expect_eq(connection_count(), 0);
	cr_expect_geq(pg_monotonic_ns() - start, 1000 * PG_NSEC_PER_MSEC);
	pg_listener_close(lab.listener);
}

/* How often there was something to do within a time. */
static unsigned int wake_ups(unsigned int ms)
{
	uint64_t end = pg_monotonic_ns() + ms * PG_NSEC_PER_MSEC;
	struct pg_error err = {};
	unsigned int count = 0;

	while (pg_monotonic_ns() < end) {
		if (pg_wait_readable(pg_listener_fd(lab.listener), -1, 10) <= 0)
			continue;
		count++;
		cr_assert_eq(pg_listener_process(lab.listener, &err), 0, "%s", err.text);
	}
	return count;
}

Test(listener_tcp, without_descriptors_connections_wait)
{
	struct rlimit limit;
	int first, second, next;

	lab_open(&lab);
	first = lab_connect(&lab);
	lab_serve(&lab);
	second = lab_connect(&lab);
	lab_ask(second, 2, 20);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)second, limit.rlim_max}), 0);
	/* Twice for each try: the timer, and the connection that waits. */
	cr_expect_leq(wake_ups(550), 14);
	cr_expect_eq(connection_count(), 1);
	cr_expect_eq(lab.queries, 0);
	/* One that is there already is served. */
	lab_ask(first, 1, 20);
	lab_serve(&lab);
	cr_expect_eq(lab_read(first, NULL), 1);
	/* As soon as one ends, and not only when the time is up, the next is tried. */
	close(first);
	lab_serve(&lab);
	cr_expect_eq(lab_read(second, NULL), 2);
	cr_expect_eq(connection_count(), 1);
	/* Or when the limit has been raised. */
	next = lab_connect(&lab);
	lab_ask(next, 3, 20);
	cr_expect_gt(wake_ups(150), 0);
	cr_expect_eq(lab.queries, 2);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	lab_serve_for(&lab, 2 * PG_LISTENER_ACCEPT_MS);
	cr_expect_eq(lab_read(next, NULL), 3);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, a_client_that_has_gone_takes_no_answer)
{
	const struct linger reset = {.l_onoff = 1};
	int fds[2];

	lab_open(&lab);
	lab.hold = true;
	for (uint32_t i = 0; i < 2; i++) {
		fds[i] = lab_connect(&lab);
		lab_ask(fds[i], i, 20);
		lab_serve(&lab);
	}
	close(fds[0]);
	cr_assert_eq(setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	close(fds[1]);
	lab_serve(&lab);
	/* The first might have closed only its sending side. */
	cr_expect_eq(connection_count(), 1);
	lab_answer(&lab, 0);
	lab_answer(&lab, 1);
	lab_serve(&lab);
	cr_expect_eq(connection_count(), 0);
	lab_answer(&lab, 0);
	pg_listener_close(lab.listener);
}

Test(listener_tcp, close_while_queries_wait)
{
	int fd;

	lab_open(&lab);
	lab.hold = true;
	fd = lab_connect(&lab);
	lab_ask(fd, 1, 20);
	lab_serve(&lab);
	cr_assert_eq(lab.held_count, 1);
	pg_listener_close(lab.listener);
	cr_expect_eq(lab_read(fd, NULL), -1);
	/* And the endpoint can be had again at once. */
	lab.held_count = 0;
	cr_expect_eq(pg_listener_open(&lab.options, false, &lab.listener, NULL), 0);
	pg_listener_close(lab.listener);
}
