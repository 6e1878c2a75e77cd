/* SPDX-License-Identifier: Apache-2.0 */
/* pg_sockets_close() shows the judge exactly the right sockets, and closes those it picks. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "kernel/probe.h"
#include "kernel/sockets.h"
#include "test_pairs.h"

#define SHOWN_MAX 64

/* One pass and what the judge saw in it. */
struct pass {
	struct world *world;
	struct pg_socket shown[SHOWN_MAX];
	size_t shown_count;
	size_t closed;
	uint16_t close_port; /* host order; sockets with it as remote port are to be closed */
	bool close_all;
};

static bool is_member(void *userdata, uint64_t cgroup_id)
{
	struct pass *pass = userdata;

	return cgroup_id == pass->world->cgroup_id[PLACE_OWN] ||
	       cgroup_id == pass->world->cgroup_id[PLACE_DEEP];
}

static bool judge(void *userdata, const struct pg_socket *socket)
{
	struct pass *pass = userdata;

	CHECK(pass->shown_count < SHOWN_MAX);
	pass->shown[pass->shown_count++] = *socket;
	return pass->close_all || ntohs(socket->remote.port) == pass->close_port;
}

static ino_t current_netns(void)
{
	struct stat status;

	CHECK(stat("/proc/thread-self/ns/net", &status) == 0);
	return status.st_ino;
}

/* Runs a pass from outside the namespace. */
static void run_pass(struct pass *pass)
{
	const struct pg_sockets_query query = {
		.netns_fd = pass->world->netns,
		.mark_map_fd = pass->world->mark_map,
		.member = is_member,
		.judge = judge,
		.userdata = pass,
	};
	struct pg_error err = {0};
	ino_t home;
	int r;

	CHECK(setns(pass->world->home_netns, CLONE_NEWNET) == 0);
	home = current_netns();
	pass->shown_count = 0;
	r = pg_sockets_close(&query, &pass->closed, &err);
	if (r < 0)
		fprintf(stderr, "pg_sockets_close: %s\n", err.text);
	CHECK(r == 0);
	CHECK(current_netns() == home);
	CHECK(setns(pass->world->netns, CLONE_NEWNET) == 0);
}

/* The only socket shown with this remote port, or NULL. */
static const struct pg_socket *shown(const struct pass *pass, int protocol, uint16_t remote_port)
{
	const struct pg_socket *found = NULL;

	for (size_t i = 0; i < pass->shown_count; i++) {
		if (pass->shown[i].protocol != protocol ||
		    ntohs(pass->shown[i].remote.port) != remote_port)
			continue;
		CHECK(!found);
		found = &pass->shown[i];
	}
	return found;
}

static void check_addr(const struct pg_addr *addr, const char *text)
{
	char buffer[PG_ADDR_TEXT];

	pg_addr_format(addr, buffer);
	if (strcmp(buffer, text) != 0)
		fprintf(stderr, "address is %s, expected %s\n", buffer, text);
	CHECK(strcmp(buffer, text) == 0);
}

/* Nothing of anyone else's is shown, and nothing is closed that the judge did not pick. */
static void test_others_untouched(struct world *world)
{
	struct pair pair = tcp_pair(PLACE_OTHER, "127.0.0.1", PLACE_OTHER, "127.0.0.1", 0);
	struct pass pass = {.world = world, .close_all = true};
	int listener = bound(PLACE_OWN, SOCK_STREAM, 0, "127.0.0.1", 0);
	int unconnected = bound(PLACE_OWN, SOCK_DGRAM, 0, "127.0.0.1", 0);

	run_pass(&pass);
	CHECK(pass.shown_count == 0 && pass.closed == 0);
	check_works(pair.client, pair.server);
	CHECK(pending_error(unconnected) == 0 && pending_error(listener) == 0);
	close(listener);
	close(unconnected);
	drop(&pair);
}

