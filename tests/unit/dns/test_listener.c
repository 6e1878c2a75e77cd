/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/listener.h"

#include <criterion/criterion.h>
#include <sys/resource.h>

#include "listener_lab.h"

static struct lab lab;

static int descriptor_count(void)
{
	pg_autoclosedir DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	cr_assert(dir);
	while (readdir(dir))
		count++;
	return count;
}

Test(listener, round_trip)
{
	lab_open(&lab);
	for (int ipv6 = 0; ipv6 <= pg_listener_has_ipv6(lab.listener); ipv6++) {
		int fd = lab_client(&lab, SOCK_DGRAM, ipv6);
		struct sockaddr_storage own;
		socklen_t size = sizeof(own);

		lab_expect_echo(&lab, fd, "a query");
		cr_expect(!lab.last.tcp);
		cr_expect_eq(lab.last.peer.connection, 0);
		cr_assert_eq(getsockname(fd, (struct sockaddr *)&own, &size), 0);
		cr_assert_eq(lab.last.peer.addr_size, size);
		cr_expect(memcmp(&lab.last.peer.addr, &own, size) == 0);
		close(fd);
	}
	cr_expect_eq(lab.prepared, pg_listener_has_ipv6(lab.listener) ? 4 : 2);
	pg_listener_close(lab.listener);
}

Test(listener, nothing_is_left)
{
	int count, fd;

	lab_isolate();
	count = descriptor_count();
	lab_open(&lab);
	fd = lab_connect(&lab);
	lab_serve(&lab);
	close(fd);
	pg_listener_close(lab.listener);
	cr_expect_eq(descriptor_count(), count);
	pg_listener_close(NULL);
}

/* A query that BPF handed over did not come through the socket. */
Test(listener, reply_to_whoever)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
			   from;
	socklen_t size = sizeof(addr);
	struct pg_peer peer = {.addr_size = sizeof(addr)};
	int fd = -1;
	char reply[8];

	lab_open(&lab);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&addr, &size), 0);
	peer.addr.in4 = addr;
	pg_listener_send(lab.listener, &peer, (const uint8_t *)"reply", 5);
	cr_assert_eq(recvfrom(fd, reply, sizeof(reply), MSG_DONTWAIT, (struct sockaddr *)&from,
			      &size),
		     5);
	cr_expect_eq(from.sin_addr.s_addr, pg_addr_to_v4(&lab.options.endpoints[0].addr));
	cr_expect_eq(from.sin_port, lab.options.endpoints[0].port);
	close(fd);
	pg_listener_close(lab.listener);
}

/* The ICMP errors for the replies to clients that have gone are not errors of the listener. */
Test(listener, clients_that_have_gone)
{
	struct pg_error err = {};
	int fd;

	lab_open(&lab);
	for (int i = 0; i < 100; i++) {
		for (int ipv6 = 0; ipv6 <= pg_listener_has_ipv6(lab.listener); ipv6++) {
			fd = lab_client(&lab, SOCK_DGRAM, ipv6);
			cr_assert_eq(send(fd, "gone", 4, 0), 4);
			close(fd);
		}
	}
	lab_serve(&lab);
	cr_expect_geq(lab.queries, 100);
	cr_expect_eq(pg_listener_process(lab.listener, &err), 0, "%s", err.text);
	fd = lab_client(&lab, SOCK_DGRAM, false);
	lab_expect_echo(&lab, fd, "still there");
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener, long_datagrams_are_cut)
{
	static const size_t sizes[] =
		{0, 1, 512, PG_LISTENER_MESSAGE_MAX, PG_LISTENER_MESSAGE_MAX + 1, 60000};
	static uint8_t data[60000];
	int fd;

	lab_open(&lab);
	lab.hold = true;
	fd = lab_client(&lab, SOCK_DGRAM, false);
	for (unsigned int i = 0; i < PG_ARRAY_SIZE(sizes); i++) {
		size_t cut =
			sizes[i] < PG_LISTENER_MESSAGE_MAX ? sizes[i] : PG_LISTENER_MESSAGE_MAX;

		cr_assert_eq(send(fd, data, sizes[i], 0), (ssize_t)sizes[i]);
		lab_serve(&lab);
		cr_assert_eq(lab.held_count, i + 1);
		cr_expect_eq(lab.last.size, cut);
	}
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener, a_call_handles_a_batch)
{
	struct pg_error err = {};
	int fd;

	lab_open(&lab);
	fd = lab_client(&lab, SOCK_DGRAM, false);
	for (int i = 0; i < 200; i++)
		cr_assert_eq(send(fd, "query", 5, 0), 5);
	for (unsigned int calls = 1; lab.queries < 200; calls++) {
		cr_assert_eq(pg_wait_readable(pg_listener_fd(lab.listener), -1, 1000), 1);
		cr_assert_eq(pg_listener_process(lab.listener, &err), 0);
		cr_expect_eq(lab.queries, calls * 64 < 200 ? calls * 64 : 200);
	}
	cr_expect_eq(pg_wait_readable(pg_listener_fd(lab.listener), -1, 0), 0);
	close(fd);
	pg_listener_close(lab.listener);
}

