/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side. A worker prepares, does one workload for a while, and says how much it did. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/file.h"

#define DATAGRAM    32
#define REQUEST	    64
#define BULK	    (1UL << 17)
#define SPREAD_STEP 40503 /* a prime */
#define TIME_EVERY  64	  /* operations between two looks at the clock, where they are short */

struct exchange {
	size_t spread; /* what the worker is told */
	uint64_t operations, took_ns, cpu_ns;
	bool done;
};
static struct exchange *shared;
static char path_of_shared[64];

int connected(int type, const char *address, uint16_t port)
{
	struct sockaddr_storage to;
	const socklen_t size = endpoint(address, port, &to);
	int one = 1, fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, size) < 0)
		fail("connecting to %s: %s", address, strerror(errno));
	if (type == SOCK_STREAM)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* Closed by RST: no connection waits afterwards, so that the ports suffice. */
static void run_connects(uint64_t until_ns, uint64_t *operations)
{
	const struct linger reset = {.l_onoff = 1};

	while (pg_monotonic_ns() < until_ns) {
		int fd = connected(SOCK_STREAM, BENCH_TARGET4, BENCH_PORT);

		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(fd);
		++*operations;
	}
}

static void run_requests(uint64_t until_ns, uint64_t *operations)
{
	pg_autoclose int fd = connected(SOCK_STREAM, BENCH_TARGET4, BENCH_PORT + 1);
	char buffer[REQUEST];

	memset(buffer, 'r', sizeof(buffer));
	/* The first octet says that answers are wanted, and is answered alone or with the rest. */
	while (pg_monotonic_ns() < until_ns) {
		size_t got = 0;

		if (send(fd, buffer, sizeof(buffer), 0) != sizeof(buffer))
			fail("request: %s", strerror(errno));
		while (got < sizeof(buffer)) {
			const ssize_t size = recv(fd, buffer, sizeof(buffer) - got, 0);

			if (size <= 0)
				fail("answer: %s", strerror(errno));
			got += (size_t)size;
		}
		++*operations;
	}
}

static void run_bulk(uint64_t until_ns, uint64_t *operations)
{
	pg_autoclose int fd = connected(SOCK_STREAM, BENCH_TARGET4, BENCH_PORT + 1);
	static char buffer[BULK];

	memset(buffer, 'b', sizeof(buffer));
	while (pg_monotonic_ns() < until_ns) {
		const ssize_t size = send(fd, buffer, sizeof(buffer), 0);

		if (size <= 0)
			fail("bulk: %s", strerror(errno));
		*operations += (uint64_t)size;
	}
}

static void run_datagrams(uint64_t until_ns, uint64_t *operations)
{
	pg_autoclose int fd = connected(SOCK_DGRAM, BENCH_TARGET4, BENCH_PORT);
	static const char datagram[DATAGRAM];

	while (pg_monotonic_ns() < until_ns)
		for (size_t i = 0; i < TIME_EVERY; i++, ++*operations)
			if (send(fd, datagram, sizeof(datagram), 0) < 0)
				fail("datagram: %s", strerror(errno));
}

/* Every datagram to another address: what a look-up in a cold set costs. */
static void run_spread(uint64_t until_ns, uint64_t *operations)
{
	pg_autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	static const char datagram[DATAGRAM];
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(BENCH_PORT)};
	size_t next = 0;

	while (pg_monotonic_ns() < until_ns)
		for (size_t i = 0; i < TIME_EVERY; i++, ++*operations) {
			next = (next + SPREAD_STEP) % shared->spread;
			to.sin_addr.s_addr = htonl(set_address4(next));
			if (sendto(fd, datagram, sizeof(datagram), 0, (struct sockaddr *)&to,
				   sizeof(to)) < 0)
				fail("datagram to address %zu: %s", next, strerror(errno));
		}
}

const struct workload workloads[] = {
	{"TCP connect + close", "1,000/s", 1e3, run_connects},
	{"TCP request/response", "1,000/s", 1e3, run_requests},
	{"TCP bulk", "Gbit/s", 1e9 / 8, run_bulk},
	{"UDP small packets, connected", "1,000/s", 1e3, run_datagrams},
	{"UDP small packets, many destinations", "1,000/s", 1e3, run_spread},
};
const size_t workload_count = PG_ARRAY_SIZE(workloads);

size_t workload_udp(void)
{
	for (size_t i = 0; i < workload_count; i++)
		if (workloads[i].run == run_datagrams)
			return i;
	return 0;
}

static uint64_t cpu_ns(void)
{
	return pg_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int worker_main(char **argv)
{
	const size_t index = strtoul(argv[3], NULL, 10);
	const uint64_t length_ns = strtoull(argv[4], NULL, 10) * PG_NSEC_PER_MSEC;
	uint64_t started, cpu, ignored = 0, operations = 0;

	if (index >= workload_count)
		fail("no such workload");
	shared = shared_open(argv[2], sizeof(*shared));
	pin_last();
	/* A tenth to warm up. */
	workloads[index].run(pg_monotonic_ns() + length_ns / 10, &ignored);
	started = pg_monotonic_ns();
	cpu = cpu_ns();
	workloads[index].run(started + length_ns, &operations);
	shared->cpu_ns = cpu_ns() - cpu;
	shared->took_ns = pg_monotonic_ns() - started;
	shared->operations = operations;
	shared->done = true;
	return 0;
}

void worker_memory(size_t spread)
{
	shared = shared_create(sizeof(*shared));
	snprintf(path_of_shared, sizeof(path_of_shared), "%s", shared_path());
	shared->spread = spread;
}

static pid_t start_plain(int cgroup, char *const *argv)
{
	const pid_t pid = fork();

	if (pid)
		return pid;
	if (pg_file_write_at(cgroup, "cgroup.procs", "0", NULL) < 0)
		_exit(1);
	execv(argv[0], argv);
	_exit(1);
}

pid_t site_spawn(const struct site *site, char *const *argv)
{
	struct pg_spawn spawn = {.cgroup = "worker", .argv = argv};
	struct pg_error err = {0};
	pid_t pid;

	if (!site->environment)
		pid = start_plain(site->plain_cgroup, argv);
	else if (pg_environment_spawn(site->environment, &spawn, &pid, &err) < 0)
		fail("%s", err.text);
	if (pid < 0)
		fail("fork: %s", strerror(errno));
	return pid;
}

pid_t worker_start(const struct site *site, size_t workload, unsigned int milliseconds)
{
	char self[] = "/proc/self/exe", role[] = "worker", index[24], length[24];
	char *const argv[] = {self, role, path_of_shared, index, length, NULL};

	snprintf(index, sizeof(index), "%zu", workload);
	snprintf(length, sizeof(length), "%u", milliseconds);
	shared->done = false;
	return site_spawn(site, argv);
}

struct measurement worker_finish(const struct site *site, pid_t pid)
{
	struct pg_error err = {0};
	int status;

	if (waitpid(pid, &status, 0) < 0 || status || !shared->done)
		fail("a worker failed");
	if (pg_host_process(site->host, &err) < 0)
		fail("%s", err.text);
	return (struct measurement){
		.rate = (double)shared->operations * PG_NSEC_PER_SEC / (double)shared->took_ns,
		.cpu_ns = (double)shared->cpu_ns / (double)shared->operations,
	};
}
