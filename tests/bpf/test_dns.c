// SPDX-License-Identifier: Apache-2.0
/*
 * DNS in the path, with real sockets: whatever nameserver is asked, Phasegate's listener is, and
 * the application sees the one that it asked. Nothing else reaches port 53 or a listener.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/set.h>

#include "check.h"
#include "phasegate.skel.h"
#include "world.h"

#define QUERY 40

#ifndef IPPROTO_UDPLITE
#define IPPROTO_UDPLITE 136
#endif

struct bench {
	struct check check;
	struct world world;
	struct world_listener listener;
};

static const struct row {
	int family;
	const char *server;
} rows[] = {
	{AF_INET, "192.0.2.53"},	 {AF_INET, "127.0.0.53"},	  {AF_INET, "127.0.0.11"},
	{AF_INET6, "2001:db8::53"},	 {AF_INET6, "fd00::53"},	  {AF_INET6, "::1"},
	{AF_INET6, "::ffff:192.0.2.53"}, {AF_INET6, "::ffff:127.0.0.53"},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static bool is_mapped(const char *server)
{
	return !strncmp(server, "::ffff:", 7);
}

/* Which of the listener's sockets the row goes to. */
static size_t end_of(const struct row *row)
{
	return row->family == AF_INET6 && !is_mapped(row->server);
}

/* The listener sends back what it gets. */
static bool echo(int fd, size_t expected)
{
	struct sockaddr_storage peer;
	socklen_t size = sizeof(peer);
	char octets[1024];
	ssize_t n = recvfrom(fd, octets, sizeof(octets), 0, (struct sockaddr *)&peer, &size);

	return n == (ssize_t)expected &&
	       sendto(fd, octets, (size_t)n, 0, (struct sockaddr *)&peer, size) == n;
}

