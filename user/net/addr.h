/* SPDX-License-Identifier: Apache-2.0 */
/* Address values. struct pg_addr holds either family; IPv4 is IPv4-mapped (see abi/types.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <phasegate/abi/types.h>

#include "base/cleanup.h"

/* Longest text of an address, prefix or endpoint, with the NUL: "[...]:65535". */
#define PG_ADDR_TEXT 64

bool pg_addr_is_v4(const struct pg_addr *addr);
struct pg_addr pg_addr_from_v4(__be32 addr);
struct pg_addr pg_addr_from_bytes(const uint8_t bytes[16]);
__be32 pg_addr_to_v4(const struct pg_addr *addr);
int pg_addr_compare(const struct pg_addr *a, const struct pg_addr *b);

/* 127.0.0.0/8 or ::1 */
bool pg_addr_is_loopback(const struct pg_addr *addr);

/* 224.0.0.0/4, ff00::/8, and the broadcast addresses that any namespace has: 255.255.255.255 and
 * those of lo. */
bool pg_addr_is_multicast(const struct pg_addr *addr);

/*
 * Whether DNS may teach the address: not loopback, link-local, multicast, broadcast, unspecified,
 * Teredo or discard, nor an address at which a cloud serves its metadata (169.254.169.254,
 * 100.100.100.200, 168.63.129.16, 192.0.0.0/24, fd00:ec2::/32, fd20:ce::/32), nor one that stands
 * for such an IPv4 address: mapped, compatible, translated, 6to4 or behind a NAT64 prefix.
 */
bool pg_addr_is_learnable(const struct pg_addr *addr);

/* 10/8, 172.16/12, 192.168/16 (RFC 1918), 100.64/10 (RFC 6598), fc00::/7 (RFC 4193), fec0::/10; an
 * IPv4 address in the forms above as well. */
bool pg_addr_is_private(const struct pg_addr *addr);

/* Strict numeric form as inet_pton(3) reads it (no zone, no octal, no short form); -EINVAL. */
int pg_addr_parse(const char *text, struct pg_addr *ret_addr) PG_MUST_CHECK;

/* RFC 5952 text, dotted quad for IPv4. Returns buffer. */
const char *pg_addr_format(const struct pg_addr *addr, char buffer[static PG_ADDR_TEXT]);

/* ADDR, ADDR:PORT or [ADDR6]:PORT; default_port in host order is used when none is given. */
int pg_endpoint_parse(const char *text, uint16_t default_port,
		      struct pg_endpoint *ret_endpoint) PG_MUST_CHECK;
const char *pg_endpoint_format(const struct pg_endpoint *endpoint,
			       char buffer[static PG_ADDR_TEXT]);

/* sockaddr of the address's own family (AF_INET for IPv4). Returns its length. */
socklen_t pg_endpoint_to_sockaddr(const struct pg_endpoint *endpoint,
				  struct sockaddr_storage *ret_sockaddr);
