/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams, by every way in which a socket can be told where they go. */
#include "../adversary.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#define LARGE 4000

VECTOR(udp_connected)
{
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);

	if (connect(fd, &attempt->target.sa, size_of(&attempt->target)))
		return -errno;
	return send_token(fd, attempt, NULL);
}

VECTOR(udp_sendto)
{
	return send_token(open_socket(&attempt->target, SOCK_DGRAM, 0), attempt, &attempt->target);
}

/* An IPv4 address on an IPv6 socket. */
VECTOR(udp_inet_on_inet6)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return send_token(fd, attempt, &attempt->target);
}

/* AF_UNSPEC, which sendto takes for AF_INET. */
VECTOR(udp_unspec)
{
	union any to = attempt->target;
	int fd = open_socket(&to, SOCK_DGRAM, 0);

	to.sa.sa_family = AF_UNSPEC;
	return sent(sendto(fd, attempt->token, strlen(attempt->token), 0, &to.sa, sizeof(to.in)));
}

/* The second of two messages, the first of which is allowed. */
VECTOR(udp_sendmmsg)
{
	union any loopback = loopback_of(&attempt->target);
	struct iovec part = {(void *)attempt->token, strlen(attempt->token)};
	struct mmsghdr messages[2] = {0};
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0), count;

	for (int i = 0; i < 2; i++) {
		struct msghdr *one = &messages[i].msg_hdr;

		one->msg_name = i ? (void *)&attempt->target : &loopback;
		one->msg_namelen = size_of(&attempt->target);
		one->msg_iov = &part;
		one->msg_iovlen = 1;
	}
	count = sendmmsg(fd, messages, 2, 0);
	if (count < 0)
		return -errno;
	return count == 2 ? 0 : send_token(fd, attempt, &attempt->target);
}

VECTOR(udp_connected_elsewhere)
{
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);

	if (connect(fd, &attempt->allowed.sa, size_of(&attempt->allowed)))
		return -errno;
	return send_token(fd, attempt, &attempt->target);
}

/* Begun for A, and finished after a connect to the target. */
VECTOR(udp_corked)
{
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0), result;

	result = set_option(fd, IPPROTO_UDP, UDP_CORK, 1);
	if (result || (result = send_token(fd, attempt, &attempt->allowed)))
		return result;
	if (connect(fd, &attempt->target.sa, size_of(&attempt->target)))
		return -errno;
	return set_option(fd, IPPROTO_UDP, UDP_CORK, 0);
}

/* Segmented below the hooks. */
VECTOR(udp_gso)
{
	char datagram[LARGE];
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);
	int result = set_option(fd, IPPROTO_UDP, UDP_SEGMENT, 1000);
	size_t size = strlen(attempt->token);

	for (size_t at = 0; at < sizeof(datagram); at++)
		datagram[at] = attempt->token[at % size];
	return result ? result
		      : sent(sendto(fd, datagram, sizeof(datagram), 0, &attempt->target.sa,
				    size_of(&attempt->target)));
}

/* Fragmented below the hooks. */
VECTOR(udp_large)
{
	char datagram[LARGE];
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);
	size_t size = strlen(attempt->token);

	for (size_t at = 0; at < sizeof(datagram); at++)
		datagram[at] = attempt->token[at % size];
	return sent(sendto(fd, datagram, sizeof(datagram), 0, &attempt->target.sa,
			   size_of(&attempt->target)));
}

VECTOR(udp_zerocopy)
{
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);
	int result = set_option(fd, SOL_SOCKET, SO_ZEROCOPY, 1);

	return result ? result
		      : sent(sendto(fd, attempt->token, strlen(attempt->token), MSG_ZEROCOPY,
				    &attempt->target.sa, size_of(&attempt->target)));
}

/* The hooks of connect and send do not run for it. */
VECTOR(udplite_connected)
{
	int fd = open_socket(&attempt->target, SOCK_DGRAM, IPPROTO_UDPLITE);

	if (fd < 0)
		return fd;
	if (connect(fd, &attempt->target.sa, size_of(&attempt->target)))
		return -errno;
	return send_token(fd, attempt, NULL);
}

VECTOR(udplite_sendto)
{
	int fd = open_socket(&attempt->target, SOCK_DGRAM, IPPROTO_UDPLITE);

	return fd < 0 ? fd : send_token(fd, attempt, &attempt->target);
}

VECTOR(dns_port)
{
	union any to = with_port(&attempt->target, 53);

	return send_token(open_socket(&to, SOCK_DGRAM, 0), attempt, &to);
}

static int embedded(const struct attempt *attempt, const char *format)
{
	char text[INET6_ADDRSTRLEN], hex[16];
	union any to = {.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)}};
	uint32_t address = ntohl(attempt->other.in.sin_addr.s_addr);

	snprintf(hex, sizeof(hex), "%x:%x", address >> 16, address & 0xffff);
	snprintf(text, sizeof(text), format, hex);
	inet_pton(AF_INET6, text, &to.in6.sin6_addr);
	return send_token(open_socket(&to, SOCK_DGRAM, 0), attempt, &to);
}

/* IPv4 addresses in IPv6 ones, that a translator or a tunnel on the way understands. */
VECTOR(ipv6_of_6to4)
{
	return embedded(attempt, "2002:%s::1");
}

VECTOR(ipv6_of_nat64)
{
	return embedded(attempt, "64:ff9b::%s");
}

VECTOR(ipv6_compatible)
{
	return embedded(attempt, "::%s");
}

/* From the port of packets that were built by hand, when whoever got them has answered. */
VECTOR(udp_from_port)
{
	union any from = with_port(&attempt->own, SOURCE);
	int fd = bound_socket(&from, SOCK_DGRAM, 0);
	struct pollfd poller = {.fd = fd, .events = POLLIN};

	if (fd < 0)
		return fd;
	poll(&poller, 1, PATIENCE_MS);
	return send_token(fd, attempt, &attempt->target);
}
