/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to the outside, as a process without any privilege can go them. */
#include "verify.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

/* Newer than the C library's headers. */
#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78
#endif
#define ROUTING_HEADER_SEGMENTS 4

/* To itself, or of somebody near. */
#define NEAR_MS 1000
#define PAYLOAD "phasegate"
/* Of a name that nobody can have (RFC 6761), so no entry but a wildcard allows it. */
#define NAME	"phasegate-verify.invalid"

void pg_verify_set(struct pg_verify_try *try, int number)
{
	try->tried = true;
	try->number = number;
}

void pg_verify_set_impossible(struct pg_verify_try *try, int number)
{
	pg_verify_set(try, number);
	try->impossible = true;
}

int pg_verify_socket(int family, int type, int protocol, struct pg_verify_try *try)
{
	int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		pg_verify_set_impossible(try, errno);
	return fd;
}

struct address {
	struct sockaddr_storage storage;
	socklen_t size;
};

static struct address address_of(const struct pg_endpoint *endpoint)
{
	struct address address = {.size = 0};

	address.size = pg_endpoint_to_sockaddr(endpoint, &address.storage);
	return address;
}

/* An IPv4 address in the form of IPv6. */
static struct address mapped_address_of(const struct pg_endpoint *endpoint)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = endpoint->port};
	struct address address = {.size = sizeof(in6)};

	memcpy(&in6.sin6_addr, &endpoint->addr, sizeof(in6.sin6_addr));
	memcpy(&address.storage, &in6, sizeof(in6));
	return address;
}

static const struct sockaddr *sockaddr_of(const struct address *address)
{
	return (const struct sockaddr *)&address->storage;
}

/* Whether a connection comes about is not waited for: the kernel's reports tell. */
static int connect_to(int fd, const struct address *to)
{
	return connect(fd, sockaddr_of(to), to->size) && errno != EINPROGRESS ? errno : 0;
}

static int send_to(int fd, const struct address *to, int flags)
{
	if (sendto(fd, PAYLOAD, sizeof(PAYLOAD), flags | MSG_NOSIGNAL, sockaddr_of(to), to->size) <
		    0 &&
	    errno != EINPROGRESS)
		return errno;
	return 0;
}

static int send_connected(int fd, const struct address *to)
{
	int number = connect_to(fd, to);

	if (!number && send(fd, PAYLOAD, sizeof(PAYLOAD), MSG_NOSIGNAL) < 0)
		number = errno;
	return number;
}

static void try_stream(int protocol, const struct address *to, struct pg_verify_try *try)
{
	pg_autoclose int fd = pg_verify_socket(to->storage.ss_family, SOCK_STREAM, protocol, try);

	if (fd >= 0)
		pg_verify_set(try, connect_to(fd, to));
}

static void try_fast_open(const struct address *to, struct pg_verify_try *try)
{
	pg_autoclose int fd = pg_verify_socket(to->storage.ss_family, SOCK_STREAM, 0, try);
	int number;

	if (fd < 0)
		return;
	number = send_to(fd, to, MSG_FASTOPEN);
	pg_verify_set(try, number);
	try->impossible = number == EOPNOTSUPP; /* by a sysctl */
}

static void try_datagram(int protocol, bool connected, const struct address *to,
			 struct pg_verify_try *try)
{
	pg_autoclose int fd = pg_verify_socket(to->storage.ss_family, SOCK_DGRAM, protocol, try);

	if (fd >= 0)
		pg_verify_set(try, connected ? send_connected(fd, to) : send_to(fd, to, 0));
}

static void try_reconnected(const struct address *to, struct pg_verify_try *try)
{
	const struct sockaddr_in own = {
		.sin_family = AF_INET,
		.sin_port = ((const struct sockaddr_in *)&to->storage)->sin_port,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	const struct sockaddr none = {.sa_family = AF_UNSPEC};
	pg_autoclose int fd = pg_verify_socket(AF_INET, SOCK_DGRAM, 0, try);

	if (fd < 0)
		return;
	(void)!connect(fd, (const struct sockaddr *)&own, sizeof(own));
	(void)!connect(fd, &none, sizeof(none));
	pg_verify_set(try, send_connected(fd, to));
}

static void try_broadcast(const struct address *to, struct pg_verify_try *try)
{
	pg_autoclose int fd = pg_verify_socket(AF_INET, SOCK_DGRAM, 0, try);
	const int on = 1;

	if (fd < 0)
		return;
	(void)!setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	pg_verify_set(try, send_to(fd, to, 0));
}

static void try_ping(const struct address *to, struct pg_verify_try *try)
{
	const struct icmphdr echo = {.type = ICMP_ECHO, .un.echo.sequence = htons(1)};
	pg_autoclose int fd = pg_verify_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP, try);

	if (fd >= 0)
		pg_verify_set(try, sendto(fd, &echo, sizeof(echo), 0, sockaddr_of(to), to->size) < 0
					   ? errno
					   : 0);
}

