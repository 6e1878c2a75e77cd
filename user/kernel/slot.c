/* SPDX-License-Identifier: Apache-2.0 */
/* Which slots of a map's array are in use: a bit for each. */
#include "kernel_internal.h"

uint32_t pg_slot_take(uint64_t *slots, uint32_t max)
{
	slots[0] |= 1; /* slot 0 means "none" */
	for (uint32_t i = 0; i < max / 64; i++) {
		if (slots[i] == UINT64_MAX)
			continue;
		const uint32_t bit = (uint32_t)__builtin_ctzll(~slots[i]);

		slots[i] |= 1ULL << bit;
		return i * 64 + bit;
	}
	return 0;
}

void pg_slot_release(uint64_t *slots, uint32_t slot)
{
	slots[slot / 64] &= ~(1ULL << (slot % 64));
}

bool pg_slot_occupy(uint64_t *slots, uint32_t slot)
{
	const bool was_free = !pg_slot_is_used(slots, slot);

	slots[slot / 64] |= 1ULL << (slot % 64);
	return was_free;
}
