// SPDX-License-Identifier: Apache-2.0
/*
 * Two Environments in no-network that share a network namespace; one has two members, at different
 * depths. On loopback the members reach each other, and nobody else does: real sockets, all hooks,
 * attached as user/kernel does it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <phasegate/abi/counter.h>
#include <phasegate/abi/member.h>

#include "check.h"
#include "kernel/attach.h"
#include "kernel/kernel.h"
#include "lab.h"
#include "place.h"

#define PORT	4250
/* Emulated machines are slow. */
#define WAIT_MS 700

/* Cgroups of the test: two members of one Environment, another Environment's, and the mount. */
enum who {
	INNER,	  /* at depth 2; of A, the first member */
	OTHER,	  /* at depth 1; of A */
	STRANGER, /* at depth 2; of B */
	OUTSIDE,
	WHO_COUNT,
};

static const char *const names[WHO_COUNT] = {"inner", "other", "stranger", "outside"};

struct bench {
	struct check check;
	struct place place;
	struct pg_kernel *kernel;
	char stranger[320];
	struct pg_header headers[OUTSIDE];
	struct pg_error err;
};

static const char *directory(const struct bench *bench, enum who who)
{
	const char *const directories[WHO_COUNT] = {bench->place.inner, bench->place.other,
						    bench->stranger, bench->place.mount};

	return directories[who];
}

static int confine(struct bench *bench, enum who who, uint64_t env_id, uint32_t state)
{
	pg_autoclose int fd = open(directory(bench, who), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct pg_header *header = &bench->headers[who];
	struct stat status;
	int error;

	if (fd < 0 || fstat(fd, &status))
		return -errno;
	error = pg_attach_all(bench->kernel, fd, pg_hooks(false), &bench->err);
	*header = (struct pg_header){
		.magic = PG_HEADER_MAGIC,
		.state = state,
		.flags = PG_HEADER_CHECK_LO_SOURCE | PG_HEADER_MEMBERS,
		.level = who == OTHER ? 1 : 2,
		.env_id = env_id ? env_id : status.st_ino,
		.cgroup_id = status.st_ino,
	};
	header->slots[0][0].mode = PG_MODE_NO_NETWORK;
	if (!error)
		error = pg_member_add(bench->kernel, header->cgroup_id,
				      &(struct pg_member){.env_id = header->env_id,
							  .level = header->level},
				      &bench->err);
	return error ? error : pg_header_write(bench->kernel, header, &bench->err);
}

static int make(struct bench *bench)
{
	const struct pg_state_value setup = {.generation = 1};
	uint32_t a = 0, b = 0;
	int error = pg_kernel_open(NULL, &bench->kernel, &bench->err);

	if (!error)
		error = pg_state_take(bench->kernel, &a, &bench->err);
	if (!error)
		error = pg_state_take(bench->kernel, &b, &bench->err);
	if (!error)
		error = confine(bench, INNER, 0, a);
	if (!error)
		error = confine(bench, OTHER, bench->headers[INNER].env_id, a);
	if (!error)
		error = confine(bench, STRANGER, 0, b);
	if (!error)
		error = pg_state_write(bench->kernel, a, &setup, &bench->err);
	return error ? error : pg_state_write(bench->kernel, b, &setup, &bench->err);
}

struct way {
	const char *name;
	int family, type;
};

static const struct way ways[] = {
	{"TCP", AF_INET, SOCK_STREAM},
	{"UDP", AF_INET, SOCK_DGRAM},
	{"TCP, v6", AF_INET6, SOCK_STREAM},
	{"UDP, v6", AF_INET6, SOCK_DGRAM},
};

static socklen_t name_of(const struct way *way, struct sockaddr_storage *name)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET,
				       .sin_port = htons(PORT),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
					.sin6_port = htons(PORT),
					.sin6_addr = IN6ADDR_LOOPBACK_INIT};

	if (way->family == AF_INET)
		memcpy(name, &v4, sizeof(v4));
	else
		memcpy(name, &v6, sizeof(v6));
	return way->family == AF_INET ? sizeof(v4) : sizeof(v6);
}

/* A socket in the cgroup; this process ends up outside again. */
static int socket_of(const struct bench *bench, enum who who, const struct way *way)
{
	const struct timeval patience = {.tv_usec = WAIT_MS * 1000};
	int fd = -1;

	if (place_enter(directory(bench, who)))
		fd = socket(way->family, way->type | SOCK_CLOEXEC, 0);
	if (!place_enter(bench->place.mount))
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return fd;
}