static int wait_for(int fd, short events, int ms)
{
	struct pollfd pollfd = {.fd = fd, .events = events};

	return poll(&pollfd, 1, ms) == 1 ? 0 : ETIMEDOUT;
}

static int bind_to_loopback(int fd, struct address *ret_own)
{
	const struct pg_endpoint loopback = {.addr = pg_addr_from_v4(htonl(INADDR_LOOPBACK))};

	*ret_own = address_of(&loopback);
	if (bind(fd, sockaddr_of(ret_own), ret_own->size) ||
	    getsockname(fd, (struct sockaddr *)&ret_own->storage, &ret_own->size))
		return errno;
	return 0;
}

static int exchange_stream(int fd, int listener, const struct address *own)
{
	pg_autoclose int accepted = -1;
	char octet;
	int number;

	number = connect_to(fd, own);
	if (!number)
		number = wait_for(listener, POLLIN, NEAR_MS);
	if (number)
		return number;
	accepted = accept(listener, NULL, NULL);
	if (accepted < 0 || wait_for(fd, POLLOUT, NEAR_MS) || send(fd, "", 1, MSG_NOSIGNAL) != 1)
		return errno ? errno : ETIMEDOUT;
	number = wait_for(accepted, POLLIN, NEAR_MS);
	return number || recv(accepted, &octet, 1, 0) == 1 ? number : EIO;
}

static void try_own_stream(struct pg_verify_try *try)
{
	pg_autoclose int listener = pg_verify_socket(AF_INET, SOCK_STREAM, 0, try);
	pg_autoclose int fd = pg_verify_socket(AF_INET, SOCK_STREAM, 0, try);
	struct address own;

	if (listener < 0 || fd < 0)
		return;
	if (bind_to_loopback(listener, &own) || listen(listener, 1))
		pg_verify_set_impossible(try, errno);
	else
		pg_verify_set(try, exchange_stream(fd, listener, &own));
}

static void try_own_datagram(struct pg_verify_try *try)
{
	pg_autoclose int fd = pg_verify_socket(AF_INET, SOCK_DGRAM, 0, try);
	char received[sizeof(PAYLOAD)];
	struct address own;
	int number;

	if (fd < 0)
		return;
	if (bind_to_loopback(fd, &own)) {
		pg_verify_set_impossible(try, errno);
		return;
	}
	number = send_to(fd, &own, 0);
	if (!number)
		number = wait_for(fd, POLLIN, NEAR_MS);
	if (!number && recv(fd, received, sizeof(received), 0) != sizeof(received))
		number = EIO;
	pg_verify_set(try, number);
}

static void try_bound_loopback(const struct address *to, struct pg_verify_try *try)
{
	pg_autoclose int fd = pg_verify_socket(AF_INET, SOCK_DGRAM, 0, try);
	char name[IFNAMSIZ];

	if (fd < 0)
		return;
	if (!pg_verify_find_device(name))
		pg_verify_set_impossible(try, ENODEV);
	else if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, (socklen_t)strlen(name)))
		pg_verify_set_impossible(try, errno);
	else
		pg_verify_set(try, send_to(fd, to, 0));
}

/* From an address that is not its own to itself, where nobody listens: the kernel's error would
 * carry the payload to that address. */
static void try_forged_source(const struct pg_endpoint *forged, struct pg_verify_try *try)
{
	pg_autoclose int fd = pg_verify_socket(AF_INET6, SOCK_DGRAM, 0, try);
	const struct pg_endpoint source = {.addr = forged->addr};
	const struct pg_endpoint own = {.addr = pg_addr_from_bytes(in6addr_loopback.s6_addr),
					.port = forged->port};
	const struct address from = address_of(&source), to = address_of(&own);
	const int on = 1;

	if (fd < 0)
		return;
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on)) ||
	    bind(fd, sockaddr_of(&from), from.size))
		pg_verify_set_impossible(try, errno);
	else
		pg_verify_set(try, send_to(fd, &to, 0));
}

/* To itself, says the address; by way of another, says the header. */
static void try_routing_header(const struct pg_endpoint *by, struct pg_verify_try *try)
{
	pg_autoclose int fd = pg_verify_socket(AF_INET6, SOCK_DGRAM, 0, try);
	const struct pg_endpoint own = {.addr = pg_addr_from_bytes(in6addr_loopback.s6_addr),
					.port = by->port};
	const struct address to = address_of(&own);
	/* RFC 8754, section 2 */
	struct {
		uint8_t next, length, type, segments_left, last_entry, flags;
		uint16_t tag;
		struct in6_addr segments[2];
	} header = {
		.length = 2 * sizeof(struct in6_addr) / 8,
		.type = ROUTING_HEADER_SEGMENTS,
		.segments_left = 1,
		.last_entry = 1,
		.segments[0] = in6addr_loopback,
	};

	if (fd < 0)
		return;
	memcpy(&header.segments[1], &by->addr, sizeof(header.segments[1]));
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_RTHDR, &header, sizeof(header)))
		pg_verify_set_impossible(try, errno);
	else
		pg_verify_set(try, send_to(fd, &to, 0));
}

