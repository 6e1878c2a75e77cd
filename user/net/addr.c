/* SPDX-License-Identifier: Apache-2.0 */
#include "addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool pg_addr_is_v4(const struct pg_addr *addr)
{
	return memcmp(addr->word, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

struct pg_addr pg_addr_from_v4(__be32 addr)
{
	return (struct pg_addr){.word = {0, 0, htonl(0xffff), addr}};
}

struct pg_addr pg_addr_from_bytes(const uint8_t bytes[16])
{
	struct pg_addr addr;

	memcpy(addr.word, bytes, sizeof(addr.word));
	return addr;
}

__be32 pg_addr_to_v4(const struct pg_addr *addr)
{
	return addr->word[3];
}

int pg_addr_compare(const struct pg_addr *a, const struct pg_addr *b)
{
	return memcmp(a->word, b->word, sizeof(a->word));
}

bool pg_addr_is_loopback(const struct pg_addr *addr)
{
	const struct pg_addr loopback6 = {.word = {0, 0, 0, htonl(1)}};

	if (pg_addr_is_v4(addr))
		return ntohl(pg_addr_to_v4(addr)) >> 24 == 127;
	return pg_addr_compare(addr, &loopback6) == 0;
}

bool pg_addr_is_multicast(const struct pg_addr *addr)
{
	const uint32_t v4 = ntohl(pg_addr_to_v4(addr));

	if (!pg_addr_is_v4(addr))
		return ntohl(addr->word[0]) >> 24 == 0xff;
	return v4 >> 28 == 0xe || v4 == 0xffffffff || v4 == 0x7fffffff || v4 == 0x7f000000;
}

/* Where clouds serve their metadata, credentials among them, besides 169.254.169.254. */
static bool is_metadata_v4(uint32_t addr)
{
	/* Alibaba Cloud, Azure; Oracle Cloud's is in 192.0.0.0/24, which no host may have (RFC
	 * 6890). */
	return addr == 0x646464c8 || addr == 0xa83f8110 || addr >> 8 == 0xc00000;
}

static bool is_learnable_v4(uint32_t addr)
{
	uint32_t first = addr >> 24;

	/* "This network" 0.0.0.0/8 too: Linux takes 0.0.0.0 for the host itself. */
	if (first == 0 || first == 127)
		return false;
	if (addr >> 16 == 0xa9fe || is_metadata_v4(addr))
		return false;
	/* Multicast 224.0.0.0/4; 240.0.0.0/4 is reserved and holds the broadcast address. */
	return first < 224;
}

/*
 * The IPv4 address that the address stands for: mapped, compatible, translated (RFC 2765), behind a
 * NAT64 prefix (64:ff9b::/96 of RFC 6052; 64:ff9b:1::/48 of RFC 8215, with the last 32 bits, as a
 * /96 has it) or 6to4 (RFC 3056). The compatible form shares 96 zero bits with :: and ::1, which
 * are none.
 */
static bool read_v4(const struct pg_addr *addr, uint32_t *ret_v4)
{
	const uint32_t top = ntohl(addr->word[0]), second = ntohl(addr->word[1]);
	const uint32_t third = ntohl(addr->word[2]);

	*ret_v4 = ntohl(addr->word[3]);
	if (pg_addr_is_v4(addr))
		return true;
	if (top >> 16 == 0x2002) {
		*ret_v4 = top << 16 | second >> 16;
		return true;
	}
	if (top == 0x0064ff9b)
		return second >> 16 == 1 || (!second && !third);
	if (top || second)
		return false;
	return third == 0xffff0000 || (!third && *ret_v4 > 1);
}

bool pg_addr_is_learnable(const struct pg_addr *addr)
{
	const uint32_t top = ntohl(addr->word[0]), second = ntohl(addr->word[1]);
	uint32_t v4;

	if (read_v4(addr, &v4))
		return is_learnable_v4(v4);
	/* Unspecified and ::1; Teredo (RFC 4380), which hides two IPv4 addresses; the discard
	 * prefix 100::/64 (RFC 6666). */
	if (!top && !second && !addr->word[2])
		return false;
	if (top == 0x20010000 || (top == 0x01000000 && !second))
		return false;
	/* Metadata: Amazon's fd00:ec2::/32 and Google's fd20:ce::/32. */
	if (top == 0xfd000ec2 || top == 0xfd2000ce)
		return false;
	/* ff00::/8 and fe80::/10 */
	return top >> 24 != 0xff && top >> 22 != 0xfe80 >> 6;
}

bool pg_addr_is_private(const struct pg_addr *addr)
{
	const uint32_t top = ntohl(addr->word[0]);
	uint32_t v4;

	/* fc00::/7, and fec0::/10 of old (RFC 3879) */
	if (!read_v4(addr, &v4))
		return top >> 25 == 0xfc >> 1 || top >> 22 == 0xfec0 >> 6;
	return v4 >> 24 == 10 || v4 >> 20 == 0xac1 || v4 >> 16 == 0xc0a8 || v4 >> 22 == 0x6440 >> 6;
}

int pg_addr_parse(const char *text, struct pg_addr *ret_addr)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		*ret_addr = pg_addr_from_v4(v4.s_addr);
		return 0;
	}
	if (inet_pton(AF_INET6, text, &v6) == 1) {
		*ret_addr = pg_addr_from_bytes(v6.s6_addr);
		return 0;
	}
	return -EINVAL;
}

