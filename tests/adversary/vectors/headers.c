/* SPDX-License-Identifier: Apache-2.0 */
/* Ordinary sockets with options that change headers, the way, or the source. */
#include "../adversary.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <stdio.h>
#include <string.h>

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78
#endif
#define CLOSED_PORT 6999

/* Segment routing: the sockaddr is A's, the header's destination is the target. */
VECTOR(srh)
{
	/* Length, type, segments left, last entry; the last segment is the sockaddr's. */
	struct {
		uint8_t head[8];
		struct in6_addr segments[2];
	} srh = {.head = {0, 4, 4, 1, 1}};
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);

	srh.segments[1] = attempt->target.in6.sin6_addr;
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_RTHDR, &srh, sizeof(srh)))
		return -errno;
	return send_token(fd, attempt, &attempt->allowed);
}

/* Routing header of type 2: the same, for mobile nodes. */
VECTOR(rthdr2)
{
	struct {
		uint8_t head[8];
		struct in6_addr home;
	} header = {.head = {0, 2, 2, 1}, .home = attempt->allowed.in6.sin6_addr};
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);

	if (setsockopt(fd, IPPROTO_IPV6, IPV6_RTHDR, &header, sizeof(header)))
		return -errno;
	return send_token(fd, attempt, &attempt->target);
}

/* Destination options that carry the token themselves. */
VECTOR(destination_options)
{
	uint8_t header[64] = {0, 7, 0x3e, 60};
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);

	strncpy((char *)header + 4, attempt->token, 59);
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_DSTOPTS, header, sizeof(header)))
		return -errno;
	return send_token(fd, attempt, &attempt->target);
}

/* Loose source routing: the sockaddr is A's, the header's destination is the target. */
VECTOR(lsrr)
{
	uint8_t options[12] = {IPOPT_NOP, IPOPT_LSRR, 7, 4};
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);

	memcpy(options + 4, &attempt->target.in.sin_addr, 4);
	if (setsockopt(fd, IPPROTO_IP, IP_OPTIONS, options, 8))
		return -errno;
	return send_token(fd, attempt, &attempt->allowed);
}

/* An option that anybody may set. */
VECTOR(record_route)
{
	uint8_t options[12] = {IPOPT_RR, 11, 4};
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);

	if (setsockopt(fd, IPPROTO_IP, IP_OPTIONS, options, sizeof(options)))
		return -errno;
	return send_token(fd, attempt, &attempt->target);
}

/* A loopback address by the container's own device. */
VECTOR(loopback_by_device)
{
	union any to = loopback_of(&attempt->target);
	int fd = open_socket(&to, SOCK_DGRAM, 0);

	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, DEVICE, sizeof(DEVICE)))
		return -errno;
	if (!is_v6(&to))
		to.in.sin_addr.s_addr = htonl(0x7f4d0000 | (attempt->number & 0xffff));
	return send_token(fd, attempt, &to);
}

VECTOR(unspecified_by_device)
{
	union any to = attempt->target;
	int fd = open_socket(&to, SOCK_DGRAM, 0);

	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, DEVICE, sizeof(DEVICE)))
		return -errno;
	if (is_v6(&to))
		to.in6.sin6_addr = in6addr_any;
	else
		to.in.sin_addr.s_addr = 0;
	return send_token(fd, attempt, &to);
}

/* A socket with a source that is not the container's: the target's. */
static int forged_socket(const struct attempt *attempt, int type)
{
	union any from = with_port(&attempt->target, CLOSED_PORT - 1);
	bool v6 = is_v6(&from);
	int fd = open_socket(&from, type, 0), result;

	if (fd < 0)
		return fd;
	result = v6 ? set_option(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1)
		    : set_option(fd, IPPROTO_IP, IP_TRANSPARENT, 1);
	if (result)
		return result;
	return bind(fd, &from.sa, size_of(&from)) ? -errno : fd;
}

static int forged_datagram(const struct attempt *attempt, const union any *to)
{
	int fd = forged_socket(attempt, SOCK_DGRAM);

	return fd < 0 ? fd : send_token(fd, attempt, to);
}

/* To a closed port of its own: the kernel's ICMP error goes to the target, with the token. IPv6 by
 * IPV6_FREEBIND, which anybody may set; IPv4 by IP_TRANSPARENT. */
VECTOR(forged_to_own)
{
	union any to = with_port(&attempt->own, CLOSED_PORT);

	return forged_datagram(attempt, &to);
}

VECTOR(forged_to_loopback)
{
	union any to = loopback_of(&attempt->target);

	return forged_datagram(attempt, &to);
}

/* To an allowed address: it answers to the target. */
VECTOR(forged_to_allowed)
{
	return forged_datagram(attempt, &attempt->allowed);
}

/* The source in a control message instead of a bind. */
VECTOR(forged_by_pktinfo)
{
	struct in6_pktinfo info = {.ipi6_addr = attempt->target.in6.sin6_addr};
	union any to = with_port(&attempt->own, CLOSED_PORT);
	int fd = open_socket(&to, SOCK_DGRAM, 0);
	int result = set_option(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1);

	return result ? result
		      : send_control(fd, attempt, &to, IPPROTO_IPV6, IPV6_PKTINFO, &info,
				     sizeof(info));
}

static int forged_stream(const struct attempt *attempt, const union any *to)
{
	int fd = forged_socket(attempt, SOCK_STREAM);

	return fd < 0 ? fd : connect_soon(fd, to);
}

/* A SYN to a closed port of its own: the kernel's RST goes to the target. */
VECTOR(forged_syn_to_closed)
{
	union any to = with_port(&attempt->own, CLOSED_PORT);

	return forged_stream(attempt, &to);
}

/* To a listener of its own: the SYN-ACK does. */
VECTOR(forged_syn_to_listener)
{
	union any to = with_port(&attempt->own, CLOSED_PORT + 2);
	int listener = bound_socket(&to, SOCK_STREAM, 0);

	if (listener < 0 || listen(listener, 8))
		return -errno;
	return forged_stream(attempt, &to);
}

VECTOR(ping_socket)
{
	int protocol = is_v6(&attempt->target) ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	uint8_t echo[128] = {is_v6(&attempt->target) ? 128 : 8};
	union any to = with_port(&attempt->target, 0);
	int fd = open_socket(&to, SOCK_DGRAM, protocol);

	if (fd < 0)
		return fd;
	snprintf((char *)echo + ICMP_SIZE, sizeof(echo) - ICMP_SIZE, "%s", attempt->token);
	return sent(sendto(fd, echo, ICMP_SIZE + strlen(attempt->token), 0, &to.sa, size_of(&to)));
}

/* Phasegate marks sockets of its own; whoever may set marks tries that one, and some others. */
VECTOR(socket_marks)
{
	static const unsigned marks[] = {1, 0x3047, 0x50470000, 0x80000000, 0xffffffff};
	int result = 0;

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);

		result = set_option(fd, SOL_SOCKET, SO_MARK, (int)marks[i]);
		if (!result)
			result = send_token(fd, attempt, &attempt->target);
	}
	return result;
}
