/* SPDX-License-Identifier: Apache-2.0 */
/* Raw sockets (CAP_NET_RAW): the application writes the headers. */
#include "../adversary.h"

#include <errno.h>
#include <linux/filter.h>
#include <string.h>

#define FIN 1
#define SYN 2
#define RST 4
#define ACK 16

/* The kernel writes the IP header. */
static int send_protocol(const union any *target, int protocol, const void *data, size_t size)
{
	union any to = with_port(target, 0);
	int fd = open_socket(&to, SOCK_RAW, protocol);

	return fd < 0 ? fd : sent(sendto(fd, data, size, 0, &to.sa, size_of(&to)));
}

VECTOR(raw_icmp)
{
	uint8_t packet[ROOM];
	bool v6 = is_v6(&attempt->target);
	size_t head = header_size(&attempt->target);
	size_t size = put_echo(packet, &attempt->own, &attempt->target, attempt->token);

	return send_protocol(&attempt->target, v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP, packet + head,
			     size - head);
}

static int raw_icmp_type(const struct attempt *attempt, uint8_t type, const union any *to, int hops)
{
	uint8_t message[ROOM] = {type};
	bool v6 = is_v6(to);
	union any where = with_port(to, 0);
	int fd = open_socket(to, SOCK_RAW, v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);

	if (fd < 0)
		return fd;
	if (v6) {
		set_option(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, hops);
		set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, hops);
		set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, index_of(DEVICE));
	}
	strncpy((char *)message + 24, attempt->token, ROOM - 25);
	return sent(
		sendto(fd, message, 24 + strlen(attempt->token), 0, &where.sa, size_of(&where)));
}

VECTOR(raw_icmp_timestamp)
{
	return raw_icmp_type(attempt, 13, &attempt->target, 64);
}

VECTOR(raw_icmp_redirect)
{
	return raw_icmp_type(attempt, is_v6(&attempt->target) ? 137 : 5, &attempt->target, 255);
}

/* As the kernel's neighbour discovery, which passes: to the target, and to all. */
VECTOR(raw_neighbour)
{
	union any all = attempt->target;
	int result = raw_icmp_type(attempt, 135, &attempt->target, 255);

	memset(&all.in6.sin6_addr, 0, 16);
	all.in6.sin6_addr.s6_addr[0] = 0xff;
	all.in6.sin6_addr.s6_addr[1] = 2;
	all.in6.sin6_addr.s6_addr[15] = 1;
	return raw_icmp_type(attempt, 136, &all, 255) ?: result;
}

/* As its multicast reports. */
VECTOR(raw_group_report)
{
	uint8_t report[8] = {0x16};

	if (is_v6(&attempt->target))
		return raw_icmp_type(attempt, 143, &attempt->group, 1);
	memcpy(report + 4, &attempt->group.in.sin_addr, 4);
	return send_protocol(&attempt->group, IPPROTO_IGMP, report, sizeof(report));
}

/* The header says the target, the sockaddr A. */
static int headers(const struct attempt *attempt, const uint8_t *packet, size_t size)
{
	return send_packet(packet, size, &attempt->allowed);
}

VECTOR(raw_udp)
{
	uint8_t packet[ROOM];
	size_t size = put_udp(packet, &attempt->own, &attempt->target, PORT, attempt->token);

	return headers(attempt, packet, size);
}

VECTOR(raw_dns)
{
	uint8_t packet[ROOM];
	size_t size = put_udp(packet, &attempt->own, &attempt->target, 53, attempt->token);

	return headers(attempt, packet, size);
}

static int raw_tcp(const struct attempt *attempt, uint8_t flags)
{
	uint8_t packet[ROOM];
	size_t size = put_tcp(packet, &attempt->own, &attempt->target, PORT, flags, attempt->token);

	return headers(attempt, packet, size);
}

VECTOR(raw_tcp_syn)
{
	return raw_tcp(attempt, SYN);
}

/* As the answers that pass from TCP sockets. */
VECTOR(raw_tcp_rst)
{
	return raw_tcp(attempt, RST);
}

VECTOR(raw_tcp_syn_ack)
{
	return raw_tcp(attempt, SYN | ACK);
}

VECTOR(raw_tcp_fin)
{
	return raw_tcp(attempt, FIN | ACK);
}

