/* SPDX-License-Identifier: Apache-2.0 */
#include "address_set.h"

#include "base/cleanup.h"

/* The ranges are disjoint and sorted, so only the last that begins at or before addr may hold it.
 */
static bool find(const struct pg_prefix *ranges, size_t count, const struct pg_addr *addr)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (pg_addr_compare(&ranges[middle].addr, addr) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && pg_prefix_contains(&ranges[low - 1], addr);
}

bool pg_address_set_contains(const struct pg_address_set *set, const struct pg_addr *addr)
{
	return pg_addr_is_v4(addr) ? find(set->v4, set->v4_count, addr)
				   : find(set->v6, set->v6_count, addr);
}

bool pg_address_set_find_outside(const struct pg_address_set *set, struct pg_addr *ret_addr)
{
	/* Documentation ranges (RFC 5737, RFC 3849), benchmarking (RFC 2544, RFC 5180), discard
	 * (RFC 6666): no one's real destination, should a probe ever get out. */
	static const char *const candidates[] = {
		"192.0.2.1",   "192.0.2.254",	 "198.51.100.1", "198.51.100.254",
		"203.0.113.1", "203.0.113.254",	 "2001:db8::1",	 "2001:db8:ffff:ffff::1",
		"198.18.0.1",  "198.19.255.254", "2001:2::1",	 "100::1",
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(candidates); i++) {
		struct pg_addr addr;

		if (pg_addr_parse(candidates[i], &addr) == 0 &&
		    !pg_address_set_contains(set, &addr)) {
			*ret_addr = addr;
			return true;
		}
	}
	return false;
}
