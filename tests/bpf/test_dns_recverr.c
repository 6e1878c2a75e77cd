// SPDX-License-Identifier: Apache-2.0
/*
 * The hook of setsockopt. IP_RECVERR, with which a client would hear that its query waits for a
 * listener, is not set where there is none yet, and user space is told. Every other call does what
 * it does elsewhere.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "check.h"
#include "phasegate.skel.h"
#include "world.h"

#define QUERY	  40
#define GROUP	  "239.1.2.3"
/* More than two pages, and less than a socket may have (net.core.optmem_max). */
#define SOURCES	  3000
#define INVALID	  (-77)
/* Cookies are given one after the other. */
#define ELSEWHERE (1ULL << 40)

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

struct bench {
	struct check check;
	struct world world;
};

static const struct option {
	int family, level, name;
	const char *server; /* which the option matters for */
	const char *text;
} options[] = {
	{AF_INET, IPPROTO_IP, IP_RECVERR, "192.0.2.53", "IP_RECVERR"},
	{AF_INET6, IPPROTO_IPV6, IPV6_RECVERR, "2001:db8::53", "IPV6_RECVERR"},
	{AF_INET6, IPPROTO_IP, IP_RECVERR, "::ffff:192.0.2.53", "IP_RECVERR of IPv6"},
};

#define OPTIONS (sizeof(options) / sizeof(options[0]))

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? errno : 0;
}

static int get(int fd, int level, int name)
{
	socklen_t size = sizeof(int);
	int value = INVALID;

	return getsockopt(fd, level, name, &value, &size) ? INVALID : value;
}

static int open_client(struct bench *bench, const struct option *option)
{
	return world_client(&bench->world, option->family, SOCK_DGRAM, 0);
}

static size_t take_events(struct bench *bench)
{
	world_take_events(&bench->world);
	return bench->world.event_count;
}

/* Whether turning it on has the effect, and only that. */
static bool is_set(struct bench *bench, int fd, const struct option *option)
{
	take_events(bench);
	return !set(fd, option->level, option->name, 1) &&
	       get(fd, option->level, option->name) == 1 && !take_events(bench);
}

/* Whether it says yes and does nothing, and user space is told. */
static bool is_ignored(struct bench *bench, int fd, const struct option *option)
{
	const struct pg_event *event = &bench->world.events[0].event;

	take_events(bench);
	return !set(fd, option->level, option->name, 1) &&
	       get(fd, option->level, option->name) == 0 && take_events(bench) == 1 &&
	       event->kind == PG_EVENT_UNSERVED;
}

static void declare_served(struct bench *bench, uint64_t env_id, uint64_t netns)
{
	const struct pg_dns_served_key key = {.env_id = env_id, .netns = netns};
	const __u8 present = 1;

	CHECK(&bench->check,
	      !bpf_map_update_elem(bpf_map__fd(bench->world.skeleton->maps.pg_dns_served), &key,
				   &present, BPF_ANY),
	      "writing pg_dns_served: %s", strerror(errno));
}

/* The first query of a client that wants to hear of errors is sent, and waits. */
static void try_unserved(struct bench *bench, const struct option *option)
{
	const struct pg_event *event = &bench->world.events[0].event;
	const struct world_name to = world_name(option->server, 53);
	const uint64_t env_id = bench->world.place.id;
	struct check *check = &bench->check;
	socklen_t size = sizeof(uint64_t);
	uint64_t cookie = 0;
	int fd, error;

	world_unshare();
	fd = open_client(bench, option);
	CHECK(check, is_ignored(bench, fd, option), "%s: not ignored", option->text);
	CHECK(check,
	      event->env_id == env_id && event->protocol == IPPROTO_UDP &&
		      event->generation == bench->world.generation && !event->remote_port,
	      "%s: another event", option->text);
	/* Before Linux 5.14 the kernel does not tell. */
	getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size);
	CHECK(check, event->netns && (!cookie || event->netns == cookie), "%s: netns %llu",
	      option->text, (unsigned long long)event->netns);

	declare_served(bench, env_id + 1, event->netns);
	declare_served(bench, env_id, event->netns + ELSEWHERE);
	CHECK(check, is_ignored(bench, fd, option), "%s: somebody else is served", option->text);
	error = world_send(fd, &to, QUERY);
	CHECK(check, !error, "%s: send: %s", option->text, strerror(error));
	CHECK(check,
	      take_events(bench) == 2 && bench->world.events[1].event.kind == PG_EVENT_PARKED,
	      "%s: not parked", option->text);

	declare_served(bench, env_id, event->netns);
	CHECK(check, is_set(bench, fd, option), "%s: served", option->text);
	close(fd);
}

