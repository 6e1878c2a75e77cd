/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open connections to nameservers when the phase changes: dns_connections NAMESERVER. One to a
 * nameserver within, which no-network lets alone, is denied by the phases that redirect DNS
 * (dns-bypass), so the switch has to close it. One to the listener is not touched while DNS is
 * redirected, and closed where it is not.
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
#define REST_MS	 200

#define WITHIN	"127.0.0.1"
#define ANOTHER "203.0.113.53"

static const char *const role = "client";

struct shared {
	atomic_int connected, ended;
	atomic_int error; /* of the connection; -1: it stayed open */
};

/* ---- inside */

static void serve(void)
{
	struct sockaddr_storage address;
	socklen_t length = endpoint(WITHIN, DNS_PORT, &address);
	int server = socket(AF_INET, SOCK_STREAM, 0);
	const int on = 1;

	setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(server, (void *)&address, length) || listen(server, 1))
		fail("listening on port %d: %s", DNS_PORT, strerror(errno));
}

static int run_client(const char *path, const char *nameserver)
{
	struct shared *shared = shared_open(path, sizeof(*shared));
	struct sockaddr_storage address;
	socklen_t length = endpoint(nameserver, DNS_PORT, &address), size = sizeof(int);
	int fd = socket(AF_INET, SOCK_STREAM, 0), number = -1;
	struct pollfd ready = {.fd = fd};

	if (!strcmp(nameserver, WITHIN))
		serve();
	if (connect(fd, (void *)&address, length))
		fail("connecting to %s: %s", nameserver, strerror(errno));
	shared->connected = 1;
	/* Nothing but an error or the end. */
	if (poll(&ready, 1, LIMIT_MS) > 0)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size);
	shared->error = number;
	shared->ended = 1;
	return 0;
}

/* ---- outside */

static pid_t start_client(struct confinement *confinement, const char *nameserver)
{
	static char self[4096], path[64], name[16], address[64];
	ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *argv[] = {self, name, path, address, NULL};

	if (size < 0)
		fail("/proc/self/exe: %s", strerror(errno));
	self[size] = '\0';
	snprintf(path, sizeof(path), "%s", shared_path());
	snprintf(name, sizeof(name), "%s", role);
	snprintf(address, sizeof(address), "%s", nameserver);
	return confine_spawn(confinement, role, argv);
}

/* A client that has connected in the phase. */
static pid_t connect_in(struct confinement *confinement, enum pg_phase phase,
			const char *nameserver, struct shared *shared)
{
	const uint64_t until = wall_ns() + LIMIT_MS * PG_NSEC_PER_MSEC;
	pid_t pid;

	confine_switch(confinement, phase);
	*shared = (struct shared){0};
	pid = start_client(confinement, nameserver);
	while (!shared->connected)
		if (wall_ns() > until || waitpid(pid, NULL, WNOHANG) == pid)
			fail("the client does not connect to %s", nameserver);
	return pid;
}

static void expect_closed(struct confinement *confinement, enum pg_phase phase, pid_t pid,
			  const struct shared *shared)
{
	size_t closed;

	confine_switch(confinement, phase);
	closed = confine_close_forbidden(confinement);
	waitpid(pid, NULL, 0);
	if (!closed || shared->error != ECONNABORTED)
		fail("%s: %zu connections closed, the client's error is %d", pg_phase_name(phase),
		     closed, (int)shared->error);
}

static void expect_open(struct confinement *confinement, enum pg_phase phase,
			const struct shared *shared)
{
	size_t closed;

	confine_switch(confinement, phase);
	closed = confine_close_forbidden(confinement);
	poll(NULL, 0, REST_MS);
	if (closed || shared->ended)
		fail("%s: %zu connections closed", pg_phase_name(phase), closed);
}

int main(int argc, char **argv)
{
	struct pg_dns_settings settings = PG_DNS_SETTINGS_DEFAULT;
	struct confinement confinement;
	struct shared *shared;
	pid_t pid;

	if (argc == 4 && !strcmp(argv[1], role))
		return run_client(argv[2], argv[3]);
	if (argc != 2)
		fail("usage: dns_connections NAMESERVER");
	shared = shared_create(sizeof(*shared));
	confine_with_names(
		&confinement,
		"{\"network_policy\":\"no-network\",\"verifier_network_policy\":\"public\","
		"\"run_network_policy\":{\"network_mode\":\"allowlist\","
		"\"allowed_hosts\":[\"*.example.com\"]}}",
		argv[1], &settings);
	pid = connect_in(&confinement, PG_PHASE_SETUP, WITHIN, shared);
	expect_closed(&confinement, PG_PHASE_RUN, pid, shared);
	pid = connect_in(&confinement, PG_PHASE_SETUP, WITHIN, shared);
	expect_closed(&confinement, PG_PHASE_VERIFIER, pid, shared);
	pid = connect_in(&confinement, PG_PHASE_VERIFIER, ANOTHER, shared);
	expect_open(&confinement, PG_PHASE_RUN, shared);
	expect_open(&confinement, PG_PHASE_VERIFIER, shared);
	expect_closed(&confinement, PG_PHASE_SETUP, pid, shared);
	confine_end(&confinement);
	return 0;
}