/* Start and length of the longest run of two or more zero groups, the first of equals. */
static int longest_zero_run(const uint16_t group[8], int *ret_length)
{
	int best = -1, best_length = 1;

	for (int i = 0; i < 8;) {
		int end = i;

		while (end < 8 && group[end] == 0)
			end++;
		if (end - i > best_length) {
			best = i;
			best_length = end - i;
		}
		i = end + 1;
	}
	*ret_length = best_length;
	return best;
}

/*
 * Not inet_ntop(3): glibc writes ::a.b.c.d for addresses whose last 32 bits happen to follow 96
 * zero bits, and RFC 5952 leaves that form to prefixes known to embed IPv4.
 */
const char *pg_addr_format(const struct pg_addr *addr, char buffer[static PG_ADDR_TEXT])
{
	uint8_t bytes[16];
	uint16_t group[8];
	int run, run_length, used = 0;

	memcpy(bytes, addr->word, sizeof(bytes));
	if (pg_addr_is_v4(addr)) {
		snprintf(buffer, PG_ADDR_TEXT, "%u.%u.%u.%u", bytes[12], bytes[13], bytes[14],
			 bytes[15]);
		return buffer;
	}
	for (int i = 0; i < 8; i++)
		group[i] = (uint16_t)(bytes[2 * i] << 8 | bytes[2 * i + 1]);
	run = longest_zero_run(group, &run_length);
	buffer[0] = '\0';
	for (int i = 0; i < 8; i++) {
		if (i == run) {
			used += snprintf(buffer + used, PG_ADDR_TEXT - (size_t)used, "::");
			i += run_length - 1;
			continue;
		}
		used += snprintf(buffer + used, PG_ADDR_TEXT - (size_t)used, "%s%x",
				 used && buffer[used - 1] != ':' ? ":" : "", group[i]);
	}
	return buffer;
}

static int parse_port(const char *text, uint16_t *ret_port)
{
	unsigned int port = 0;

	if (!*text || strlen(text) > 5)
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		port = port * 10 + (unsigned int)(*text - '0');
	}
	if (port == 0 || port > UINT16_MAX)
		return -EINVAL;
	*ret_port = (uint16_t)port;
	return 0;
}

int pg_endpoint_parse(const char *text, uint16_t default_port, struct pg_endpoint *ret_endpoint)
{
	char address[PG_ADDR_TEXT];
	const char *start = text, *end, *port_text = NULL;
	uint16_t port = default_port;
	struct pg_addr addr;
	size_t length;

	if (*text == '[') {
		start = text + 1;
		end = strchr(start, ']');
		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		if (end[1])
			port_text = end + 2;
	} else {
		end = strchr(text, ':');
		/* One colon is a port, more are IPv6 without one. */
		if (end && !strchr(end + 1, ':'))
			port_text = end + 1;
		else
			end = text + strlen(text);
	}
	length = (size_t)(end - start);
	if (length >= sizeof(address))
		return -EINVAL;
	memcpy(address, start, length);
	address[length] = '\0';
	if (*text == '[' && !strchr(address, ':'))
		return -EINVAL;
	if (pg_addr_parse(address, &addr) < 0)
		return -EINVAL;
	if (port_text && parse_port(port_text, &port) < 0)
		return -EINVAL;
	*ret_endpoint = (struct pg_endpoint){.addr = addr, .port = htons(port)};
	return 0;
}

const char *pg_endpoint_format(const struct pg_endpoint *endpoint, char buffer[static PG_ADDR_TEXT])
{
	char address[PG_ADDR_TEXT];
	bool v4 = pg_addr_is_v4(&endpoint->addr);

	pg_addr_format(&endpoint->addr, address);
	/* The longest IPv6 text has 39 characters. */
	snprintf(buffer, PG_ADDR_TEXT, v4 ? "%.45s:%u" : "[%.45s]:%u", address,
		 ntohs(endpoint->port));
	return buffer;
}

socklen_t pg_endpoint_to_sockaddr(const struct pg_endpoint *endpoint,
				  struct sockaddr_storage *ret_sockaddr)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret_sockaddr;
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret_sockaddr;

	memset(ret_sockaddr, 0, sizeof(*ret_sockaddr));
	if (pg_addr_is_v4(&endpoint->addr)) {
		v4->sin_family = AF_INET;
		v4->sin_port = endpoint->port;
		v4->sin_addr.s_addr = pg_addr_to_v4(&endpoint->addr);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = endpoint->port;
	memcpy(&v6->sin6_addr, endpoint->addr.word, sizeof(v6->sin6_addr));
	return sizeof(*v6);
}