/* Where DNS is not redirected, and what was set there. */
static void try_phases(struct bench *bench, const struct option *option)
{
	const struct world_name to = world_name(option->server, 53);
	struct pg_header *header = &bench->world.header;
	struct check *check = &bench->check;
	int fd, error;

	world_unshare();
	fd = open_client(bench, option);
	world_switch(&bench->world, WORLD_NO_NETWORK);
	CHECK(check, is_set(bench, fd, option), "%s: no-network", option->text);
	world_switch(&bench->world, WORLD_PUBLIC);
	error = world_send(fd, &to, QUERY);
	CHECK(check, error == ENOBUFS, "%s: set before: %s", option->text, strerror(error));
	take_events(bench);
	CHECK(check,
	      !set(fd, option->level, option->name, 0) &&
		      get(fd, option->level, option->name) == 0 && !take_events(bench),
	      "%s: turned off", option->text);
	CHECK(check, is_ignored(bench, fd, option), "%s: public", option->text);

	header->flags &= ~PG_HEADER_DNS_LISTENER;
	world_switch(&bench->world, WORLD_ALLOWLIST);
	CHECK(check, is_set(bench, fd, option), "%s: no listener", option->text);
	header->flags |= PG_HEADER_DNS_LISTENER;
	header->magic ^= 1;
	world_write_header(&bench->world);
	CHECK(check, is_set(bench, fd, option), "%s: no policy", option->text);
	header->magic ^= 1;
	world_write_header(&bench->world);
	close(fd);
}

/* The kernel takes one octet for IPv4, and needs four for IPv6. */
static void try_sizes(struct bench *bench)
{
	const __u8 octets[] = {1, 0, 0, 0, 1};
	struct check *check = &bench->check;
	int fd, fd6;

	world_unshare();
	fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	fd6 = world_client(&bench->world, AF_INET6, SOCK_DGRAM, 0);
	for (socklen_t size = 1; size <= sizeof(octets); size++) {
		take_events(bench);
		CHECK(check,
		      !setsockopt(fd, IPPROTO_IP, IP_RECVERR, octets, size) &&
			      get(fd, IPPROTO_IP, IP_RECVERR) == 0 && take_events(bench) == 1,
		      "IP_RECVERR of %u octets", size);
		if (size < sizeof(int))
			CHECK(check,
			      setsockopt(fd6, IPPROTO_IPV6, IPV6_RECVERR, octets, size) &&
				      errno == EINVAL && !take_events(bench),
			      "IPV6_RECVERR of %u octets", size);
	}
	for (socklen_t size = 0; size < sizeof(int); size++)
		CHECK(check,
		      !setsockopt(fd, IPPROTO_IP, IP_RECVERR, octets + 1, size) &&
			      !take_events(bench),
		      "turned off by %u octets", size);
	CHECK(check, setsockopt(fd, IPPROTO_IP, IP_RECVERR, NULL, 4) && errno == EFAULT,
	      "no value: %s", strerror(errno));
	CHECK(check,
	      setsockopt(fd, IPPROTO_IP, IP_RECVERR, octets, (socklen_t)-1) && errno == EINVAL,
	      "a negative size: %s", strerror(errno));
	CHECK(check, set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1) == ENOPROTOOPT,
	      "IPv6 of a socket for IPv4: %s", strerror(errno));
	close(fd);
	close(fd6);
	check_group(check, "as the kernel reads the value");
}

static void try_other_sockets(struct bench *bench)
{
	static const struct {
		int family, type, protocol;
	} others[] = {
		{AF_INET, SOCK_STREAM, 0},
		{AF_INET6, SOCK_STREAM, 0},
		{AF_INET, SOCK_RAW, IPPROTO_UDP},
		{AF_INET6, SOCK_RAW, IPPROTO_UDP},
	};

	world_unshare();
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const struct option *option = &options[others[i].family == AF_INET6];
		int fd = world_client(&bench->world, others[i].family, others[i].type,
				      others[i].protocol);

		CHECK(&bench->check, is_set(bench, fd, option), "%s of type %d", option->text,
		      others[i].type);
		close(fd);
	}
	check_group(&bench->check, "sockets that are not UDP");
}

