/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open connections and the switch: streams SERVER_NAMESPACE ALLOWED DENIED TRIES
 *
 * Races: a worker in the Environment connects to DENIED over and over, so that the switch from
 * public to no-network meets a connect in any state; the connection that is open after it must end
 * with an error within LIMIT_NS of the switch's return. Of one that was open before the server must
 * learn that it has ended; of one that was opened meanwhile it hears nothing any more. Where data
 * is on its way a reset of another CPU may overtake it; a server does not believe that one (RFC
 * 5961, section 3.2), and asks when the phase is another already: that has to stay rare. Then a
 * stream to ALLOWED passes through switches between phases that all allow it, unharmed.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"

#include "support.h"

#define PORT	     7200
#define LIMIT_NS     (100 * PG_NSEC_PER_MSEC)
#define HANG_MS	     5000
#define TOLD_MS	     1000
#define FDS_MAX	     4096
#define STREAM_BYTES (10UL << 20)
#define STREAM_CHUNK (64UL << 10)

#define POLICY \
	"{\"network_policy\":\"public\",\"run_network_policy\":\"no-network\"," \
	"\"verifier_network_policy\":{\"network_mode\":\"allowlist\",\"allowed_hosts\":[\"%s\"]}}"

/* What the worker was in when it ended. */
enum stage {
	STAGE_READY, /* not an end: it has connected a few times */
	STAGE_CONNECT,
	STAGE_RECEIVE,
	STAGE_SEND,
	STAGE_COUNT,
};
static const char *const stage_names[] = {"ready", "connect", "receive", "send"};

struct outcome {
	uint32_t stage;
	int error;
	uint64_t began_ns; /* the last call of the connection */
	uint64_t ended_ns;
};

struct shared {
	atomic_int hold;			/* keep the next connection that succeeds */
	atomic_uint held;			/* the port of the one that is kept; 0: none */
	atomic_uint switches;			/* done so far */
	atomic_int server_open;			/* connections that the server holds */
	atomic_bool server_has[UINT16_MAX + 1]; /* by the port of the other end */
	atomic_ulong server_bytes;
	atomic_uint server_sum; /* Adler-32 of the stream */
	atomic_int server_done;
};

static void tell(enum stage stage, int error, uint64_t began)
{
	struct outcome outcome = {stage, error, began, pg_monotonic_ns()};

	if (write(STDIN_FILENO, &outcome, sizeof(outcome)) != sizeof(outcome))
		exit(EXIT_FAILURE);
}

static int connected(const struct sockaddr_storage *to, socklen_t size)
{
	struct timeval limit = {.tv_sec = 3};
	struct linger reset = {.l_onoff = 1};
	int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t began;

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	began = pg_monotonic_ns();
	if (connect(fd, (const struct sockaddr *)to, size) == 0)
		return fd;
	tell(STAGE_CONNECT, errno, began);
	close(fd);
	return -1;
}

static uint16_t port_of(int fd, int (*get)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_storage end;
	socklen_t size = sizeof(end);

	if (get(fd, (struct sockaddr *)&end, &size))
		return 0;
	/* In the same place of both families. */
	return ntohs(((const struct sockaddr_in *)&end)->sin_port);
}

static void hold_on(struct shared *shared, int fd, char mode)
{
	char block[1024] = {0};
	uint64_t began = pg_monotonic_ns();

	atomic_store(&shared->held, port_of(fd, getsockname));
	if (mode == 'r') {
		ssize_t got = recv(fd, block, 1, 0);

		tell(STAGE_RECEIVE, got < 0 ? errno : 0, began);
		return;
	}
	while (send(fd, block, sizeof(block), MSG_NOSIGNAL) > 0)
		began = pg_monotonic_ns();
	tell(STAGE_SEND, errno, began);
}

/* For each mode byte on standard input, one race. */
static int race_worker(const char *path, const char *address)
{
	struct shared *shared = shared_open(path, sizeof(*shared));
	struct sockaddr_storage to;
	socklen_t size = endpoint(address, PORT, &to);
	char mode;

	while (read(STDIN_FILENO, &mode, 1) == 1) {
		for (unsigned int count = 1;; count++) {
			pg_autoclose int fd = connected(&to, size);

			if (fd < 0)
				break;
			if (atomic_load(&shared->hold)) {
				hold_on(shared, fd, mode);
				break;
			}
			if (count == 3)
				tell(STAGE_READY, 0, 0);
		}
	}
	return EXIT_SUCCESS;
}