static void test_tcp(struct world *world, const char *client, const char *seen, const char *server)
{
	struct pair doomed = tcp_pair(PLACE_DEEP, client, PLACE_OTHER, server, 0);
	struct pair kept = tcp_pair(PLACE_OWN, client, PLACE_OWN, server, 0);
	struct pass pass = {.world = world, .close_port = doomed.server_port};
	const struct pg_socket *socket;

	run_pass(&pass);
	CHECK(pass.shown_count == 3 && pass.closed == 1);
	socket = shown(&pass, IPPROTO_TCP, doomed.server_port);
	CHECK(socket && socket->state == TCP_ESTABLISHED);
	CHECK(socket->cgroup_id == world->cgroup_id[PLACE_DEEP]);
	CHECK(socket->peer_found && socket->peer_cgroup_id == world->cgroup_id[PLACE_OTHER]);
	CHECK(ntohs(socket->local.port) == doomed.client_port);
	CHECK(socket->mark.kind == PG_MARK_NONE);
	check_addr(&socket->remote.addr, seen);
	socket = shown(&pass, IPPROTO_TCP, kept.server_port);
	CHECK(socket && socket->peer_found);
	CHECK(socket->peer_cgroup_id == world->cgroup_id[PLACE_OWN]);
	socket = shown(&pass, IPPROTO_TCP, kept.client_port);
	CHECK(socket && socket->cgroup_id == world->cgroup_id[PLACE_OWN]);
	check_addr(&socket->local.addr, seen);

	CHECK(pending_error(doomed.client) == ECONNABORTED);
	CHECK(send(doomed.client, "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
	check_works(kept.client, kept.server);
	check_works(kept.server, kept.client);
	drop(&doomed);
	drop(&kept);
}

static void test_tcp_v4(struct world *world)
{
	test_tcp(world, "127.0.0.1", "127.0.0.1", "127.0.0.1");
	test_tcp(world, LOCAL4, LOCAL4, "0.0.0.0");
}

static void test_tcp_v6(struct world *world)
{
	test_tcp(world, "::1", "::1", "::1");
	test_tcp(world, LOCAL6, LOCAL6, "::");
}

static void test_tcp_mapped(struct world *world)
{
	test_tcp(world, "::ffff:127.0.0.1", "127.0.0.1", "127.0.0.1");
	test_tcp(world, "::ffff:" LOCAL4, LOCAL4, "::");
	test_tcp(world, LOCAL4, LOCAL4, "::");
}

static void test_udp(struct world *world, const char *client, const char *seen, const char *server)
{
	int sink = bound(PLACE_OTHER, SOCK_DGRAM, 0, server, 0);
	int kept_sink = bound(PLACE_OWN, SOCK_DGRAM, 0, server, 0);
	int doomed = connected(PLACE_OWN, SOCK_DGRAM, 0, client, port_of(sink));
	int kept = connected(PLACE_DEEP, SOCK_DGRAM, 0, client, port_of(kept_sink));
	struct pass pass = {.world = world, .close_port = port_of(sink)};
	const struct pg_socket *socket;

	check_works(doomed, sink);
	run_pass(&pass);
	CHECK(pass.shown_count == 2 && pass.closed == 1);
	socket = shown(&pass, IPPROTO_UDP, port_of(sink));
	CHECK(socket && socket->state == TCP_ESTABLISHED);
	check_addr(&socket->remote.addr, seen);
	/* The server is not connected: it is found by what it is bound to. */
	CHECK(socket->peer_found && socket->peer_cgroup_id == world->cgroup_id[PLACE_OTHER]);
	socket = shown(&pass, IPPROTO_UDP, port_of(kept_sink));
	CHECK(socket && socket->peer_found);
	CHECK(socket->peer_cgroup_id == world->cgroup_id[PLACE_OWN]);
	CHECK(pending_error(doomed) == ECONNABORTED);
	check_works(kept, kept_sink);
	close(sink);
	close(kept_sink);
	close(doomed);
	close(kept);
}

static void test_udp_all(struct world *world)
{
	test_udp(world, "127.0.0.1", "127.0.0.1", "0.0.0.0");
	test_udp(world, "::1", "::1", "::");
	test_udp(world, "::ffff:127.0.0.1", "127.0.0.1", "::");
	test_udp(world, LOCAL4, LOCAL4, LOCAL4);
	test_udp(world, LOCAL6, LOCAL6, "::");
}

/* A wildcard server here is no peer of who talks to an address elsewhere. */
static void test_remote_is_elsewhere(struct world *world)
{
	int server = bound(PLACE_OTHER, SOCK_DGRAM, 0, "::", 0);
	int client = connected(PLACE_OWN, SOCK_DGRAM, 0, SILENT4, port_of(server));
	struct pass pass = {.world = world};

	run_pass(&pass);
	CHECK(pass.shown_count == 1 && !pass.shown[0].peer_found);
	close(server);
	close(client);
}

static void test_same_tuple(struct world *world)
{
	int sink = bound(PLACE_OTHER, SOCK_DGRAM, 0, "127.0.0.1", 0);
	struct pass pass = {.world = world, .close_all = true};
	int clients[5];

	clients[0] = bound(PLACE_OWN, SOCK_DGRAM, 0, "127.0.0.1", 0);
	for (int i = 1; i < 5; i++)
		clients[i] = bound(PLACE_OWN, SOCK_DGRAM, 0, "127.0.0.1", port_of(clients[0]));
	for (int i = 0; i < 5; i++)
		connect_to(clients[i], "127.0.0.1", port_of(sink));
	run_pass(&pass);
	CHECK(pass.shown_count == 5 && pass.closed == 5);
	for (int i = 0; i < 5; i++) {
		CHECK(pending_error(clients[i]) == ECONNABORTED);
		close(clients[i]);
	}
	close(sink);
}

static void test_connecting(struct world *world)
{
	struct pass pass = {.world = world, .close_all = true};
	struct sockaddr_storage name;
	socklen_t size = endpoint(&name, SILENT4, 9);
	int fd;

	world_enter(PLACE_OWN);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	CHECK(connect(fd, (void *)&name, size) < 0 && errno == EINPROGRESS);
	run_pass(&pass);
	CHECK(pass.shown_count == 1 && pass.closed == 1);
	CHECK(pass.shown[0].state == TCP_SYN_SENT && !pass.shown[0].peer_found);
	CHECK(pending_error(fd) == ECONNABORTED);
	close(fd);
}

static void test_mark(struct world *world)
{
	struct pair pair = tcp_pair(PLACE_OTHER, "127.0.0.1", PLACE_OWN, "127.0.0.1", 0);
	struct pass pass = {.world = world};
	const struct pg_mark mark = {
		.kind = PG_MARK_ACCEPTED,
		.remote_port = htons(pair.client_port),
		.owner = 0x1122334455667788,
		.remote = pg_addr_from_v4(htonl(INADDR_LOOPBACK)),
	};

	CHECK(bpf_map_update_elem(world->mark_map, &pair.server, &mark, BPF_ANY) == 0);
	run_pass(&pass);
	CHECK(pass.shown_count == 1 && pass.closed == 0);
	CHECK(memcmp(&pass.shown[0].mark, &mark, sizeof(mark)) == 0);
	check_works(pair.client, pair.server);
	drop(&pair);
}

/* What an application has closed is of no account once its data is through. */
static void test_time_wait(struct world *world)
{
	struct pair pair = tcp_pair(PLACE_OWN, "127.0.0.1", PLACE_OTHER, "127.0.0.1", 0);
	struct pass pass = {.world = world, .close_all = true};
	char byte;

	close(pair.client);
	CHECK(recv(pair.server, &byte, 1, 0) == 0);
	close(pair.server);
	run_pass(&pass);
	CHECK(pass.shown_count == 0 && pass.closed == 0);
}

/* Data that was left in the queue of a closed socket must not leave in a later phase. */
static void test_orphan(struct world *world)
{
	struct pair pair = tcp_pair(PLACE_OWN, "127.0.0.1", PLACE_OTHER, "127.0.0.1", 0);
	const struct timeval patience = {.tv_usec = 500 * 1000};
	struct pass pass = {.world = world, .close_all = true};
	size_t sent = 0, received = 0;
	static char block[65536];
	ssize_t got;

	while ((got = send(pair.client, block, sizeof(block), MSG_DONTWAIT)) > 0)
		sent += (size_t)got;
	close(pair.client);
	run_pass(&pass);
	CHECK(pass.shown_count == 1 && pass.closed == 0);
	CHECK(pass.shown[0].state == TCP_FIN_WAIT1);
	CHECK(setsockopt(pair.server, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
	while ((got = recv(pair.server, block, sizeof(block), 0)) > 0)
		received += (size_t)got;
	/* Cut; a kernel that only empties the queue says nothing at all. Never an orderly end. */
	CHECK(got < 0 && (errno == ECONNRESET || errno == EAGAIN));
	CHECK(received < sent);
	close(pair.server);
}

static int read_close_timeout(void)
{
	FILE *file = fopen("/proc/sys/net/mptcp/close_timeout", "re");
	int seconds = -1;

	if (file) {
		CHECK(fscanf(file, "%d", &seconds) == 1);
		fclose(file);
	}
	return seconds;
}

static void test_mptcp(struct world *world)
{
	int probe = bound(PLACE_OTHER, SOCK_STREAM, IPPROTO_MPTCP, "127.0.0.1", 0);
	struct pass pass = {.world = world, .close_all = true};
	const int timeout = read_close_timeout();
	struct pollfd end = {.events = POLLIN};
	struct pair pair;
	char byte;

	if (probe < 0 || timeout < 0) {
		puts("mptcp is not tested: no MPTCP here, or no net.mptcp.close_timeout");
		if (probe >= 0)
			close(probe);
		return;
	}
	close(probe);
	pair = tcp_pair(PLACE_OWN, "127.0.0.1", PLACE_OTHER, "127.0.0.1", IPPROTO_MPTCP);
	check_works(pair.client, pair.server);
	check_works(pair.server, pair.client);
	run_pass(&pass);
	CHECK(pass.shown_count == 1 && pass.closed == 1);
	end.fd = pair.client;
	CHECK(poll(&end, 1, 100) == 1);
	CHECK(recv(pair.client, &byte, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
	CHECK(read_close_timeout() == timeout);
	drop(&pair);
}

/* Anybody may lock the file; that must not hold up the closing of what is forbidden. */
static void test_mptcp_locked(struct world *world)
{
	int probe = bound(PLACE_OTHER, SOCK_STREAM, IPPROTO_MPTCP, "127.0.0.1", 0);
	const int lock = open("/proc/sys/net/mptcp/close_timeout", O_RDONLY | O_CLOEXEC);
	struct pass pass = {.world = world, .close_all = true};
	struct pair pair;

	if (probe >= 0 && lock >= 0) {
		CHECK(flock(lock, LOCK_EX) == 0);
		pair = tcp_pair(PLACE_OWN, "127.0.0.1", PLACE_OTHER, "127.0.0.1", IPPROTO_MPTCP);
		check_works(pair.client, pair.server);
		run_pass(&pass);
		CHECK(pass.closed == 1);
		drop(&pair);
	}
	if (probe >= 0)
		close(probe);
	if (lock >= 0)
		close(lock);
}

/* In a child, which may give up its capabilities. */
static void test_errors(struct world *world)
{
	struct pair pair = tcp_pair(PLACE_OWN, "127.0.0.1", PLACE_OTHER, "127.0.0.1", 0);
	struct pass pass = {.world = world, .close_all = true};
	struct pg_sockets_query query = {
		.netns_fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
		.mark_map_fd = world->mark_map,
		.member = is_member,
		.judge = judge,
		.userdata = &pass,
	};
	const ino_t here = current_netns();
	struct pg_error err = {0};
	pid_t child;
	int status;

	CHECK(pg_sockets_close(&query, &pass.closed, &err) == -EINVAL);
	CHECK(strstr(err.text, "network namespace") && current_netns() == here);
	close(query.netns_fd);
	query.netns_fd = -1;
	query.until = 1;
	CHECK(pg_sockets_close(&query, &pass.closed, &err) == -ETIMEDOUT && !pass.closed);
	query.until = 0;
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		cap_t none = cap_init();

		CHECK(none && cap_set_proc(none) == 0);
		CHECK(pg_sockets_close(&query, &pass.closed, &err) == -EPERM);
		CHECK(strstr(err.text, "CAP_NET_ADMIN"));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	check_works(pair.client, pair.server);
	drop(&pair);
}

/* Others' sockets cost little: one dump, no quadratic search. */
static void test_many(struct world *world)
{
	enum {
		COUNT = 400
	};
	int sink = bound(PLACE_OTHER, SOCK_DGRAM, 0, "127.0.0.1", 0);
	struct pass pass = {.world = world, .close_all = true};
	int fds[COUNT], own;
	uint64_t begin;

	for (int i = 0; i < COUNT; i++)
		fds[i] = connected(PLACE_OTHER, SOCK_DGRAM, 0, "127.0.0.1", port_of(sink));
	own = connected(PLACE_OWN, SOCK_DGRAM, 0, "127.0.0.1", port_of(sink));
	begin = pg_monotonic_ns();
	run_pass(&pass);
	printf("a pass over %d sockets: %llu us\n", COUNT,
	       (unsigned long long)(pg_monotonic_ns() - begin) / 1000);
	CHECK(pass.shown_count == 1 && pass.closed == 1);
	CHECK(pending_error(own) == ECONNABORTED);
	for (int i = 0; i < COUNT; i++) {
		CHECK(pending_error(fds[i]) == 0);
		close(fds[i]);
	}
	close(own);
	close(sink);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*run)(struct world *world);
	} tests[] = {
		{"others_untouched", test_others_untouched},
		{"tcp_v4", test_tcp_v4},
		{"tcp_v6", test_tcp_v6},
		{"tcp_mapped", test_tcp_mapped},
		{"udp", test_udp_all},
		{"remote_is_elsewhere", test_remote_is_elsewhere},
		{"same_tuple", test_same_tuple},
		{"connecting", test_connecting},
		{"mark", test_mark},
		{"time_wait", test_time_wait},
		{"mptcp", test_mptcp},
		{"mptcp locked", test_mptcp_locked},
		{"errors", test_errors},
		{"many", test_many},
		/* Last, since some kernels keep the socket. */
		{"orphan", test_orphan},
	};
	char *cgroup2 = NULL;
	struct pg_error err = {0};
	struct world world;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (pg_cgroup2_mount(&cgroup2, &err) < 0) {
		printf("skipped: %s\n", err.text);
		return 77;
	}
	world_make(&world, cgroup2);
	free(cgroup2);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		tests[i].run(&world);
		printf("%s: ok\n", tests[i].name);
	}
	return 0;
}