static void try_other_options(struct bench *bench)
{
	struct check *check = &bench->check;
	char name[16] = "";
	socklen_t size = sizeof(name);
	int fd, tcp, local;

	world_unshare();
	fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	tcp = world_client(&bench->world, AF_INET6, SOCK_STREAM, 0);
	local = world_client(&bench->world, AF_UNIX, SOCK_STREAM, 0);
	take_events(bench);
	CHECK(check, !set(fd, IPPROTO_IP, IP_TTL, 7) && get(fd, IPPROTO_IP, IP_TTL) == 7, "IP_TTL");
	CHECK(check, !set(fd, IPPROTO_IP, IP_RECVTTL, 1) && get(fd, IPPROTO_IP, IP_RECVTTL) == 1,
	      "IP_RECVTTL");
	/* The number of IP_RECVERR, at another level. */
	CHECK(check,
	      set(fd, SOL_SOCKET, SO_NO_CHECK, 1) == 0 && get(fd, SOL_SOCKET, SO_NO_CHECK) == 1,
	      "SO_NO_CHECK");
	CHECK(check, set(fd, IPPROTO_IP, 255, 1) == ENOPROTOOPT, "an unknown option");
	CHECK(check,
	      !set(tcp, IPPROTO_IPV6, IPV6_V6ONLY, 1) && get(tcp, IPPROTO_IPV6, IPV6_V6ONLY) == 1,
	      "IPV6_V6ONLY");
	CHECK(check,
	      !setsockopt(tcp, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) &&
		      !getsockopt(tcp, IPPROTO_TCP, TCP_CONGESTION, name, &size) &&
		      !strcmp(name, "reno"),
	      "TCP_CONGESTION: %s", name);
	CHECK(check,
	      !set(local, SOL_SOCKET, SO_PASSCRED, 1) && get(local, SOL_SOCKET, SO_PASSCRED) == 1,
	      "SO_PASSCRED");
	CHECK(check, !take_events(bench), "an event");
	close(fd);
	close(tcp);
	close(local);
	check_group(check, "other options");
}

/* A filter of sources needs as much room as it has sources. */
static void allow_sources(struct bench *bench)
{
	const int fd = open("/proc/sys/net/ipv4/igmp_max_msf", O_WRONLY | O_CLOEXEC);
	char text[16];
	const int size = snprintf(text, sizeof(text), "%d", SOURCES);

	CHECK(&bench->check, fd >= 0 && write(fd, text, (size_t)size) == size, "igmp_max_msf: %s",
	      strerror(errno));
	close(fd);
}

/* What is longer than the hook's copy arrives to its end. */
static void try_long_option(struct bench *bench)
{
	const struct ip_mreqn group = {.imr_multiaddr.s_addr = inet_addr(GROUP), .imr_ifindex = 1};
	socklen_t size = IP_MSFILTER_SIZE(SOURCES);
	struct ip_msfilter *filter = calloc(1, size), *read_back = calloc(1, size);
	struct check *check = &bench->check;
	int fd;

	world_unshare();
	allow_sources(bench);
	fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	CHECK(check, !setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)),
	      "IP_ADD_MEMBERSHIP: %s", strerror(errno));
	filter->imsf_multiaddr = group.imr_multiaddr;
	filter->imsf_interface.s_addr = htonl(INADDR_LOOPBACK);
	filter->imsf_fmode = MCAST_INCLUDE;
	filter->imsf_numsrc = SOURCES;
	for (unsigned int i = 0; i < SOURCES; i++)
		filter->imsf_slist[i].s_addr = htonl(0x0a000001 + i);
	CHECK(check, !setsockopt(fd, IPPROTO_IP, IP_MSFILTER, filter, size), "IP_MSFILTER: %s",
	      strerror(errno));
	*read_back = *filter;
	CHECK(check, !getsockopt(fd, IPPROTO_IP, IP_MSFILTER, read_back, &size), "reading: %s",
	      strerror(errno));
	CHECK(check,
	      read_back->imsf_numsrc == SOURCES &&
		      !memcmp(filter->imsf_slist, read_back->imsf_slist,
			      SOURCES * sizeof(filter->imsf_slist[0])),
	      "%u sources, or others", read_back->imsf_numsrc);
	close(fd);
	free(filter);
	free(read_back);
	check_group(check, "an option of 12 KB");
}

int main(void)
{
	struct bench bench = {};

	world_open(&bench.world);
	for (size_t i = 0; i < OPTIONS; i++)
		try_unserved(&bench, &options[i]);
	check_group(&bench.check, "where nobody listens yet");
	for (size_t i = 0; i < OPTIONS; i++)
		try_phases(&bench, &options[i]);
	check_group(&bench.check, "phases");
	try_sizes(&bench);
	try_other_sockets(&bench);
	try_other_options(&bench);
	try_long_option(&bench);
	world_close(&bench.world);
	return check_end(&bench.check);
}