static bool nothing_arrives(int fd)
{
	char octet;

	return recv(fd, &octet, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static struct world_name source_of(int fd)
{
	struct world_name from = {.size = sizeof(from.storage)};
	char octets[1024];

	if (recvfrom(fd, octets, sizeof(octets), 0, (struct sockaddr *)&from.storage, &from.size) <
	    0)
		from.size = 0;
	return from;
}

static struct world_name peer_of(int fd)
{
	struct world_name peer = {.size = sizeof(peer.storage)};

	if (getpeername(fd, (struct sockaddr *)&peer.storage, &peer.size))
		peer.size = 0;
	return peer;
}

static void ask_udp(struct bench *bench, const struct row *row, bool connected)
{
	const int fd = world_client(&bench->world, row->family, SOCK_DGRAM, 0);
	const struct world_name to = world_name(row->server, 53);
	const uint64_t before = world_counted(&bench->world, PG_REASON_LISTENER);
	struct check *check = &bench->check;
	struct world_name seen;
	int error = 0;

	if (connected && connect(fd, (const struct sockaddr *)&to.storage, to.size))
		error = errno;
	CHECK(check, !error, "%s: connect: %s", row->server, strerror(error));
	if (connected) {
		seen = peer_of(fd);
		CHECK(check, world_name_is(&seen, row->server, 53), "%s: getpeername", row->server);
	}
	error = world_send(fd, connected ? NULL : &to, QUERY);
	CHECK(check, !error, "%s: send: %s", row->server, strerror(error));
	CHECK(check, echo(bench->listener.udp[end_of(row)], QUERY), "%s: does not arrive",
	      row->server);
	seen = source_of(fd);
	CHECK(check, world_name_is(&seen, row->server, 53), "%s: another source", row->server);
	/* One for the hook and one for the packet; a mapped peer has a hook for each send too. */
	CHECK(check,
	      world_counted(&bench->world, PG_REASON_LISTENER) - before ==
		      (connected && is_mapped(row->server) ? 3 : 2),
	      "%s: %s: counted %llu", row->server, connected ? "connected" : "unconnected",
	      (unsigned long long)(world_counted(&bench->world, PG_REASON_LISTENER) - before));
	close(fd);
}

static void ask_tcp(struct bench *bench, const struct row *row)
{
	const int fd = world_client(&bench->world, row->family, SOCK_STREAM, 0);
	const struct world_name to = world_name(row->server, 53);
	struct check *check = &bench->check;
	struct world_name seen;
	char octets[QUERY];
	int accepted;

	if (!CHECK(check, !connect(fd, (const struct sockaddr *)&to.storage, to.size),
		   "%s: connect: %s", row->server, strerror(errno)))
		return;
	accepted = accept(bench->listener.tcp[end_of(row)], NULL, NULL);
	seen = peer_of(fd);
	CHECK(check, world_name_is(&seen, row->server, 53), "%s: getpeername", row->server);
	CHECK(check, !world_send(fd, NULL, QUERY), "%s: send: %s", row->server, strerror(errno));
	CHECK(check, recv(accepted, octets, QUERY, MSG_WAITALL) == QUERY, "%s: does not arrive",
	      row->server);
	CHECK(check,
	      !world_send(accepted, NULL, QUERY) && recv(fd, octets, QUERY, MSG_WAITALL) == QUERY,
	      "%s: no answer", row->server);
	close(accepted);
	close(fd);
}

static void try_redirect(struct bench *bench, enum pg_phase phase, const char *name)
{
	world_switch(&bench->world, phase);
	for (size_t i = 0; i < ROWS; i++) {
		ask_udp(bench, &rows[i], false);
		ask_udp(bench, &rows[i], true);
		ask_tcp(bench, &rows[i]);
	}
	check_group(&bench->check, name);
}

/* Which nameserver was asked last is what is shown, and no other socket is touched. */
static void try_sockets(struct bench *bench)
{
	const int storage = bpf_map__fd(bench->world.skeleton->maps.pg_dns_sockets);
	const struct world_name first = world_name("192.0.2.1", 53),
				second = world_name("192.0.2.2", 53);
	const struct world_name elsewhere = world_name("127.0.0.1", 9);
	const struct world_name direct = world_name(WORLD_LISTENER4, WORLD_PORT);
	const struct world_name mapped = world_name("::ffff:192.0.2.3", 53);
	const struct world_name native = world_name("2001:db8::3", 53);
	struct check *check = &bench->check;
	struct pg_dns_socket asked;
	struct world_name seen;
	int fd;

	world_switch(&bench->world, WORLD_ALLOWLIST);
	fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	CHECK(check, !connect(fd, (const struct sockaddr *)&elsewhere.storage, elsewhere.size),
	      "connect elsewhere: %s", strerror(errno));
	CHECK(check, bpf_map_lookup_elem(storage, &fd, &asked) && errno == ENOENT,
	      "storage on a socket that asked nobody");
	/* It would not receive the answer, which might find another. */
	CHECK(check, world_send(fd, &first, QUERY) == EPERM, "connected elsewhere");
	CHECK(check, nothing_arrives(bench->listener.udp[0]), "connected elsewhere: arrives");
	CHECK(check, !bpf_map_lookup_elem(storage, &fd, &asked) && !asked.unserved,
	      "no storage on a socket that asked");
	close(fd);

	fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	CHECK(check, !world_send(fd, &first, QUERY) && !world_send(fd, &second, QUERY), "send: %s",
	      strerror(errno));
	for (size_t i = 0; i < 2; i++) {
		CHECK(check, echo(bench->listener.udp[0], QUERY), "does not arrive");
		seen = source_of(fd);
		CHECK(check, world_name_is(&seen, "192.0.2.2", 53), "not the server asked last");
	}
	/* The listener itself may be asked, and is shown as the server asked before. */
	CHECK(check, !world_send(fd, &direct, QUERY) && echo(bench->listener.udp[0], QUERY),
	      "asked directly");
	seen = source_of(fd);
	CHECK(check, world_name_is(&seen, "192.0.2.2", 53), "the stored server was overwritten");
	close(fd);

	fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	CHECK(check, !world_send(fd, &direct, QUERY) && echo(bench->listener.udp[0], QUERY),
	      "asked directly, and only so");
	seen = source_of(fd);
	CHECK(check, world_name_is(&seen, WORLD_LISTENER4, WORLD_PORT),
	      "another than the listener");
	close(fd);

	/* One socket for both families, as musl has it. */
	fd = world_client(&bench->world, AF_INET6, SOCK_DGRAM, 0);
	CHECK(check, !world_send(fd, &mapped, QUERY) && echo(bench->listener.udp[0], QUERY),
	      "mapped");
	seen = source_of(fd);
	CHECK(check, world_name_is(&seen, "::ffff:192.0.2.3", 53), "mapped: another source");
	CHECK(check, !world_send(fd, &native, QUERY) && echo(bench->listener.udp[1], QUERY),
	      "native");
	seen = source_of(fd);
	CHECK(check, world_name_is(&seen, "2001:db8::3", 53), "native: another source");
	close(fd);
	check_group(check, "what a socket remembers");
}

/* Sends a UDP packet that the test writes whole, IP header too. Returns errno or 0. */
static int send_raw(const struct bench *bench, const char *destination, uint16_t port)
{
	struct {
		struct iphdr ip;
		struct udphdr udp;
		char query[QUERY];
	} packet = {.ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP}};
	const struct world_name to = world_name(destination, 0);
	const int fd = world_client(&bench->world, AF_INET, SOCK_RAW, IPPROTO_RAW);
	int error = 0;

	packet.ip.saddr = inet_addr("127.0.0.1");
	packet.ip.daddr = inet_addr(destination);
	packet.udp.source = htons(4000);
	packet.udp.dest = htons(port);
	packet.udp.len = htons(sizeof(packet) - sizeof(packet.ip));
	if (sendto(fd, &packet, sizeof(packet), 0, (const struct sockaddr *)&to.storage, to.size) <
	    0)
		error = errno;
	close(fd);
	return error;
}

/* Expects EPERM, and that the reason is counted. */
static void expect_denied(struct bench *bench, int error, enum pg_reason reason, uint64_t before,
			  const char *what)
{
	CHECK(&bench->check, error == EPERM, "%s: %s", what, strerror(error));
	CHECK(&bench->check, world_counted(&bench->world, reason) == before + 1,
	      "%s: for another reason", what);
}

static void try_udplite(struct bench *bench, bool connected)
{
	const int fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE);
	const struct world_name to = world_name("127.0.0.9", 53);
	uint64_t before;

	if (fd < 0) {
		printf("# no UDP-Lite in this kernel\n");
		return;
	}
	if (connected)
		CHECK(&bench->check, !connect(fd, (const struct sockaddr *)&to.storage, to.size),
		      "UDP-Lite: connect: %s", strerror(errno));
	before = world_counted(&bench->world, PG_REASON_DNS_BYPASS);
	expect_denied(bench, world_send(fd, connected ? NULL : &to, QUERY), PG_REASON_DNS_BYPASS,
		      before, connected ? "UDP-Lite, connected" : "UDP-Lite");
	close(fd);
}

