/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"

static int shared_fd = -1;

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

uint64_t wall_ns(void)
{
	return pg_clock_ns(CLOCK_REALTIME);
}

socklen_t endpoint(const char *address, uint16_t port, struct sockaddr_storage *ret)
{
	struct pg_endpoint parsed;

	if (pg_endpoint_parse(address, port, &parsed) < 0)
		fail("not an address: %s", address);
	return pg_endpoint_to_sockaddr(&parsed, ret);
}

int socket_in(const char *namespace, int type, const char *address, uint16_t port)
{
	pg_autoclose int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	pg_autoclose int other = open(namespace, O_RDONLY | O_CLOEXEC);
	struct sockaddr_storage local;
	socklen_t size = endpoint(address, port, &local);
	int buffer = 64 << 20, one = 1, fd;

	if (own < 0 || other < 0 || setns(other, CLONE_NEWNET) < 0)
		fail("entering %s: %s", namespace, strerror(errno));
	fd = socket(local.ss_family, type | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (type == SOCK_DGRAM)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	if (bind(fd, (struct sockaddr *)&local, size) < 0)
		fail("binding %s port %u: %s", address, port, strerror(errno));
	if (type == SOCK_STREAM && listen(fd, 1024) < 0)
		fail("listening: %s", strerror(errno));
	if (setns(own, CLONE_NEWNET) < 0)
		fail("returning from %s: %s", namespace, strerror(errno));
	return fd;
}

void *shared_create(size_t size)
{
	void *memory;

	shared_fd = memfd_create("phasegate-test", MFD_CLOEXEC);
	if (shared_fd < 0 || ftruncate(shared_fd, (off_t)size) < 0)
		fail("memfd: %s", strerror(errno));
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
	if (memory == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	return memory;
}

const char *shared_path(void)
{
	static char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), shared_fd);
	return path;
}

void *shared_open(const char *path, size_t size)
{
	pg_autoclose int fd = open(path, O_RDWR | O_CLOEXEC);
	void *memory;

	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		fail("mmap of %s: %s", path, strerror(errno));
	return memory;
}

static void start(struct confinement *confinement, const char *document,
		  struct pg_environment_options options)
{
	const struct pg_host_options host = {.interrupt_fd = -1};
	struct pg_policy_source source = {"test", document, strlen(document)};
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
	struct pg_error err = {0};

	*confinement = (struct confinement){0};
	if (pg_policy_parse(&source, 1, NULL, 0, PG_POLICY_BARE, &confinement->policy,
			    &diagnostics) < 0)
		fail("the test's own policy is at fault: %s", document);
	options.policy = confinement->policy;
	if (pg_host_open(&host, &confinement->host, &err) < 0 ||
	    pg_environment_create(confinement->host, &options, &confinement->environment, &err) < 0)
		fail("%s", err.text);
}

void confine(struct confinement *confinement, const char *document)
{
	start(confinement, document,
	      (struct pg_environment_options){.phase = PG_PHASE_SETUP,
					      .dns = PG_DNS_SETTINGS_DEFAULT});
}

void confine_with_names(struct confinement *confinement, const char *document,
			const char *nameserver, const struct pg_dns_settings *settings)
{
	struct pg_endpoint resolver;

	if (pg_endpoint_parse(nameserver, PG_PORT_DNS, &resolver) < 0)
		fail("not an address: %s", nameserver);
	start(confinement, document,
	      (struct pg_environment_options){.phase = PG_PHASE_SETUP,
					      .resolvers = &resolver,
					      .resolver_count = 1,
					      .dns = *settings});
}

pid_t confine_spawn(struct confinement *confinement, const char *cgroup, char *const *argv)
{
	struct pg_spawn spawn = {.cgroup = cgroup, .argv = argv};
	struct pg_error err = {0};
	pid_t pid;

	if (pg_environment_spawn(confinement->environment, &spawn, &pid, &err) < 0)
		fail("%s", err.text);
	return pid;
}

void confine_switch(struct confinement *confinement, enum pg_phase phase)
{
	struct pg_error err = {0};
	struct pg_switch done;

	if (pg_environment_switch(confinement->environment, phase, &done, &err) < 0)
		fail("%s", err.text);
}

size_t confine_close_forbidden(struct confinement *confinement)
{
	struct pg_error err = {0};
	struct pg_closing done;

	if (pg_environment_close_forbidden(confinement->environment, &done, &err) < 0)
		fail("%s", err.text);
	return done.closed;
}

void confine_process(struct confinement *confinement)
{
	struct pollfd ready = {.fd = pg_host_fd(confinement->host), .events = POLLIN};
	struct pg_error err = {0};

	if (poll(&ready, 1, 0) > 0 && pg_host_process(confinement->host, &err) < 0)
		fail("%s", err.text);
}

void confine_end(struct confinement *confinement)
{
	struct pg_error err = {0};

	if (pg_environment_destroy(confinement->environment, PG_DESTROY_KILL, &err) < 0)
		fail("%s", err.text);
	pg_host_free(confinement->host);
	pg_policy_free(confinement->policy);
}
