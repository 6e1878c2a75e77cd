/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/families.h"

#include <criterion/criterion.h>
#include <stdbool.h>

static bool is_allowed(uint64_t family)
{
	switch (family) {
	case AF_UNIX:
	case AF_INET:
	case AF_INET6:
	case AF_NETLINK:
		return true;
	default:
		return false;
	}
}

Test(families, blocks_are_all_but_the_allowed)
{
	struct pg_family_block blocks[PG_FAMILY_BLOCKS_MAX];
	const unsigned int count = pg_family_blocks(blocks);

	cr_assert_lt(count, PG_FAMILY_BLOCKS_MAX);
	for (uint64_t family = 0; family < 1ULL << PG_FAMILY_BITS; family++) {
		unsigned int hits = 0, hits_of_garbage = 0;

		for (unsigned int i = 0; i < count; i++) {
			hits += (family & blocks[i].mask) == blocks[i].value;
			hits_of_garbage +=
				((family | 0xdeadULL << 32) & blocks[i].mask) == blocks[i].value;
		}
		cr_expect_eq(hits, is_allowed(family) ? 0 : 1, "family %d", (int)family);
		cr_expect_eq(hits_of_garbage, hits, "family %d", (int)family);
	}
}

Test(families, the_kernel_has_no_more)
{
	cr_assert_leq(AF_MAX, 1 << PG_FAMILY_BITS);
}
