/* SPDX-License-Identifier: Apache-2.0 */
/* Packet sockets (CAP_NET_RAW): whole frames, which no hook of a cgroup sees. */
#include "../adversary.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <string.h>
#include <sys/mman.h>
#include <linux/virtio_net.h>

static size_t udp_frame(uint8_t *frame, const struct attempt *attempt, const union any *to)
{
	uint16_t type = is_v6(to) ? ETHERTYPE_IPV6 : ETHERTYPE_IP;
	size_t head = put_ethernet(frame, attempt, type);

	return head + put_udp(frame + head, &attempt->own, to, PORT, attempt->token);
}

VECTOR(packet_raw)
{
	uint8_t frame[ROOM];

	return send_frame(DEVICE, frame, udp_frame(frame, attempt, &attempt->target));
}

/* The kernel writes the Ethernet header. */
VECTOR(packet_dgram)
{
	bool v6 = is_v6(&attempt->target);
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_ifindex = index_of(DEVICE),
				 .sll_protocol = htons(v6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP),
				 .sll_halen = 6};
	uint8_t packet[ROOM];
	size_t size = put_udp(packet, &attempt->own, &attempt->target, PORT, attempt->token);
	int fd = socket(AF_PACKET, SOCK_DGRAM, 0);

	memcpy(to.sll_addr, attempt->gateway_mac, 6);
	return fd < 0 ? -errno
		      : sent(sendto(fd, packet, size, 0, (struct sockaddr *)&to, sizeof(to)));
}

/* Past the device's queue, and tc with it. */
VECTOR(packet_bypass)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = index_of(DEVICE)};
	uint8_t frame[ROOM];
	size_t size = udp_frame(frame, attempt, &attempt->target);
	int fd = socket(AF_PACKET, SOCK_RAW, 0), result;

	if (fd < 0)
		return -errno;
	result = set_option(fd, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
	return result ?: sent(sendto(fd, frame, size, 0, (struct sockaddr *)&to, sizeof(to)));
}

/* By a ring that is shared with the kernel. */
VECTOR(packet_ring)
{
	struct tpacket_req ring = {.tp_block_size = 4096,
				   .tp_block_nr = 1,
				   .tp_frame_size = 2048,
				   .tp_frame_nr = 2};
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_ifindex = index_of(DEVICE),
				 .sll_protocol = htons(ETHERTYPE_IP)};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	struct tpacket_hdr *slot;

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &ring, sizeof(ring)))
		return -errno;
	slot = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (slot == MAP_FAILED || bind(fd, (struct sockaddr *)&to, sizeof(to)))
		return -errno;
	slot->tp_len =
		(unsigned)udp_frame((uint8_t *)slot + TPACKET_HDRLEN - sizeof(struct sockaddr_ll),
				    attempt, &attempt->target);
	slot->tp_status = TP_STATUS_SEND_REQUEST;
	return sent(send(fd, NULL, 0, 0));
}

/* With a header that asks for segmentation and checksums below. */
VECTOR(packet_vnet)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = index_of(DEVICE)};
	uint8_t frame[ROOM] = {0};
	size_t head = sizeof(struct virtio_net_hdr);
	size_t size = head + udp_frame(frame + head, attempt, &attempt->target);
	int fd = socket(AF_PACKET, SOCK_RAW, 0), result;

	if (fd < 0)
		return -errno;
	result = set_option(fd, SOL_PACKET, PACKET_VNET_HDR, 1);
	return result ?: sent(sendto(fd, frame, size, 0, (struct sockaddr *)&to, sizeof(to)));
}

/* Behind a VLAN tag: priority only, so that hosts take it for untagged. */
VECTOR(packet_vlan)
{
	uint8_t frame[ROOM], tagged[ROOM + 4];
	size_t size = udp_frame(frame, attempt, &attempt->target);

	memcpy(tagged, frame, 12);
	memcpy(tagged + 12, "\x81\x00\x00\x00", 4);
	memcpy(tagged + 16, frame + 12, size - 12);
	return send_frame(DEVICE, tagged, size + 4);
}