Test(listener, occupied_endpoints)
{
	static const int types[] = {SOCK_DGRAM, SOCK_STREAM};
	int count, fd;

	lab_need_isolation();
	lab_open(&lab); /* sets lo up */
	pg_listener_close(lab.listener);
	count = descriptor_count();
	for (unsigned int i = 0; i < PG_ARRAY_SIZE(types); i++) {
		struct pg_error err = {};

		fd = lab_occupy(&lab.options.endpoints[0], types[i]);
		cr_expect_eq(pg_listener_open(&lab.options, false, &lab.listener, &err),
			     -EADDRINUSE);
		cr_expect(strstr(err.text, "127.77.") && strstr(err.text, "bind") &&
				  strstr(err.text, types[i] == SOCK_DGRAM ? "UDP" : "TCP"),
			  "%s", err.text);
		close(fd);
		fd = lab_occupy(&lab.options.endpoints[1], types[i]);
		cr_expect_eq(pg_listener_open(&lab.options, true, &lab.listener, &err),
			     -EADDRINUSE);
		cr_expect(strstr(err.text, "[::1]:"), "%s", err.text);
		cr_assert_eq(pg_listener_open(&lab.options, false, &lab.listener, &err), 0);
		cr_expect(!pg_listener_has_ipv6(lab.listener));
		pg_listener_close(lab.listener);
		close(fd);
		cr_assert_eq(pg_listener_open(&lab.options, true, &lab.listener, &err), 0);
		cr_expect(pg_listener_has_ipv6(lab.listener));
		pg_listener_close(lab.listener);
	}
	cr_expect_eq(descriptor_count(), count);
}

Test(listener, without_descriptors)
{
	struct rlimit limit;
	bool opened = false;
	int count;

	lab_open(&lab);
	pg_listener_close(lab.listener);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	count = descriptor_count();
	for (rlim_t room = 3; !opened; room++) {
		const struct rlimit tight = {room, limit.rlim_max};
		struct pg_error err = {};
		int r;

		cr_assert_lt(room, 1000);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
		r = pg_listener_open(&lab.options, false, &lab.listener, &err);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		opened = r == 0;
		if (!opened) {
			cr_expect_eq(r, -EMFILE, "%d: %s", r, err.text);
			cr_expect(strstr(err.text, "DNS listener"), "%s", err.text);
			cr_expect_eq(descriptor_count(), count);
		}
	}
	pg_listener_close(lab.listener);
}

static int refuse(void *userdata, int fd, struct pg_error *err)
{
	return pg_fail(err, -ENOSPC, "no storage");
}

Test(listener, preparing_may_fail)
{
	struct pg_error err = {};
	int count;

	lab_isolate();
	lab_setup(&lab);
	lab.options.prepare = refuse;
	count = descriptor_count();
	cr_expect_eq(pg_listener_open(&lab.options, false, &lab.listener, &err), -ENOSPC);
	cr_expect(strstr(err.text, "(TCP): no storage"), "%s", err.text);
	cr_expect_eq(descriptor_count(), count);
}
