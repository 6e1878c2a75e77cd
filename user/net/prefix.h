/* SPDX-License-Identifier: Apache-2.0 */
/* A CIDR range: all addresses that share the leading bits. Host bits are always zero. */
#pragma once

#include "addr.h"

struct pg_prefix {
	struct pg_addr addr;
	/* In bits of the address's own family: 0-32 or 0-128. */
	uint8_t length;
	/* IPv4 or not; 0.0.0.0/0 as a mapped address cannot be told from IPv6 by its bits alone. */
	bool v4;
};

/* An exact address is the prefix of full length. */
struct pg_prefix pg_prefix_from_addr(const struct pg_addr *addr);
bool pg_prefix_is_exact(const struct pg_prefix *prefix);
bool pg_prefix_contains(const struct pg_prefix *prefix, const struct pg_addr *addr);

/* IPv4 before IPv6, then by address, then shorter (wider) first. */
int pg_prefix_compare(const struct pg_prefix *a, const struct pg_prefix *b);

/* Clears the host bits; returns whether any were set. */
bool pg_prefix_mask(struct pg_prefix *prefix);

/*
 * The IPv6 ranges by which translators and tunnels send to an IPv4 range: NAT64 (RFC 6052, RFC
 * 8215), 6to4 (RFC 3056) and IPv4-translated addresses (RFC 2765). A mapped address is its IPv4
 * address anyway, and a compatible one (RFC 4291, obsolete) may be loopback.
 */
#define PG_PREFIX_FORMS 4
void pg_prefix_forms(const struct pg_prefix *v4,
		     struct pg_prefix ret_forms[static PG_PREFIX_FORMS]);

/* "203.0.113.10", "203.0.113.0/24", "2001:db8::/32". Returns buffer. */
const char *pg_prefix_format(const struct pg_prefix *prefix, char buffer[static PG_ADDR_TEXT]);
