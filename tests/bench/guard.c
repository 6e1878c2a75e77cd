/* SPDX-License-Identifier: Apache-2.0 */
/* The guard of a contender's veth, or programs that do nothing in its place. */
#include "contenders.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "kernel/kernel.h"
#include "kernel/link.h"

static void enter(int namespace)
{
	if (setns(namespace, CLONE_NEWNET) < 0)
		fail("entering a network namespace: %s", strerror(errno));
}

/* Its client's address, which scripts/bench made: that from which it reaches the server's. */
static struct pg_addr own_address(const struct contender *contender)
{
	pg_autoclose int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	pg_autoclose int there = open(contender->path, O_RDONLY | O_CLOEXEC);
	struct sockaddr_in local;
	socklen_t size = sizeof(local);
	struct pg_addr own = {0};
	int fd;

	if (here < 0 || there < 0)
		fail("opening %s: %s", contender->path, strerror(errno));
	enter(there);
	fd = connected(SOCK_DGRAM, BENCH_TARGET4, BENCH_PORT);
	enter(here);
	if (getsockname(fd, (struct sockaddr *)&local, &size) < 0)
		fail("reading the address of %s: %s", contender->path, strerror(errno));
	close(fd);
	own.word[2] = htonl(0xffff);
	own.word[3] = local.sin_addr.s_addr;
	return own;
}

static int put(const struct contender *contender, struct pg_kernel *kernel, unsigned int ifindex,
	       struct pg_error *err)
{
	const uint64_t id = pg_environment_member_id(contender->site.environment, 0);
	struct pg_header header;
	int error = pg_header_read(kernel, id, &header, err);

	if (!error)
		error = pg_link_put(kernel, ifindex, &header, 0, NULL, err);
	return error ? error : pg_link_attach(kernel, ifindex, err);
}

void guard_own(const struct contender *contender, const struct machine *machine)
{
	const struct pg_addr own = own_address(contender);
	struct pg_error err = {0};

	if (pg_own_add(pg_host_kernel(machine->host),
		       pg_environment_id(contender->site.environment), &own, 0, &err) < 0)
		fail("%s", err.text);
}

void guard_attach(const struct contender *contender, const struct bench_options *options,
		  const struct machine *machine)
{
	pg_autoclose int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	pg_autoclose int server = open(options->server, O_RDONLY | O_CLOEXEC);
	struct pg_kernel *kernel = pg_host_kernel(machine->host);
	struct pg_error err = {0};
	unsigned int ifindex;

	if (here < 0 || server < 0)
		fail("opening a network namespace: %s", strerror(errno));
	enter(server);
	ifindex = if_nametoindex(contender->space);
	if (!ifindex)
		fail("no interface %s in the server's namespace", contender->space);
	if (contender->kind != CONTENDER_CONFINED)
		empty_attach_veth(ifindex);
	else if (put(contender, kernel, ifindex, &err) < 0)
		fail("%s", err.text);
	enter(here);
}