static int token_frame(const struct attempt *attempt, const uint8_t *to, uint16_t type)
{
	uint8_t frame[ROOM] = {0};
	size_t head = put_ethernet(frame, attempt, type);

	if (to)
		memcpy(frame, to, 6);
	strncpy((char *)frame + head + 3, attempt->token, ROOM - head - 4);
	return send_frame(DEVICE, frame, head + 3 + strlen(attempt->token));
}

VECTOR(packet_unknown_type)
{
	return token_frame(attempt, NULL, 0x88b5);
}

/* IEEE 802.3 with LLC: what stands for the type is a length. */
VECTOR(packet_llc)
{
	return token_frame(attempt, NULL, 40);
}

/* Addresses that bridges take themselves: spanning tree, LLDP. */
VECTOR(packet_link_local)
{
	int result = token_frame(attempt, (const uint8_t *)"\x01\x80\xc2\0\0\0", 40);

	return token_frame(attempt, (const uint8_t *)"\x01\x80\xc2\0\0\x0e", 0x88cc) ?: result;
}

VECTOR(packet_broadcast)
{
	uint8_t frame[ROOM];
	size_t size = udp_frame(frame, attempt, &attempt->target);

	memset(frame, 0xff, 6);
	return send_frame(DEVICE, frame, size);
}

/* A question for an address, and the token behind it. */
VECTOR(packet_arp)
{
	uint8_t frame[ROOM] = {0};
	size_t head = put_ethernet(frame, attempt, ETHERTYPE_ARP), size;
	uint8_t *arp = frame + head;

	memset(frame, 0xff, 6);
	memcpy(arp, "\0\1\x08\0\6\4\0\1", 8);
	memcpy(arp + 8, attempt->mac, 6);
	memcpy(arp + 14, bytes_of(&attempt->own, &size), 4);
	memcpy(arp + 24, bytes_of(&attempt->onlink, &size), 4);
	strncpy((char *)arp + 28, attempt->token, 60);
	return send_frame(DEVICE, frame, head + 28 + strlen(attempt->token));
}

/* As if the kernel asked: with the right addresses, and nothing behind. */
VECTOR(packet_neighbour)
{
	uint8_t frame[ROOM] = {0};
	size_t head = put_ethernet(frame, attempt, ETHERTYPE_IPV6), size;
	union any group = attempt->target;
	uint8_t message[24] = {135};

	memset(&group.in6.sin6_addr, 0, 16);
	memcpy(&group.in6.sin6_addr, "\xff\2", 2);
	memcpy(group.in6.sin6_addr.s6_addr + 11, "\1\xff", 2);
	memcpy(group.in6.sin6_addr.s6_addr + 13, attempt->onlink.in6.sin6_addr.s6_addr + 13, 3);
	memcpy(frame, "\x33\x33", 2);
	memcpy(frame + 2, group.in6.sin6_addr.s6_addr + 12, 4);
	memcpy(message + 8, bytes_of(&attempt->onlink, &size), 16);
	memcpy(frame + head + IP6_SIZE, message, sizeof(message));
	put_ip(frame + head, &attempt->own, &group, IPPROTO_ICMPV6, sizeof(message));
	frame[head + 7] = 255;
	return send_frame(DEVICE, frame, head + IP6_SIZE + sizeof(message));
}

/* To A, at another station of the network. */
VECTOR(packet_to_station)
{
	uint8_t frame[ROOM];
	size_t size = udp_frame(frame, attempt, &attempt->allowed);

	memcpy(frame, attempt->made_mac, 6);
	return send_frame(DEVICE, frame, size);
}

/* As before Linux 2.2: asked for as AF_INET, it becomes a packet socket. */
VECTOR(packet_old)
{
	struct sockaddr to = {.sa_family = AF_PACKET, .sa_data = DEVICE};
	uint8_t frame[ROOM];
	size_t size = udp_frame(frame, attempt, &attempt->target);
	int fd = socket(AF_INET, SOCK_PACKET, htons(ETH_P_ALL));

	return fd < 0 ? -errno : sent(sendto(fd, frame, size, 0, &to, sizeof(to)));
}
