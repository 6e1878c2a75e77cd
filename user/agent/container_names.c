/* SPDX-License-Identifier: Apache-2.0 */
#include "containers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "dns/resolv_conf.h"

/* A container's names are a few lines; one that is larger was not written by a runtime. */
#define HOSTS_MAX (1024 * 1024)

static bool has_a_resolver(const struct pg_container *container)
{
	/* Docker's own answers on its networks but on the default one. */
	return container->runtime == PG_RUNTIME_DOCKER && container->network_count > 0 &&
	       container->network_mode && strcmp(container->network_mode, "bridge") != 0;
}

/* The server is one that the runtime, or whoever started the container, has chosen. */
static bool is_vouched_for(const struct pg_container *container, const struct pg_addr *addr)
{
	struct pg_addr docker;

	if (has_a_resolver(container) && pg_addr_parse("127.0.0.11", &docker) == 0 &&
	    pg_addr_compare(&docker, addr) == 0)
		return true;
	for (size_t i = 0; i < container->dns_count; i++)
		if (pg_addr_compare(&container->dns[i], addr) == 0)
			return true;
	for (size_t i = 0; i < container->network_count; i++)
		for (size_t j = 0; j < container->networks[i].gateway_count; j++)
			if (pg_addr_compare(&container->networks[i].gateways[j], addr) == 0)
				return true;
	return false;
}

static bool contains(const struct pg_endpoint *servers, size_t count,
		     const struct pg_endpoint *server)
{
	for (size_t i = 0; i < count; i++)
		if (servers[i].port == server->port &&
		    pg_addr_compare(&servers[i].addr, &server->addr) == 0)
			return true;
	return false;
}

void pg_containers_resolvers(struct pg_agent *agent, const struct pg_member_list *list,
			     struct pg_endpoint *servers, size_t max, size_t *ret_count)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++) {
		struct pg_endpoint own[PG_NAMESERVERS_MAX];
		const struct pg_container *container;
		struct pg_error unused = {};
		size_t found = 0;

		if (!list->containers[i])
			continue;
		container = pg_member_container_network(list->containers[i]);
		if (!container->resolv_conf ||
		    pg_resolv_conf_read(container->resolv_conf, own, PG_NAMESERVERS_MAX, &found,
					&unused) < 0)
			continue;
		for (size_t j = 0; j < found && count < max; j++)
			if (is_vouched_for(container, &own[j].addr) &&
			    !contains(servers, count, &own[j]))
				servers[count++] = own[j];
	}
	*ret_count = count;
}

#define START_TIME_FIELD 22 /* of /proc/PID/stat, the first behind the command is 3 */

/* In clock ticks since boot; false: it has ended. */
static bool read_start(pid_t pid, uint64_t *ret_ticks)
{
	pg_autofree char *text = NULL;
	struct pg_error unused = {};
	char path[32], *at;
	size_t size;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (pg_file_read(path, 4096, &text, &size, &unused) < 0)
		return false;
	/* The command's name may have anything in it, also a parenthesis. */
	at = strrchr(text, ')');
	for (int field = 2; at && field < START_TIME_FIELD; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return false;
	*ret_ticks = strtoull(at, NULL, 10);
	return true;
}

/*
 * When nothing of the container's had run yet. What the runtime says is too late: the container may
 * have run for milliseconds by then. Its first process was begun by the runtime. But that is told
 * by a clock that stands still when the other one is set.
 */
static uint64_t start_of(const struct pg_container *container)
{
	const uint64_t boot = pg_clock_ns(CLOCK_REALTIME) - pg_boottime_ns();
	uint64_t ticks, begun;

	if (!read_start(container->pid, &ticks))
		return 0;
	begun = boot + ticks * (PG_NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
	return begun < container->started ? begun : container->started;
}

static bool is_as_started(const struct stat *file, const struct pg_container *container)
{
	const uint64_t changed =
		(uint64_t)file->st_ctim.tv_sec * PG_NSEC_PER_SEC + (uint64_t)file->st_ctim.tv_nsec;

	return S_ISREG(file->st_mode) && changed <= start_of(container) &&
	       file->st_size <= HOSTS_MAX;
}

static int append(int to, int from, const char *path, struct pg_error *err)
{
	char part[16384];
	size_t total = 0;
	ssize_t got;

	while ((got = read(from, part, sizeof(part))) > 0) {
		total += (size_t)got;
		/* The file may grow while it is read. */
		if (total > HOSTS_MAX || write(to, part, (size_t)got) != got)
			return pg_fail(err, -EIO, "cannot copy %s", path);
	}
	if (got < 0 || write(to, "\n", 1) != 1)
		return pg_fail(err, -EIO, "cannot copy %s", path);
	return 0;
}

/* What the runtime itself was told, whatever has become of the file. */
static int add_extra_hosts(struct pg_agent *agent, const struct pg_container *container, int hosts,
			   struct pg_error *err)
{
	for (size_t i = 0; i < container->extra_host_count; i++) {
		const struct pg_container_host *host = &container->extra_hosts[i];
		char message[512], address[PG_ADDR_TEXT];

		if (!host->gateway) {
			pg_addr_format(&host->addr, address);
			if (dprintf(hosts, "%s %s\n", address, host->name) < 0)
				return pg_fail_errno(err, -errno, "cannot copy %s",
						     container->hosts);
			continue;
		}
		snprintf(message, sizeof(message),
			 "the hosts file of the container %s was written since its start, so the"
			 " address of %s in it is not used",
			 container->name, host->name);
		pg_agent_warn(agent, "hosts_changed", message);
	}
	return 0;
}

static int add_hosts(struct pg_agent *agent, const struct pg_container *container, int *hosts,
		     struct pg_error *err)
{
	pg_autoclose int fd =
		open(container->hosts, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat file;

	if (*hosts < 0)
		*hosts = memfd_create("phasegate-hosts", MFD_CLOEXEC);
	if (*hosts < 0)
		return pg_fail_errno(err, -errno, "cannot copy %s", container->hosts);
	if (fd < 0 || fstat(fd, &file) || !is_as_started(&file, container))
		return add_extra_hosts(agent, container, *hosts, err);
	return append(*hosts, fd, container->hosts, err);
}

int pg_containers_hosts(struct pg_agent *agent, const struct pg_member_list *list, int *ret_fd,
			struct pg_error *err)
{
	pg_autoclose int hosts = -1;
	int error = 0;

	for (size_t i = 0; !error && i < list->count; i++) {
		const struct pg_container *container =
			list->containers[i] ? pg_member_container_network(list->containers[i])
					    : NULL;

		if (container && container->hosts)
			error = add_hosts(agent, container, &hosts, err);
	}
	if (!error)
		*ret_fd = PG_TAKE_FD(hosts);
	return error;
}
