/* SPDX-License-Identifier: Apache-2.0 */
/* What makes the guard at the host's end of the link be passed over, or see something else than
 * what arrives there. */
#include "../adversary.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAMES 64

/* By way of a device that has the kernel classify a packet no more; the filter chooses by lot, or
 * it would choose again what comes back from there. */
VECTOR(skipped_by_ifb)
{
	uint8_t frame[ROOM];
	size_t size = put_ethernet(frame, attempt,
				   is_v6(&attempt->target) ? ETHERTYPE_IPV6 : ETHERTYPE_IP);
	int result = shell("ip link add pgx type ifb; ip link set pgx up; "
			   "tc qdisc add dev " DEVICE " clsact; "
			   "tc filter add dev " DEVICE " egress bpf bytecode "
			   "'4,32 0 0 4294963256,37 0 1 2147483647,6 0 0 4294967295,6 0 0 0' "
			   "flowid 1:1 action mirred egress redirect dev pgx");

	size += put_udp(frame + size, &attempt->own, &attempt->target, PORT, attempt->token);
	for (int i = 0; i < FRAMES && !result; i++)
		result = send_frame(DEVICE, frame, size);
	shell("set +e; tc qdisc del dev " DEVICE " clsact; ip link del pgx");
	return result;
}

/* A checksum that is still to be written, in the place of two octets of the IPv6 destination: by
 * the payload they can become any. */
static size_t put_unfinished(uint8_t *packet, const struct attempt *attempt)
{
	struct virtio_net_hdr *head = (struct virtio_net_hdr *)packet;
	uint8_t *frame = packet + sizeof(*head);
	size_t size = put_ethernet(frame, attempt, ETHERTYPE_IPV6);
	const size_t to = size + 24 + 14; /* the last two octets */

	*head = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
					.csum_start = (__u16)to,
					.csum_offset = 0};
	size += put_udp(frame + size, &attempt->own, &attempt->allowed, PORT, attempt->token);
	return sizeof(*head) + size;
}

/* It is nobody's by then: it comes in by a device of its own, and is handed on. */
VECTOR(checksum_elsewhere)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET};
	uint8_t packet[ROOM] = {0};
	size_t size = put_unfinished(packet, attempt);
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	int result = fd < 0 ? -errno : set_option(fd, SOL_PACKET, PACKET_VNET_HDR, 1);

	result = result
			 ?: shell("ip link add pgx type veth peer name pgy; ip link set pgx up; "
				  "ip link set pgy up; nft add table netdev pgt; "
				  "nft 'add chain netdev pgt c "
				  "{ type filter hook ingress device pgy priority 0; }'; "
				  "nft 'add rule netdev pgt c ip6 nexthdr udp fwd to " DEVICE "'");
	result = result ?: wait_up("pgx") ?: wait_up("pgy");
	to.sll_ifindex = index_of("pgx");
	result = result ?: sent(sendto(fd, packet, size, 0, (struct sockaddr *)&to, sizeof(to)));
	shell("set +e; nft delete table netdev pgt; ip link del pgx");
	return result;
}

/* The kernel asks whether a neighbour is still there, which is far away, by the gateway's frames.
 * It does so from a link-local address, which Docker's containers have none of. */
VECTOR(neighbour_far_away)
{
	const uint8_t *mac = attempt->gateway_mac;
	const char *to = text_of(&attempt->target);
	int result = shell("ip addr add fe80::7/64 dev " DEVICE " nodad; "
			   "ip -6 route add %s dev " DEVICE "; ip neigh replace %s lladdr "
			   "%02x:%02x:%02x:%02x:%02x:%02x dev " DEVICE " nud probe",
			   to, to, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);

	usleep(20000);
	shell("set +e; ip neigh del %s dev " DEVICE "; ip -6 route del %s dev " DEVICE
	      "; ip addr del fe80::7/64 dev " DEVICE,
	      to, to);
	return result;
}

/* A connection on loopback whose other end has the target's address for a while; what resets it
 * leaves by the link, with the container's own source. */
static int reset_on_loopback(const struct attempt *attempt)
{
	const union any there = with_port(&attempt->target, PORT);
	const struct linger at_once = {.l_onoff = 1};
	int listener = bound_socket(&there, SOCK_STREAM, 0);
	int fd = open_socket(&there, SOCK_STREAM, 0), result;

	if (listener < 0 || fd < 0 || listen(listener, 1))
		return -errno;
	result = connect_soon(fd, &there);
	if (!result && setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)))
		result = -errno;
	close(fd);
	return result;
}

VECTOR(reset_of_peer)
{
	const char *family = is_v6(&attempt->target) ? "ip6" : "ip";
	const char *size = is_v6(&attempt->target) ? "128" : "32";
	const uint8_t *mac = attempt->mac, *to = attempt->gateway_mac;
	const char *address = text_of(&attempt->target);
	int result = shell("ip addr add %s/%s dev lo; nft add table netdev pgt; "
			   "nft 'add chain netdev pgt c "
			   "{ type filter hook egress device lo priority 0; }'; "
			   "nft 'add rule netdev pgt c tcp dport %d tcp flags & rst == rst "
			   "%s saddr set %s @ll,0,48 set 0x%02x%02x%02x%02x%02x%02x "
			   "@ll,48,48 set 0x%02x%02x%02x%02x%02x%02x fwd to " DEVICE "'",
			   address, size, PORT, family, text_of(&attempt->own), to[0], to[1], to[2],
			   to[3], to[4], to[5], mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);

	result = result ?: reset_on_loopback(attempt);
	shell("set +e; nft delete table netdev pgt; ip addr del %s/%s dev lo", address, size);
	return result;
}
