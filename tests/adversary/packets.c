/* SPDX-License-Identifier: Apache-2.0 */
#include "adversary.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

static uint32_t sum_of(uint32_t sum, const void *data, size_t size)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < size; i++)
		sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
	return sum;
}

static void put_sum(uint8_t *at, uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	sum = ~sum & 0xffff;
	at[0] = (uint8_t)(sum >> 8);
	at[1] = (uint8_t)sum;
}

static void put16(uint8_t *at, size_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* Over what follows the header too; at: where it goes. */
static void put_checksum(uint8_t *packet, const union any *from, const union any *to,
			 uint8_t protocol, size_t size, size_t at)
{
	size_t head = header_size(to), length;
	uint32_t sum = (uint32_t)(protocol + size);
	const void *bytes;

	if (protocol == IPPROTO_ICMP) {
		sum = 0;
	} else {
		bytes = bytes_of(from, &length);
		sum = sum_of(sum, bytes, length);
		bytes = bytes_of(to, &length);
		sum = sum_of(sum, bytes, length);
	}
	put_sum(packet + head + at, sum_of(sum, packet + head, size));
}

size_t header_size(const union any *address)
{
	return is_v6(address) ? IP6_SIZE : IP4_SIZE;
}

size_t put_ip(uint8_t *packet, const union any *from, const union any *to, uint8_t protocol,
	      size_t payload)
{
	size_t size;

	memset(packet, 0, header_size(to));
	if (is_v6(to)) {
		packet[0] = 0x60;
		put16(packet + 4, payload);
		packet[6] = protocol;
		packet[7] = 64;
		memcpy(packet + 8, bytes_of(from, &size), 16);
		memcpy(packet + 24, bytes_of(to, &size), 16);
		return IP6_SIZE + payload;
	}
	packet[0] = 0x45;
	put16(packet + 2, IP4_SIZE + payload);
	packet[8] = 64;
	packet[9] = protocol;
	memcpy(packet + 12, bytes_of(from, &size), 4);
	memcpy(packet + 16, bytes_of(to, &size), 4);
	put_sum(packet + 10, sum_of(0, packet, IP4_SIZE));
	return IP4_SIZE + payload;
}

size_t put_udp(uint8_t *packet, const union any *from, const union any *to, uint16_t port,
	       const char *token)
{
	size_t head = header_size(to), size = UDP_SIZE + strlen(token);

	put16(packet + head, SOURCE);
	put16(packet + head + 2, port);
	put16(packet + head + 4, size);
	put16(packet + head + 6, 0);
	memcpy(packet + head + UDP_SIZE, token, strlen(token));
	put_checksum(packet, from, to, IPPROTO_UDP, size, 6);
	return put_ip(packet, from, to, IPPROTO_UDP, size);
}

size_t put_segment(uint8_t *packet, const union any *from, const union any *to,
		   const struct segment *segment)
{
	size_t head = header_size(to), length = segment->token ? strlen(segment->token) : 0;
	uint8_t *tcp = packet + head;

	memset(tcp, 0, TCP_SIZE);
	put16(tcp, segment->source);
	put16(tcp + 2, segment->port);
	put16(tcp + 4, segment->number >> 16);
	put16(tcp + 6, segment->number);
	put16(tcp + 8, segment->acknowledged >> 16);
	put16(tcp + 10, segment->acknowledged);
	tcp[12] = 5 << 4;
	tcp[13] = segment->flags;
	put16(tcp + 14, 1024);
	memcpy(tcp + TCP_SIZE, segment->token ?: "", length);
	put_checksum(packet, from, to, IPPROTO_TCP, TCP_SIZE + length, 16);
	return put_ip(packet, from, to, IPPROTO_TCP, TCP_SIZE + length);
}

size_t put_tcp(uint8_t *packet, const union any *from, const union any *to, uint16_t port,
	       uint8_t flags, const char *token)
{
	const struct segment segment = {.source = SOURCE,
					.port = port,
					.flags = flags,
					.number = FIRST_NUMBER,
					.token = token};

	return put_segment(packet, from, to, &segment);
}

size_t put_echo(uint8_t *packet, const union any *from, const union any *to, const char *token)
{
	uint8_t protocol = is_v6(to) ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	size_t head = header_size(to), size = ICMP_SIZE + strlen(token);

	memset(packet + head, 0, ICMP_SIZE);
	packet[head] = is_v6(to) ? 128 : 8;
	memcpy(packet + head + ICMP_SIZE, token, strlen(token));
	put_checksum(packet, from, to, protocol, size, 2);
	return put_ip(packet, from, to, protocol, size);
}

size_t put_ethernet(uint8_t *frame, const struct attempt *attempt, uint16_t type)
{
	memcpy(frame, attempt->gateway_mac, 6);
	memcpy(frame + 6, attempt->mac, 6);
	put16(frame + 12, type);
	return ETH_HLEN;
}

int send_packet(const uint8_t *packet, size_t size, const union any *by)
{
	/* The kernel takes the port of a raw IPv6 socket's sockaddr for a protocol. */
	union any to = with_port(by, 0);
	int fd = open_socket(by, SOCK_RAW, IPPROTO_RAW);

	return fd < 0 ? fd : sent(sendto(fd, packet, size, 0, &to.sa, size_of(&to)));
}

int index_of(const char *device)
{
	return (int)if_nametoindex(device);
}

int send_frame(const char *device, const uint8_t *frame, size_t size)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = index_of(device)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	return sent(sendto(fd, frame, size, 0, (struct sockaddr *)&to, sizeof(to)));
}

int frame_by(const char *device, const struct attempt *attempt)
{
	uint8_t frame[ROOM];
	size_t head = put_ethernet(frame, attempt,
				   is_v6(&attempt->target) ? ETHERTYPE_IPV6 : ETHERTYPE_IP);

	return wait_up(device)
		       ?: send_frame(device, frame,
				     head + put_udp(frame + head, &attempt->own, &attempt->target,
						    PORT, attempt->token));
}