/* A socket that was connected to port 53 when DNS was not redirected. */
static void try_connected_before(struct bench *bench, enum pg_phase phase)
{
	const int fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	const struct world_name to = world_name("127.0.0.9", 53);
	uint64_t before;

	world_switch(&bench->world, WORLD_NO_NETWORK);
	CHECK(&bench->check, !connect(fd, (const struct sockaddr *)&to.storage, to.size),
	      "connected before: %s", strerror(errno));
	world_switch(&bench->world, phase);
	before = world_counted(&bench->world, PG_REASON_DNS_BYPASS);
	expect_denied(bench, world_send(fd, NULL, QUERY), PG_REASON_DNS_BYPASS, before,
		      "connected before");
	close(fd);
}

static void try_bypass(struct bench *bench, enum pg_phase phase, const char *name)
{
	struct world_listener foreign =
		world_listen(&bench->world, "127.77.9.9", WORLD_PORT, bench->world.place.id + 1);
	struct world_name to = world_name("127.77.9.9", WORLD_PORT);
	uint64_t before;
	int fd, error;

	try_connected_before(bench, phase);
	before = world_counted(&bench->world, PG_REASON_DNS_BYPASS);
	expect_denied(bench, send_raw(bench, "127.0.0.9", 53), PG_REASON_DNS_BYPASS, before, "raw");
	try_udplite(bench, false);
	try_udplite(bench, true);

	fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	before = world_counted(&bench->world, PG_REASON_NOT_ALLOWED);
	expect_denied(bench, world_send(fd, &to, QUERY), PG_REASON_NOT_ALLOWED, before,
		      "another Environment's listener");
	close(fd);
	CHECK(&bench->check, nothing_arrives(foreign.udp[0]), "arrives at another's listener");
	error = send_raw(bench, "127.77.9.9", WORLD_PORT);
	CHECK(&bench->check, error == EPERM && nothing_arrives(foreign.udp[0]),
	      "raw to another's listener: %s", strerror(error));
	world_unlisten(&foreign);
	check_group(&bench->check, name);
}

