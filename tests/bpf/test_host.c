// SPDX-License-Identifier: Apache-2.0
/*
 * The host's own addresses, which an entry covers: it opens only the operator's ports there, and
 * everything elsewhere. The lists can be replaced while they are in force.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <phasegate/abi/counter.h>

#include "check.h"
#include "kernel/attach.h"
#include "kernel/set.h"
#include "lab.h"
#include "place.h"

/* Documentation addresses (RFC 5737), all on the link. */
#define NETWORK	  "192.0.2.0"
#define HOST	  "192.0.2.7"
#define HOST_TOO  "192.0.2.8"
#define ELSEWHERE "192.0.2.9"

struct bench {
	struct check check;
	struct place place;
	struct pg_kernel *kernel;
	struct pg_error err;
	struct pg_header header;
};

static struct pg_addr address(const char *text)
{
	return pg_addr_from_v4(inet_addr(text));
}

static int confine(struct bench *bench)
{
	struct pg_prefix prefix = {.addr = address(NETWORK), .length = 24};
	const struct pg_address_set set = {.v4 = &prefix, .v4_count = 1};
	const struct pg_state_value setup = {.generation = 1};
	pg_autoclose int fd = open(bench->place.outer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct pg_header *header = &bench->header;
	struct pg_kernel_set filled;
	int error = pg_kernel_open(NULL, &bench->kernel, &bench->err);

	*header = (struct pg_header){
		.magic = PG_HEADER_MAGIC,
		.flags = PG_HEADER_HOST_PORTS,
		.level = (__u8)bench->place.level,
		.env_id = bench->place.id,
		.cgroup_id = bench->place.id,
	};
	if (!error)
		error = pg_set_create(bench->kernel, &set, &filled, &bench->err);
	if (!error)
		error = pg_state_take(bench->kernel, &header->state, &bench->err);
	if (!error)
		error = pg_attach_all(bench->kernel, fd, pg_hooks(false), &bench->err);
	if (error)
		return error;
	header->slots[0][PG_PHASE_SETUP] = (struct pg_phase_slot){.mode = PG_MODE_ALLOWLIST,
								  .set = filled.slot,
								  .tables = filled.tables};
	header->slots[0][PG_PHASE_RUN].mode = PG_MODE_PUBLIC;
	error = pg_header_write(bench->kernel, header, &bench->err);
	return error ? error : pg_state_write(bench->kernel, header->state, &setup, &bench->err);
}

/* errno of a UDP connect() from the cgroup. */
static int try(const struct bench *bench, const char *addr, uint16_t port)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = inet_addr(addr)};
	int status;
	pid_t pid = fork();

	if (!pid) {
		int fd;

		if (!place_enter(bench->place.outer))
			_exit(EXIT_FAILURE);
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		_exit(connect(fd, (const struct sockaddr *)&to, sizeof(to)) ? errno : 0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : -1;
}

static void check_port(struct bench *bench, const char *addr, uint16_t port, bool open,
		       const char *when)
{
	const int error = try(bench, addr, port);

	CHECK(&bench->check, error == (open ? 0 : EPERM), "%s: %s port %u: %s", when, addr, port,
	      strerror(error));
}

static void set(struct bench *bench, const char *const *addrs, size_t count, const uint16_t *ports,
		size_t port_count)
{
	struct pg_addr list[4];
	__be16 port_list[4];

	for (size_t i = 0; i < count; i++)
		list[i] = address(addrs[i]);
	for (size_t i = 0; i < port_count; i++)
		port_list[i] = htons(ports[i]);
	CHECK(&bench->check,
	      !pg_host_addresses_set(bench->kernel, list, count, &bench->err) &&
		      !pg_host_ports_set(bench->kernel, port_list, port_count, &bench->err),
	      "%s", bench->err.text);
}

static void run(struct bench *bench)
{
	const struct pg_state_value public = {.generation = 2, .phase = PG_PHASE_RUN};

	check_port(bench, HOST, 80, true, "before");
	set(bench, (const char *const[]){HOST}, 1, (const uint16_t[]){443, 8080}, 2);
	check_port(bench, HOST, 80, false, "one address");
	check_port(bench, HOST, 443, true, "one address");
	check_port(bench, HOST, 8080, true, "one address");
	check_port(bench, HOST_TOO, 80, true, "one address");
	check_port(bench, ELSEWHERE, 80, true, "one address");
	set(bench, (const char *const[]){HOST_TOO, HOST}, 2, (const uint16_t[]){80}, 1);
	check_port(bench, HOST, 443, false, "replaced");
	check_port(bench, HOST, 80, true, "replaced");
	check_port(bench, HOST_TOO, 443, false, "replaced");
	check_port(bench, HOST_TOO, 80, true, "replaced");
	set(bench, (const char *const[]){HOST_TOO}, 1, NULL, 0);
	check_port(bench, HOST, 443, true, "no ports");
	check_port(bench, HOST_TOO, 80, false, "no ports");
	CHECK(&bench->check,
	      !pg_state_write(bench->kernel, bench->header.state, &public, &bench->err), "%s",
	      bench->err.text);
	check_port(bench, HOST_TOO, 80, true, "public");
}

int main(void)
{
	struct bench bench = {};
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	if (!place_make(&bench.place))
		return EXIT_FAILURE;
	if (CHECK(&bench.check,
		  !system("ip link add link0 type veth peer name link1 &&"
			  " ip addr add 192.0.2.1/24 dev link0 &&"
			  " for l in lo link0 link1; do ip link set $l up; done") &&
			  !confine(&bench),
		  "%s", bench.err.text))
		run(&bench);
	pg_kernel_free(bench.kernel);
	place_remove(&bench.place);
	lab_close(&lab);
	check_group(&bench.check, "entries open the host's own ports only");
	return check_end(&bench.check);
}