/* From the target to the container itself, which answers to the target with what was asked. */
VECTOR(raw_forged_echo)
{
	uint8_t packet[ROOM];
	size_t size = put_echo(packet, &attempt->target, &attempt->own, attempt->token);

	return send_packet(packet, size, &attempt->own);
}

VECTOR(raw_forged_udp)
{
	uint8_t packet[ROOM];
	size_t size = put_udp(packet, &attempt->target, &attempt->own, 6998, attempt->token);

	return send_packet(packet, size, &attempt->own);
}

VECTOR(raw_forged_syn)
{
	uint8_t packet[ROOM];
	size_t size = put_tcp(packet, &attempt->target, &attempt->own, 6998, SYN, NULL);

	return send_packet(packet, size, &attempt->own);
}

/* From the target to A. */
VECTOR(raw_forged_to_allowed)
{
	uint8_t packet[ROOM];
	size_t size = put_udp(packet, &attempt->target, &attempt->allowed, PORT, attempt->token);

	return headers(attempt, packet, size);
}

/* Its ports are in another fragment, which never comes. */
VECTOR(raw_fragment)
{
	uint8_t packet[ROOM];
	size_t size = put_udp(packet, &attempt->own, &attempt->target, PORT, attempt->token);
	size_t head = header_size(&attempt->target);

	if (!is_v6(&attempt->target)) {
		packet[6] = 0x20;
		packet[7] = 1;
		return headers(attempt, packet, size);
	}
	memmove(packet + head + 8, packet + head, size - head);
	memcpy(packet + head, (uint8_t[]){IPPROTO_UDP, 0, 0, 9, 1, 2, 3, 4}, 8);
	return headers(attempt, packet,
		       put_ip(packet, &attempt->own, &attempt->target, IPPROTO_FRAGMENT,
			      size - head + 8));
}

/* In a header that A unpacks. */
static int tunnelled(const struct attempt *attempt, int protocol, const void *before, size_t size)
{
	uint8_t packet[ROOM];

	memcpy(packet, before, size);
	size += put_udp(packet + size, &attempt->own, &attempt->target, PORT, attempt->token);
	return send_protocol(&attempt->allowed, protocol, packet, size);
}

VECTOR(raw_ipip)
{
	return tunnelled(attempt, is_v6(&attempt->target) ? IPPROTO_IPV6 : IPPROTO_IPIP, "", 0);
}

VECTOR(raw_gre)
{
	bool v6 = is_v6(&attempt->target);

	return tunnelled(attempt, IPPROTO_GRE, v6 ? "\0\0\x86\xdd" : "\0\0\x08\0", 4);
}

VECTOR(raw_6in4)
{
	uint8_t packet[ROOM];
	size_t size = put_udp(packet, &attempt->other, &attempt->other, PORT, attempt->token);

	return send_protocol(&attempt->target,
			     is_v6(&attempt->target) ? IPPROTO_IPIP : IPPROTO_IPV6, packet, size);
}

static int token_in(const struct attempt *attempt, int protocol)
{
	uint8_t packet[ROOM] = {0};

	strncpy((char *)packet + 16, attempt->token, ROOM - 17);
	return send_protocol(&attempt->target, protocol, packet, 16 + strlen(attempt->token));
}

VECTOR(raw_sctp)
{
	return token_in(attempt, IPPROTO_SCTP);
}

VECTOR(raw_esp)
{
	return token_in(attempt, IPPROTO_ESP);
}

/* A protocol that nobody has. */
VECTOR(raw_unknown)
{
	return token_in(attempt, 253);
}

/* The header is cut behind the addresses. */
VECTOR(raw_short)
{
	uint8_t packet[ROOM];
	size_t size = put_ip(packet, &attempt->own, &attempt->target, IPPROTO_UDP, 2);

	return headers(attempt, packet, size);
}

/* Hop-by-hop options before the ports. */
VECTOR(raw_hop_by_hop)
{
	uint8_t packet[ROOM];
	size_t size = put_udp(packet, &attempt->own, &attempt->target, PORT, attempt->token);
	size_t head = header_size(&attempt->target);

	memmove(packet + head + 8, packet + head, size - head);
	memcpy(packet + head, (uint8_t[]){IPPROTO_UDP, 0, 1, 4, 0, 0, 0, 0}, 8);
	return headers(attempt, packet,
		       put_ip(packet, &attempt->own, &attempt->target, IPPROTO_HOPOPTS,
			      size - head + 8));
}