static uint32_t adler32(uint32_t sum, const uint8_t *data, size_t size)
{
	uint32_t a = sum & 0xffff, b = sum >> 16;

	for (size_t i = 0; i < size; i++) {
		a = (a + data[i]) % 65521;
		b = (b + a) % 65521;
	}
	return b << 16 | a;
}

/* Sends the stream; between two chunks at least one switch happens. */
static int pump_worker(const char *path, const char *address)
{
	static uint8_t block[STREAM_CHUNK];
	struct shared *shared = shared_open(path, sizeof(*shared));
	struct sockaddr_storage to;
	int fd = connected(&to, endpoint(address, PORT, &to));
	uint32_t state = 2463534242U, sum = 1;

	for (size_t sent = 0; fd >= 0 && sent < STREAM_BYTES; sent += sizeof(block)) {
		unsigned int before = atomic_load(&shared->switches);

		for (size_t i = 0; i < sizeof(block); i++) {
			state ^= state << 13;
			state ^= state >> 17;
			state ^= state << 5;
			block[i] = (uint8_t)state;
		}
		sum = adler32(sum, block, sizeof(block));
		if (send(fd, block, sizeof(block), MSG_NOSIGNAL) != sizeof(block)) {
			tell(STAGE_SEND, errno, 0);
			return EXIT_FAILURE;
		}
		while (atomic_load(&shared->switches) == before)
			sched_yield();
	}
	shutdown(fd, SHUT_WR);
	/* Until the server has closed its end: this socket's close resets what is still on its way.
	 */
	while (recv(fd, block, sizeof(block), 0) > 0)
		;
	/* The sum travels in the place of an error. */
	tell(STAGE_READY, (int)sum, 0);
	return fd < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

struct server {
	struct shared *shared;
	int denied, allowed; /* listening sockets */
};

static void server_event(struct server *server, int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	static uint8_t block[256 << 10];
	static uint16_t ports[FDS_MAX]; /* of the other ends */
	ssize_t got;

	if (fd == server->denied || fd == server->allowed) {
		event.data.fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (event.data.fd < 0 || event.data.fd >= FDS_MAX)
			return;
		ports[event.data.fd] = port_of(event.data.fd, getpeername);
		atomic_store(&server->shared->server_has[ports[event.data.fd]], true);
		atomic_fetch_add(&server->shared->server_open, 1);
		epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
		return;
	}
	got = recv(fd, block, sizeof(block), 0);
	if (got <= 0) {
		if (got == 0)
			atomic_store(&server->shared->server_done, 1);
		atomic_store(&server->shared->server_has[ports[fd]], false);
		close(fd);
		atomic_fetch_sub(&server->shared->server_open, 1);
		return;
	}
	atomic_store(&server->shared->server_sum,
		     adler32(atomic_load(&server->shared->server_sum), block, (size_t)got));
	atomic_fetch_add(&server->shared->server_bytes, (unsigned long)got);
}

static void *serve(void *argument)
{
	struct server *server = argument;
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	for (int i = 0; i < 2; i++) {
		struct epoll_event event = {.events = EPOLLIN};

		event.data.fd = i ? server->denied : server->allowed;
		epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
	}
	for (;;) {
		struct epoll_event event;

		if (epoll_wait(epoll, &event, 1, -1) == 1)
			server_event(server, epoll, event.data.fd);
	}
	return NULL;
}

/* Spawns this program in another role; returns our end of its standard input. */
static int start_worker(struct confinement *confinement, const char *role, const char *address,
			pid_t *ret_pid)
{
	char self[] = "/proc/self/exe", path[64], name[16], target[64];
	char *argv[] = {self, name, path, target, NULL};
	int pair[2], saved = dup(STDIN_FILENO);
	char resolved[4096];
	ssize_t size = readlink(self, resolved, sizeof(resolved) - 1);

	if (size < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		fail("starting the worker: %s", strerror(errno));
	resolved[size] = '\0';
	argv[0] = resolved;
	snprintf(path, sizeof(path), "%s", shared_path());
	snprintf(name, sizeof(name), "%s", role);
	snprintf(target, sizeof(target), "%s", address);
	dup2(pair[1], STDIN_FILENO);
	*ret_pid = confine_spawn(confinement, role, argv);
	dup2(saved, STDIN_FILENO);
	close(saved);
	close(pair[1]);
	return pair[0];
}

/* The worker's next word; meanwhile the host does what it has to. */
static struct outcome hear(struct confinement *confinement, int worker)
{
	struct outcome outcome = {0};
	struct pollfd ready[] = {
		{.fd = worker, .events = POLLIN},
		{.fd = pg_host_fd(confinement->host), .events = POLLIN},
	};

	for (;;) {
		if (poll(ready, 2, HANG_MS) == 0)
			fail("the worker hangs");
		if (ready[1].revents)
			confine_process(confinement);
		if (!ready[0].revents)
			continue;
		if (recv(worker, &outcome, sizeof(outcome), MSG_WAITALL) != sizeof(outcome))
			fail("the worker has died");
		return outcome;
	}
}

static void spin_until(uint64_t when)
{
	while (pg_monotonic_ns() < when)
		;
}

struct figures {
	unsigned int stages[STAGE_COUNT];
	uint64_t worst_ns;
	size_t ahead, closed;
	unsigned int overtaken;
};

static bool ends_within(const struct shared *shared, bool (*holds)(const struct shared *shared),
			uint64_t limit_ms)
{
	uint64_t limit = pg_monotonic_ns() + limit_ms * PG_NSEC_PER_MSEC;

	while (holds(shared))
		if (pg_monotonic_ns() > limit)
			return false;
	return true;
}

static bool is_held_by_both(const struct shared *shared)
{
	return atomic_load(&shared->server_has[atomic_load(&shared->held)]);
}

static bool is_not_held_by_both(const struct shared *shared)
{
	return !is_held_by_both(shared);
}

static void race(struct confinement *confinement, struct shared *shared, int worker, int number,
		 struct figures *figures)
{
	char mode = number % 2 ? 'r' : 's';
	struct outcome outcome;
	uint64_t returned, from, took;
	const bool early = number % 4 < 2;
	size_t ahead;

	atomic_store(&shared->hold, 0);
	atomic_store(&shared->held, 0);
	if (write(worker, &mode, 1) != 1)
		fail("the worker has died");
	if (hear(confinement, worker).stage != STAGE_READY)
		fail("try %d: cannot connect in public", number);
	/* Every other pair of tries holds an open connection well before the switch. */
	atomic_store(&shared->hold, early);
	if (early && !ends_within(shared, is_not_held_by_both, HANG_MS))
		fail("try %d: no connection is kept", number);
	spin_until(pg_monotonic_ns() + (uint64_t)(random() % 300) * PG_NSEC_PER_USEC);
	atomic_store(&shared->hold, 1);
	ahead = pg_environment_close_ahead(confinement->environment, PG_PHASE_RUN);
	figures->ahead += ahead;
	confine_switch(confinement, PG_PHASE_RUN);
	returned = pg_monotonic_ns();
	figures->closed += confine_close_forbidden(confinement);
	outcome = hear(confinement, worker);
	if (early && ahead && !ends_within(shared, is_held_by_both, TOLD_MS)) {
		if (mode == 'r')
			fail("try %d: the server was not told of the end of a connection", number);
		figures->overtaken++;
	}
	/* A call that began after the switch counts from its own beginning. */
	from = outcome.began_ns > returned ? outcome.began_ns : returned;
	took = outcome.ended_ns > from ? outcome.ended_ns - from : 0;
	figures->stages[outcome.stage]++;
	if (took > figures->worst_ns)
		figures->worst_ns = took;
	if (took > LIMIT_NS || outcome.error == 0 || outcome.error == EAGAIN ||
	    outcome.error == EINPROGRESS || outcome.error == ETIMEDOUT)
		fail("try %d: %s ended %.1f ms after the switch: %s", number,
		     stage_names[outcome.stage], (double)took / PG_NSEC_PER_MSEC,
		     strerror(outcome.error));
	confine_switch(confinement, PG_PHASE_SETUP);
}

static void races(struct confinement *confinement, struct shared *shared, const char *denied,
		  int tries)
{
	struct figures figures = {0};
	pid_t pid;
	int worker = start_worker(confinement, "race", denied, &pid);

	for (int i = 0; i < tries; i++)
		race(confinement, shared, worker, i, &figures);
	close(worker);
	waitpid(pid, NULL, 0);
	printf("%d races: ended in connect %u, receive %u, send %u; worst %.2f ms after the "
	       "switch; connections closed: %zu before it, %zu after it; resets overtaken: %u; "
	       "%d left open at the server\n",
	       tries, figures.stages[STAGE_CONNECT], figures.stages[STAGE_RECEIVE],
	       figures.stages[STAGE_SEND], (double)figures.worst_ns / PG_NSEC_PER_MSEC,
	       figures.ahead, figures.closed, figures.overtaken, atomic_load(&shared->server_open));
	/* All that are kept early, if the machine has a moment for it. */
	if (figures.ahead < (size_t)tries / 4)
		fail("hardly any connection is closed before the switch");
	if (figures.overtaken > (unsigned int)tries / 50)
		fail("the server is seldom told of the end of a connection");
}

static void unharmed(struct confinement *confinement, struct shared *shared, const char *allowed)
{
	unsigned int switches = 0;
	size_t closed = 0;
	struct outcome outcome;
	pid_t pid;
	int worker;

	atomic_store(&shared->server_bytes, 0);
	atomic_store(&shared->server_sum, 1);
	atomic_store(&shared->server_done, 0);
	worker = start_worker(confinement, "pump", allowed, &pid);
	while (!atomic_load(&shared->server_done)) {
		if (waitpid(pid, NULL, WNOHANG) != 0 && atomic_load(&shared->server_open) == 0)
			break;
		confine_switch(confinement, switches % 2 ? PG_PHASE_SETUP : PG_PHASE_VERIFIER);
		closed += confine_close_forbidden(confinement);
		atomic_store(&shared->switches, ++switches);
		confine_process(confinement);
	}
	outcome = hear(confinement, worker);
	printf("a stream of %lu bytes through %u switches: %lu arrived, sums %08x and %08x\n",
	       STREAM_BYTES, switches, atomic_load(&shared->server_bytes),
	       (unsigned int)outcome.error, atomic_load(&shared->server_sum));
	if (outcome.stage != STAGE_READY || closed > 0 ||
	    atomic_load(&shared->server_bytes) != STREAM_BYTES ||
	    (unsigned int)outcome.error != atomic_load(&shared->server_sum))
		fail("the stream was harmed (%zu connections closed)", closed);
}

int main(int argc, char **argv)
{
	struct confinement confinement;
	struct server server;
	char document[512];
	pthread_t thread;

	if (argc == 4 && !strcmp(argv[1], "race"))
		return race_worker(argv[2], argv[3]);
	if (argc == 4 && !strcmp(argv[1], "pump"))
		return pump_worker(argv[2], argv[3]);
	/* Beside other tests, so that a late turn on the processor is not taken for a slow close.
	 */
	setpriority(PRIO_PROCESS, 0, -15);
	if (argc != 5)
		fail("usage: streams SERVER_NAMESPACE ALLOWED DENIED TRIES");
	server.shared = shared_create(sizeof(*server.shared));
	server.allowed = socket_in(argv[1], SOCK_STREAM, argv[2], PORT);
	server.denied = socket_in(argv[1], SOCK_STREAM, argv[3], PORT);
	if (pthread_create(&thread, NULL, serve, &server) != 0)
		fail("no thread");
	snprintf(document, sizeof(document), POLICY, argv[2]);
	confine(&confinement, document);
	races(&confinement, server.shared, argv[3], (int)strtol(argv[4], NULL, 10));
	unharmed(&confinement, server.shared, argv[2]);
	confine_end(&confinement);
	return EXIT_SUCCESS;
}
