/* SPDX-License-Identifier: Apache-2.0 */
#include "families.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

static const uint64_t families[] = {
#define PG_X(family) family,
	PG_FAMILIES(PG_X)
#undef PG_X
};

static bool has_family(uint64_t first, uint64_t count)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(families); i++)
		if (families[i] >= first && families[i] < first + count)
			return true;
	return false;
}

/* Halves what has an allowed family until it is nothing else. */
unsigned int pg_family_blocks(struct pg_family_block blocks[PG_FAMILY_BLOCKS_MAX])
{
	unsigned int count = 0;
	uint64_t first = 0;

	while (first < 1ULL << PG_FAMILY_BITS && count < PG_FAMILY_BLOCKS_MAX) {
		uint64_t size = first ? first & -first : 1ULL << PG_FAMILY_BITS;

		while (size > 1 && has_family(first, size))
			size /= 2;
		if (!has_family(first, size))
			blocks[count++] =
				(struct pg_family_block){PG_FAMILY_MASK & ~(size - 1), first};
		first += size;
	}
	return count;
}
