/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to a nameserver of the Environment's own, opened while the phase lets it alone
 * (no-network: it stays within): dns_bypass NAMESERVER. A phase that redirects DNS denies its
 * packets, so the switch has to close it.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#include "support.h"

#define DNS_PORT 53
#define LIMIT_MS 5000

static const char *const role = "client";

struct shared {
	atomic_int connected;
	atomic_int error; /* of the connection; -1: it stayed open */
};

/* ---- inside */

static int run_client(const char *path)
{
	struct shared *shared = shared_open(path, sizeof(*shared));
	struct sockaddr_storage address;
	socklen_t length = endpoint("127.0.0.1", DNS_PORT, &address), size = sizeof(int);
	int server = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	const int on = 1;
	struct pollfd ready = {.fd = fd};
	int number = -1;

	setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(server, (void *)&address, length) || listen(server, 1))
		fail("listening on port %d: %s", DNS_PORT, strerror(errno));
	if (connect(fd, (void *)&address, length))
		fail("connecting to port %d: %s", DNS_PORT, strerror(errno));
	shared->connected = 1;
	/* Nothing but an error or the end. */
	if (poll(&ready, 1, LIMIT_MS) > 0)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size);
	shared->error = number;
	return 0;
}

/* ---- outside */

static pid_t start_client(struct confinement *confinement)
{
	static char self[4096], path[64], name[16];
	ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *argv[] = {self, name, path, NULL};

	if (size < 0)
		fail("/proc/self/exe: %s", strerror(errno));
	self[size] = '\0';
	snprintf(path, sizeof(path), "%s", shared_path());
	snprintf(name, sizeof(name), "%s", role);
	return confine_spawn(confinement, role, argv);
}

static void try_phase(struct confinement *confinement, enum pg_phase phase, struct shared *shared)
{
	const uint64_t until = wall_ns() + LIMIT_MS * PG_NSEC_PER_MSEC;
	size_t closed;
	pid_t pid;

	confine_switch(confinement, PG_PHASE_SETUP);
	*shared = (struct shared){0};
	pid = start_client(confinement);
	while (!shared->connected)
		if (wall_ns() > until || waitpid(pid, NULL, WNOHANG) == pid)
			fail("the client does not connect");
	confine_switch(confinement, phase);
	closed = confine_close_forbidden(confinement);
	waitpid(pid, NULL, 0);
	if (!closed || shared->error != ECONNABORTED)
		fail("%s: %zu connections closed, the client's error is %d", pg_phase_name(phase),
		     closed, (int)shared->error);
}

int main(int argc, char **argv)
{
	struct pg_dns_settings settings = PG_DNS_SETTINGS_DEFAULT;
	struct confinement confinement;
	struct shared *shared;

	if (argc == 3 && !strcmp(argv[1], role))
		return run_client(argv[2]);
	if (argc != 2)
		fail("usage: dns_bypass NAMESERVER");
	shared = shared_create(sizeof(*shared));
	confine_with_names(
		&confinement,
		"{\"network_policy\":\"no-network\",\"verifier_network_policy\":\"public\","
		"\"run_network_policy\":{\"network_mode\":\"allowlist\","
		"\"allowed_hosts\":[\"*.example.com\"]}}",
		argv[1], &settings);
	try_phase(&confinement, PG_PHASE_RUN, shared);
	try_phase(&confinement, PG_PHASE_VERIFIER, shared);
	confine_end(&confinement);
	return 0;
}
