/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proof from inside that the hooks are in force, before the workload starts: one probe that must
 * be denied and one that must not, by errno. Nothing leaves the machine: a UDP connect() sends no
 * packet, and packets are sent to loopback only.
 */
#include "host_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* The discard port (RFC 863); nothing is sent to it. */
#define PROBE_PORT     9
/* An IP protocol for experiments (RFC 3692), which no socket hook but only egress sees. */
#define PROBE_PROTOCOL 253

/* What a probe did, for messages. */
enum probe {
	PROBE_CONNECT,
	PROBE_SEND,
	PROBE_RAW,
};

struct attempt {
	enum probe probe;
	struct pg_addr addr;
	bool allowed; /* expected: not EPERM; otherwise: EPERM */
};

static int probe_connect(const struct sockaddr_storage *to, socklen_t length)
{
	pg_autoclose int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)to, length))
		return errno;
	return 0;
}

/* To itself: a socket of somebody else on loopback would be denied, and rightly so. */
static int probe_send(const struct sockaddr_storage *to, socklen_t length)
{
	pg_autoclose int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage own = *to;

	if (fd < 0 || bind(fd, (const struct sockaddr *)to, length) ||
	    getsockname(fd, (struct sockaddr *)&own, &length) ||
	    sendto(fd, "phasegate", 9, 0, (const struct sockaddr *)&own, length) < 0)
		return errno;
	return 0;
}

static int probe_raw(const struct sockaddr_storage *to, socklen_t length)
{
	pg_autoclose int fd = socket(to->ss_family, SOCK_RAW | SOCK_CLOEXEC, PROBE_PROTOCOL);

	/* Without CAP_NET_RAW no packet was denied, and none was tried. */
	if (fd < 0)
		return errno == EPERM ? EACCES : errno;
	if (sendto(fd, "phasegate", 9, 0, (const struct sockaddr *)to, length) < 0)
		return errno;
	return 0;
}

static int probe_errno(const struct attempt *attempt)
{
	struct pg_endpoint endpoint = {.addr = attempt->addr};
	struct sockaddr_storage to;
	socklen_t length;

	if (attempt->probe == PROBE_CONNECT)
		endpoint.port = htons(PROBE_PORT);
	length = pg_endpoint_to_sockaddr(&endpoint, &to);
	switch (attempt->probe) {
	case PROBE_CONNECT:
		return probe_connect(&to, length);
	case PROBE_SEND:
		return probe_send(&to, length);
	case PROBE_RAW:
		return probe_raw(&to, length);
	}
	return EINVAL;
}

/* There is no IPv6, or lo is down: no packet can be sent, so there is nothing to prove. */
static bool is_impossible(int number)
{
	return number == EAFNOSUPPORT || number == EADDRNOTAVAIL || number == ENETUNREACH;
}

struct attempts {
	const struct attempt *items;
	size_t count;
};

/* In the child: 0, or the number of the first attempt that went wrong. */
static int run_attempts(void *userdata)
{
	const struct attempts *attempts = userdata;

	for (size_t i = 0; i < attempts->count; i++) {
		const int number = probe_errno(&attempts->items[i]);
		const bool denied = number == EPERM;

		if (attempts->items[i].allowed ? denied : !denied && !is_impossible(number))
			return (int)i + 1;
	}
	return 0;
}

static const char *probe_text(enum probe probe)
{
	switch (probe) {
	case PROBE_CONNECT:
		return "a UDP connect()";
	case PROBE_SEND:
		return "a UDP sendto()";
	case PROBE_RAW:
		return "a raw packet";
	}
	return "";
}

static int probe_place(const struct pg_environment *environment, size_t place,
		       const struct attempt *items, size_t count, struct pg_error *err)
{
	const char *path = pg_place_path(environment, place);
	struct attempts attempts = {items, count};
	const struct attempt *wrong;
	char text[PG_ADDR_TEXT];
	int status, error;
	pid_t pid;

	error = pg_spawn_function(environment->places[place].fd, run_attempts, &attempts, &pid,
				  err);
	if (error)
		return error;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return pg_fail_errno(err, -errno, "waiting for the self-probe");
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (!WIFEXITED(status) || (size_t)WEXITSTATUS(status) > count)
		return pg_fail(err, -EIO, "the self-probe in the cgroup %s ended by itself", path);
	wrong = &items[WEXITSTATUS(status) - 1];
	return pg_fail(err, -EIO,
		       "self-probe: %s to %s was %s in the cgroup %s; is another program attached"
		       " above it? (bpftool cgroup tree)",
		       probe_text(wrong->probe), pg_addr_format(&wrong->addr, text),
		       wrong->allowed ? "denied" : "not denied", path);
}

static int probe(const struct pg_environment *environment, const struct attempt *items,
		 size_t count, struct pg_error *err)
{
	int error = 0;

	for (size_t i = 0; i < pg_place_count(environment) && !error; i++)
		error = probe_place(environment, i, items, count, err);
	return error;
}

int pg_self_probe_denied(const struct pg_environment *environment, struct pg_error *err)
{
	const struct pg_addr loopback4 = pg_addr_from_v4(htonl(INADDR_LOOPBACK));
	const struct pg_addr loopback6 = pg_addr_from_bytes(in6addr_loopback.s6_addr);
	const struct attempt attempts[] = {
		{PROBE_CONNECT, loopback4, false}, {PROBE_CONNECT, loopback6, false},
		{PROBE_SEND, loopback4, false},	   {PROBE_SEND, loopback6, false},
		{PROBE_RAW, loopback4, false},	   {PROBE_RAW, loopback6, false},
	};

	return probe(environment, attempts, PG_ARRAY_SIZE(attempts), err);
}

/* A single address rather than the first of a range, which may be that of a network. */
static const struct pg_prefix *first_prefix(const struct pg_address_set *set)
{
	for (size_t i = 0; i < set->v4_count; i++)
		if (pg_prefix_is_exact(&set->v4[i]))
			return &set->v4[i];
	return set->v4_count ? set->v4 : set->v6;
}

/* Entries do not open what the operator closes. */
static bool is_open(const struct pg_host *host, const struct pg_addr *addr)
{
	const struct pg_endpoint endpoint = {.addr = *addr, .port = htons(PROBE_PORT)};

	return !pg_host_forbids(host, addr) && pg_host_opens(host, &endpoint);
}

int pg_self_probe_in_force(const struct pg_environment *environment, struct pg_error *err)
{
	static const struct pg_address_set nothing;
	const struct pg_compiled *list = pg_content_list(environment);
	const struct pg_address_set *set = list ? &list->addresses : &nothing;
	const struct pg_prefix *inside = first_prefix(set);
	const struct pg_addr loopback4 = pg_addr_from_v4(htonl(INADDR_LOOPBACK));
	struct attempt attempts[4];
	size_t count = 0;

	if (!pg_host_forbids(environment->host, &loopback4)) {
		attempts[count++] = (struct attempt){PROBE_CONNECT, loopback4, true};
		attempts[count++] = (struct attempt){PROBE_SEND, loopback4, true};
	}
	if (inside && is_open(environment->host, &inside->addr))
		attempts[count++] = (struct attempt){PROBE_CONNECT, inside->addr, true};
	if (pg_content_slot(environment)->mode != PG_MODE_PUBLIC) {
		attempts[count] = (struct attempt){.probe = PROBE_CONNECT, .allowed = false};
		if (pg_address_set_find_outside(set, &attempts[count].addr) &&
		    !pg_member_addresses_have(environment, &attempts[count].addr))
			count++;
	}
	return probe(environment, attempts, count, err);
}