/* errno of one octet there, or 0 and it has arrived. */
static int exchange(int to, int from, const struct way *way)
{
	struct sockaddr_storage name = {};
	const socklen_t size = name_of(way, &name);
	pg_autoclose int accepted = -1;
	char octet;

	if (connect(from, (const struct sockaddr *)&name, size) || send(from, "x", 1, 0) != 1)
		return errno;
	if (way->type == SOCK_STREAM) {
		accepted = accept4(to, NULL, NULL, SOCK_CLOEXEC);
		to = accepted;
	}
	return recv(to, &octet, 1, 0) == 1 ? 0 : errno;
}

static int try(const struct bench *bench, enum who server, enum who client, const struct way *way)
{
	pg_autoclose int to = socket_of(bench, server, way);
	pg_autoclose int from = socket_of(bench, client, way);
	struct sockaddr_storage name = {};
	const socklen_t size = name_of(way, &name);
	const int on = 1;

	setsockopt(to, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (from < 0 || bind(to, (const struct sockaddr *)&name, size) ||
	    (way->type == SOCK_STREAM && listen(to, 1)))
		return -errno;
	return exchange(to, from, way);
}

static void try_all(struct bench *bench, bool together)
{
	for (enum who server = 0; server < WHO_COUNT; server++)
		for (enum who client = 0; client < OUTSIDE; client++)
			for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
				const bool same = server == client ||
						  (together && server + client == INNER + OTHER);
				const int error = try(bench, server, client, &ways[i]);

				CHECK(&bench->check, same ? !error : error > 0,
				      "%s from %s to %s: %s", ways[i].name, names[client],
				      names[server], strerror(error));
			}
}

/* Of one Environment, and of no other. */
static void forget(struct bench *bench)
{
	pg_members_forget(bench->kernel, bench->headers[STRANGER].env_id);
	CHECK(&bench->check, !try(bench, INNER, OTHER, &ways[0]), "another's were forgotten");
	pg_members_forget(bench->kernel, bench->headers[INNER].env_id);
	CHECK(&bench->check, try(bench, INNER, OTHER, &ways[0]), "forgotten ones are members");
	CHECK(&bench->check, !try(bench, INNER, INNER, &ways[0]), "its own socket is another's");
}

/* Whether the other member may bind the UDP port that the inner one has, as both allow. */
static int share(const struct bench *bench)
{
	const struct way *way = &ways[1];
	pg_autoclose int first = socket_of(bench, INNER, way);
	pg_autoclose int second = socket_of(bench, OTHER, way);
	struct sockaddr_storage name = {};
	const socklen_t size = name_of(way, &name);
	const int on = 1;

	if (setsockopt(first, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
	    setsockopt(second, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
	    bind(first, (const struct sockaddr *)&name, size))
		return -errno;
	return bind(second, (const struct sockaddr *)&name, size) ? errno : 0;
}

static void part(struct bench *bench)
{
	for (enum who who = 0; who < OUTSIDE; who++) {
		bench->headers[who].flags &= ~PG_HEADER_MEMBERS;
		CHECK(&bench->check,
		      !pg_header_write(bench->kernel, &bench->headers[who], &bench->err), "%s",
		      bench->err.text);
	}
}

int main(void)
{
	struct bench bench = {};
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	if (!place_make(&bench.place))
		return EXIT_FAILURE;
	snprintf(bench.stranger, sizeof(bench.stranger), "%s/stranger", bench.place.outer);
	if (CHECK(&bench.check,
		  !mkdir(bench.stranger, 0755) && !system("ip link set lo up") && !make(&bench),
		  "%s", bench.err.text)) {
		try_all(&bench, true);
		check_group(&bench.check, "members reach each other on loopback, others do not");
		CHECK(&bench.check, !share(&bench), "members do not share a port");
		forget(&bench);
		check_group(&bench.check, "nor do those that were forgotten");
		part(&bench);
		try_all(&bench, false);
		CHECK(&bench.check, share(&bench) == EPERM, "strangers share a port");
		check_group(&bench.check, "members that are strangers do not");
		CHECK(&bench.check,
		      pg_member_add(bench.kernel, 1,
				    &(struct pg_member){.level = PG_MEMBER_LEVEL_MAX + 1},
				    &bench.err) == -EDOM,
		      "a member that is too deep");
	}
	pg_kernel_free(bench.kernel);
	rmdir(bench.stranger);
	place_remove(&bench.place);
	lab_close(&lab);
	check_group(&bench.check, "depth is limited");
	return check_end(&bench.check);
}
