/* SPDX-License-Identifier: Apache-2.0 */
/* Which slots of a map's array are in use: a bit for each; and what of it the kernel keeps. */
#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kernel_internal.h"
#include "set.h"

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
	if (slots == &kernel->state_slots)
		pg_kernel_synchronize(kernel);
	else
		pg_outer_empty(kernel);
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

void pg_slot_revive(struct pg_slots *slots, uint32_t slot)
{
	slots->retired[slot / 64] &= ~(1ULL << (slot % 64));
}

uint32_t pg_slots_retired(const struct pg_slots *slots)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < slots->max / 64; i++)
		count += (uint32_t)__builtin_popcountll(slots->retired[i]);
	return count;
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

struct pg_slot_use pg_slot_use_read(const struct pg_kernel *kernel, uint32_t slot)
{
	struct pg_slot_use use = {};

	/* An array that is always there, so reading cannot fail. */
	bpf_map_lookup_elem(bpf_map__fd(kernel->skeleton->maps.pg_slots), &slot, &use);
	return use;
}

int pg_slot_use_write(struct pg_kernel *kernel, uint32_t slot, const struct pg_slot_use *use,
		      struct pg_error *err)
{
	if (bpf_map_update_elem(bpf_map__fd(kernel->skeleton->maps.pg_slots), &slot, use,
				BPF_EXIST))
		return pg_fail_errno(err, -errno, "noting the use of slot %u", slot);
	return 0;
}

static size_t sweep_slot(struct pg_slots *slots, uint32_t slot, uint32_t id)
{
	if (!id || !pg_slot_occupy(slots, slot))
		return 0;
	pg_slot_retire(slots, slot);
	return 1;
}

size_t pg_kernel_sweep(struct pg_kernel *kernel)
{
	size_t swept = pg_states_sweep(kernel);

	pg_accepted_sweep(kernel);
	for (uint32_t slot = 1; slot < PG_SLOT_MAX; slot++) {
		const struct pg_slot_use use = pg_slot_use_read(kernel, slot);

		swept += sweep_slot(&kernel->set_slots, slot, use.set_id);
		swept += sweep_slot(&kernel->learned_slots, slot, use.learned_id);
	}
	pg_outer_empty(kernel);
	return swept;
}