/* User space would send the answer, with the name in it, to wherever the source says. */
static void try_forged_source(struct bench *bench, int family, const char *source,
			      const char *server)
{
	const int fd = world_client(&bench->world, family, SOCK_DGRAM, 0), on = 1;
	const struct world_name from = world_name(source, 4100), to = world_name(server, 53);
	const uint64_t before = world_counted(&bench->world, PG_REASON_NOT_ALLOWED);

	if (family == AF_INET)
		setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof(on));
	else
		setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on));
	CHECK(&bench->check, !bind(fd, (const struct sockaddr *)&from.storage, from.size),
	      "%s: bind: %s", source, strerror(errno));
	expect_denied(bench, world_send(fd, &to, QUERY), PG_REASON_NOT_ALLOWED, before, source);
	CHECK(&bench->check, nothing_arrives(bench->listener.udp[family == AF_INET6]),
	      "%s: arrives at the listener", source);
	close(fd);
}

/* What user space has told of may be an address of another of the Environment's namespaces. */
static void try_own_source(struct bench *bench)
{
	struct pg_own_key own = {
		.env_id = bench->world.place.id,
		.addr = {.word = {0, 0, htonl(0xffff), inet_addr("10.9.9.1")}},
	};
	const pg_own_value present = 0;

	CHECK(&bench->check, !system("ip addr add 10.9.9.1/32 dev lo"), "no address");
	try_forged_source(bench, AF_INET, "10.9.9.1", "192.0.2.53");
	bpf_map_update_elem(bpf_map__fd(bench->world.skeleton->maps.pg_own), &own, &present,
			    BPF_ANY);
	try_forged_source(bench, AF_INET, "10.9.9.1", "192.0.2.53");
}

/* A datagram from the port, whose source is said by send and not by the socket. */
static int send_from(int fd, const char *source, const struct world_name *to)
{
	struct in6_pktinfo info6 = {0};
	struct in_pktinfo info4 = {0};
	char octets[QUERY] = {0};
	struct iovec data = {octets, sizeof(octets)};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(info6))] = {0};
	struct msghdr message = {
		.msg_name = (void *)&to->storage,
		.msg_namelen = to->size,
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(sizeof(info4)),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	if (inet_pton(AF_INET, source, &info4.ipi_spec_dst) == 1) {
		*head = (struct cmsghdr){CMSG_LEN(sizeof(info4)), IPPROTO_IP, IP_PKTINFO};
		memcpy(CMSG_DATA(head), &info4, sizeof(info4));
	} else {
		inet_pton(AF_INET6, source, &info6.ipi6_addr);
		*head = (struct cmsghdr){CMSG_LEN(sizeof(info6)), IPPROTO_IPV6, IPV6_PKTINFO};
		memcpy(CMSG_DATA(head), &info6, sizeof(info6));
		message.msg_controllen = CMSG_SPACE(sizeof(info6));
	}
	return sendmsg(fd, &message, 0) == QUERY ? 0 : errno;
}

/* A socket of somebody else, bound to the address and port. */
static int bind_outside(int family, const char *address, uint16_t port)
{
	const struct world_name name = world_name(address, port);
	const int fd = socket(family, SOCK_DGRAM, 0);

	return fd >= 0 && !bind(fd, (const struct sockaddr *)&name.storage, name.size) ? fd : -1;
}

/* The answer would go to somebody else's socket, with octets of the Environment's choice. */
static void try_reflection(struct bench *bench, int family, const char *bound, const char *source,
			   const char *server)
{
	const struct world_name from = world_name(bound, 4102), to = world_name(server, 53);
	const int fd = world_client(&bench->world, family, SOCK_DGRAM, 0);
	const int listener = bench->listener.udp[family == AF_INET6];
	const int other = bind_outside(family, source, 4102);
	struct check *check = &bench->check;

	CHECK(check, !bind(fd, (const struct sockaddr *)&from.storage, from.size) && other >= 0,
	      "%s: bind: %s", bound, strerror(errno));
	CHECK(check, send_from(fd, source, &to) == EPERM, "%s: another's port: %s", source,
	      strerror(errno));
	CHECK(check, nothing_arrives(listener), "%s: another's port: arrives", source);
	close(other);
	CHECK(check, send_from(fd, source, &to) == EPERM, "%s: nobody's port", source);
	CHECK(check, nothing_arrives(listener), "%s: nobody's port: arrives", source);
	/* Its own source. */
	CHECK(check, !send_from(fd, bound, &to) && echo(listener, QUERY), "%s: its own: %s", bound,
	      strerror(errno));
	close(fd);
}