static void try_dns(const struct address *to, struct pg_verify_try *try)
{
	pg_autoclose int fd = pg_verify_socket(AF_INET, SOCK_DGRAM, 0, try);
	unsigned char query[NS_PACKETSZ];
	uint16_t id = (uint16_t)getpid();
	HEADER answer;
	int size;

	if (fd < 0)
		return;
	size = pg_verify_make_query(NAME, ns_t_a, id, query, sizeof(query));
	if (size < 0)
		return;
	if (connect(fd, sockaddr_of(to), to->size) ||
	    send(fd, query, (size_t)size, MSG_NOSIGNAL) < 0) {
		pg_verify_set(try, errno);
		return;
	}
	pg_verify_set(try, wait_for(fd, POLLIN, PG_VERIFY_NAME_MS));
	try->seen = recv(fd, &answer, sizeof(answer), 0) == sizeof(answer) && answer.qr &&
		    answer.id == id;
}

static void try_vsock(struct pg_verify_try *try)
{
	const struct sockaddr_vm host = {
		.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_HOST,
		.svm_port = PG_VERIFY_PORT_FIRST + PG_VERIFY_VSOCK,
	};
	pg_autoclose int fd = pg_verify_socket(AF_VSOCK, SOCK_STREAM, 0, try);
	socklen_t size = sizeof(int);
	int number = 0;

	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)&host, sizeof(host)) && errno != EINPROGRESS) {
		number = errno;
		/* Nobody is there to carry it. A reset is an answer. */
		if (number != ECONNRESET) {
			pg_verify_set_impossible(try, number);
			return;
		}
	} else {
		number = wait_for(fd, POLLOUT, NEAR_MS);
		if (!number && getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size))
			number = errno;
	}
	pg_verify_set(try, number);
	try->seen = number == 0 || number == ECONNRESET;
	try->impossible = number == ENODEV || number == EADDRNOTAVAIL;
}

static void try_vector(enum pg_verify_vector vector, const struct pg_verify_plan *plan,
		       struct pg_verify_try *try)
{
	const struct address to = address_of(&plan->to), mapped = mapped_address_of(&plan->to);

	switch (vector) {
	case PG_VERIFY_LOOPBACK_TCP:
		return try_own_stream(try);
	case PG_VERIFY_LOOPBACK_UDP:
		return try_own_datagram(try);
	case PG_VERIFY_TCP_FAST_OPEN:
		return try_fast_open(&to, try);
	case PG_VERIFY_MPTCP:
		return try_stream(IPPROTO_MPTCP, &to, try);
	case PG_VERIFY_TCP_MAPPED:
		return try_stream(0, &mapped, try);
	case PG_VERIFY_UDP_CONNECTED:
		return try_datagram(0, true, &to, try);
	case PG_VERIFY_UDP_SENDTO:
	case PG_VERIFY_MULTICAST:
		return try_datagram(0, false, &to, try);
	case PG_VERIFY_UDP_RECONNECTED:
		return try_reconnected(&to, try);
	case PG_VERIFY_UDP_MAPPED:
		return try_datagram(0, false, &mapped, try);
	case PG_VERIFY_UDP_LITE:
		return try_datagram(IPPROTO_UDPLITE, true, &to, try);
	case PG_VERIFY_PING:
		return try_ping(&to, try);
	case PG_VERIFY_BROADCAST:
		return try_broadcast(&to, try);
	case PG_VERIFY_BOUND_LOOPBACK:
		return try_bound_loopback(&to, try);
	case PG_VERIFY_FORGED_SOURCE:
		return try_forged_source(&plan->to, try);
	case PG_VERIFY_ROUTING_HEADER:
		return try_routing_header(&plan->to, try);
	case PG_VERIFY_DNS:
		return try_dns(&to, try);
	case PG_VERIFY_VSOCK:
		return try_vsock(try);
	case PG_VERIFY_MLD:
	case PG_VERIFY_IGMP:
	case PG_VERIFY_VECTOR_COUNT:
		break;
	}
}

void pg_verify_try_all(const struct pg_verify_plan plans[PG_VERIFY_VECTOR_COUNT],
		       struct pg_verify_try tries[PG_VERIFY_VECTOR_COUNT])
{
	if (!plans[PG_VERIFY_MLD].left_out || !plans[PG_VERIFY_IGMP].left_out)
		pg_verify_try_groups(&tries[PG_VERIFY_MLD], &tries[PG_VERIFY_IGMP]);
	for (size_t i = 0; i < PG_VERIFY_VECTOR_COUNT; i++)
		if (!plans[i].left_out)
			try_vector((enum pg_verify_vector)i, &plans[i], &tries[i]);
}
