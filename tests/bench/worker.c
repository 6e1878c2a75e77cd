/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side. A worker prepares, does one workload for a while, and says how much it did. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"

struct exchange {
	struct assignment assignment;
	char namespace[BENCH_NAMESPACE]; /* path, or empty: the one it was started in */
	uint64_t operations, took_ns, cpu_ns;
	bool alone, done;
};
static struct exchange *shared;
static char path_of_shared[64];

/* Of this process, and of its proxy's, if there is one. */
static uint64_t cpu_ns(void)
{
	const pid_t proxy = shared->assignment.proxy;
	clockid_t clock;
	uint64_t ns = pg_clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	if (proxy && !clock_getcpuclockid(proxy, &clock))
		ns += pg_clock_ns(clock);
	return ns;
}

static void enter_namespace(const char *path)
{
	pg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		fail("entering %s: %s", path, strerror(errno));
}

int worker_main(char **argv)
{
	const size_t index = strtoul(argv[3], NULL, 10);
	const uint64_t length_ns = strtoull(argv[4], NULL, 10) * PG_NSEC_PER_MSEC;
	uint64_t started, cpu, ignored = 0, operations = 0;

	if (index >= workload_count)
		fail("no such workload");
	shared = shared_open(argv[2], sizeof(*shared));
	if (shared->namespace[0])
		enter_namespace(shared->namespace);
	pin_last();
	/* A tenth to warm up. */
	do
		workloads[index].run(&shared->assignment, pg_monotonic_ns() + length_ns / 10,
				     &ignored);
	while (ignored < workloads[index].warm_up);
	started = pg_monotonic_ns();
	cpu = cpu_ns();
	workloads[index].run(&shared->assignment, started + length_ns, &operations);
	shared->cpu_ns = cpu_ns() - cpu;
	shared->took_ns = pg_monotonic_ns() - started;
	shared->operations = operations;
	shared->alone = workloads[index].alone;
	shared->done = true;
	return 0;
}

void worker_memory(size_t spread, const char *server)
{
	shared = shared_create(sizeof(*shared));
	shared->assignment.listener = socket_in(server, SOCK_STREAM, "0.0.0.0", BENCH_PORT_ALONE);
	snprintf(path_of_shared, sizeof(path_of_shared), "%s", shared_path());
	shared->assignment.spread = spread;
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
	shared->assignment.proxy_port = site->proxy_port;
	shared->assignment.proxy = site->proxy;
	snprintf(shared->namespace, sizeof(shared->namespace), "%s",
		 site->namespace ? site->namespace : "");
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
	if (site->environment)
		forget_flows(site->host, site->environment);
	return (struct measurement){
		.rate = (double)shared->operations * PG_NSEC_PER_SEC /
			(double)(shared->alone ? shared->cpu_ns : shared->took_ns),
		.cpu_ns = (double)shared->cpu_ns / (double)shared->operations,
	};
}