static void try_listener(struct bench *bench)
{
	const struct world_name server = world_name("192.0.2.53", 53);
	const struct world_name direct = world_name(WORLD_LISTENER4, WORLD_PORT);
	struct check *check = &bench->check;
	int fd, tcp, error;

	world_switch(&bench->world, WORLD_ALLOWLIST);
	error = send_raw(bench, WORLD_LISTENER4, WORLD_PORT);
	CHECK(check, error == EPERM && nothing_arrives(bench->listener.udp[0]),
	      "raw to the listener: %s", strerror(error));
	try_forged_source(bench, AF_INET, "198.51.100.7", "192.0.2.53");
	try_forged_source(bench, AF_INET6, "2001:db8:bad::7", "2001:db8::53");
	try_own_source(bench);
	try_reflection(bench, AF_INET, "127.0.0.2", "127.0.0.1", "192.0.2.53");
	CHECK(check, !system("ip addr add 2001:db8:77::1/128 dev lo nodad"), "no address");
	try_reflection(bench, AF_INET6, "::1", "2001:db8:77::1", "2001:db8::53");
	world_switch(&bench->world, WORLD_PUBLIC);
	try_reflection(bench, AF_INET, "127.0.0.2", "127.0.0.1", "192.0.2.53");
	error = send_raw(bench, WORLD_LISTENER4, WORLD_PORT);
	CHECK(check, error == EPERM && nothing_arrives(bench->listener.udp[0]),
	      "raw to the listener in public: %s", strerror(error));
	world_switch(&bench->world, WORLD_ALLOWLIST);

	fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	tcp = world_client(&bench->world, AF_INET, SOCK_STREAM, 0);
	CHECK(check,
	      !connect(fd, (const struct sockaddr *)&server.storage, server.size) &&
		      !connect(tcp, (const struct sockaddr *)&server.storage, server.size),
	      "connect: %s", strerror(errno));
	world_switch(&bench->world, WORLD_NO_NETWORK);
	error = world_send(fd, NULL, QUERY);
	CHECK(check, error == EPERM, "no-network: connected: %s", strerror(error));
	error = world_send(fd, &server, QUERY);
	CHECK(check, error == EPERM, "no-network: %s", strerror(error));
	error = world_send(fd, &direct, QUERY);
	CHECK(check, error == EPERM, "no-network: the listener itself: %s", strerror(error));
	error = connect(fd, (const struct sockaddr *)&server.storage, server.size) ? errno : 0;
	CHECK(check, error == EPERM, "no-network: connect: %s", strerror(error));
	CHECK(check, nothing_arrives(bench->listener.udp[0]), "no-network: arrives");
	close(fd);

	fd = accept(bench->listener.tcp[0], NULL, NULL);
	CHECK(check, !world_send(tcp, NULL, QUERY), "the kernel takes it: %s", strerror(errno));
	usleep(50000);
	CHECK(check, nothing_arrives(fd), "no-network: arrives on an open connection");
	world_switch(&bench->world, WORLD_ALLOWLIST);
	close(fd);
	close(tcp);
	check_group(check, "the listener is for sockets that ask, and get the answer");
}

int main(void)
{
	struct bench bench = {};

	world_open(&bench.world);
	bench.listener =
		world_listen(&bench.world, WORLD_LISTENER4, WORLD_PORT, bench.world.place.id);
	try_redirect(&bench, WORLD_ALLOWLIST, "an allowlist redirects");
	try_redirect(&bench, WORLD_PUBLIC, "public redirects");
	try_sockets(&bench);
	try_bypass(&bench, WORLD_ALLOWLIST, "no way past the listener in an allowlist");
	try_bypass(&bench, WORLD_PUBLIC, "no way past the listener in public");
	try_listener(&bench);
	world_unlisten(&bench.listener);
	world_close(&bench.world);
	return check_end(&bench.check);
}
