/* SPDX-License-Identifier: Apache-2.0 */
/* Which slots of a map's array are in use: a bit for each. */
#include "kernel_internal.h"

static uint32_t take(struct pg_slots *slots)
{
	slots->used[0] |= 1; /* slot 0 means "none" */
	for (uint32_t i = 0; i < slots->max / 64; i++) {
		if (slots->used[i] == UINT64_MAX)
			continue;
		const uint32_t bit = (uint32_t)__builtin_ctzll(~slots->used[i]);

		slots->used[i] |= 1ULL << bit;
		return i * 64 + bit;
	}
	return 0;
}

uint32_t pg_slot_take(struct pg_kernel *kernel, struct pg_slots *slots)
{
	const uint32_t slot = take(slots);

	if (slot)
		return slot;
	pg_kernel_synchronize(kernel);
	return take(slots);
}

void pg_slot_release(struct pg_slots *slots, uint32_t slot)
{
	slots->used[slot / 64] &= ~(1ULL << (slot % 64));
}

void pg_slot_retire(struct pg_slots *slots, uint32_t slot)
{
	slots->retired[slot / 64] |= 1ULL << (slot % 64);
}

void pg_slots_reclaim(struct pg_slots *slots)
{
	for (uint32_t i = 0; i < slots->max / 64; i++) {
		slots->used[i] &= ~slots->retired[i];
		slots->retired[i] = 0;
	}
}

bool pg_slot_occupy(struct pg_slots *slots, uint32_t slot)
{
	const bool was_free = !pg_slot_is_used(slots, slot);

	slots->used[slot / 64] |= 1ULL << (slot % 64);
	return was_free;
}
