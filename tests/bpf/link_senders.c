// SPDX-License-Identifier: Apache-2.0
#include "link_senders.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

struct sockaddr_in endpoint(const char *address, uint16_t port)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, address, &name.sin_addr);
	return name;
}

int send_datagram(const char *address)
{
	const struct sockaddr_in to = endpoint(address, PORT);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	return sendto(fd, "x", 1, 0, (const struct sockaddr *)&to, sizeof(to)) < 0 ? errno : 0;
}

int send_fragments(const char *address)
{
	const struct sockaddr_in to = endpoint(address, PORT);
	static const char datagram[4000];
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	return sendto(fd, datagram, sizeof(datagram), 0, (const struct sockaddr *)&to, sizeof(to)) <
			       0
		       ? errno
		       : 0;
}

int send_forged(const char *address)
{
	const struct sockaddr_in to = endpoint(address, PORT), from = endpoint("10.9.0.77", 0);
	const int one = 1;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof(one)) ||
	    setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &one, sizeof(one)) ||
	    bind(fd, (const struct sockaddr *)&from, sizeof(from)))
		return errno;
	return sendto(fd, "x", 1, 0, (const struct sockaddr *)&to, sizeof(to)) < 0 ? errno : 0;
}

uint16_t checksum(const void *data, size_t size)
{
	const uint16_t *words = data;
	uint32_t sum = 0;

	for (size_t i = 0; i < size / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

static const uint8_t host_end[ETH_ALEN] = {2, 0, 10, 9, 0, 1};
int send_frame(const char *address)
{
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_IP),
		.sll_ifindex = (int)if_nametoindex("eth0"),
		.sll_halen = ETH_ALEN,
	};
	struct {
		struct iphdr ip;
		struct udphdr udp;
		char payload[2];
	} packet = {
		.ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP},
		.udp = {.source = htons(PORT), .dest = htons(PORT)},
	};
	int fd = socket(AF_PACKET, SOCK_DGRAM, 0);

	memcpy(to.sll_addr, host_end, ETH_ALEN);
	packet.ip.saddr = inet_addr(OWN);
	packet.ip.daddr = inet_addr(address);
	packet.ip.tot_len = htons(sizeof(packet.ip) + sizeof(packet.udp) + 1);
	packet.ip.check = checksum(&packet.ip, sizeof(packet.ip));
	packet.udp.len = htons(sizeof(packet.udp) + 1);
	return sendto(fd, &packet, sizeof(packet) - 1, 0, (const struct sockaddr *)&to,
		      sizeof(to)) < 0
		       ? errno
		       : 0;
}
