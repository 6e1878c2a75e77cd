/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a hook run knows of its Environment: the header and the state, each read once, so that all
 * of the run is judged by one phase.
 */
#pragma once

#include "maps.bpf.h"

struct pg_view {
	const struct pg_header *header;
	const struct pg_phase_slot *slot; /* of the phase in force; NULL: it cannot be read */
	__u64 generation;
	__u32 phase; /* enum pg_phase, plus 1 */
	bool valid;  /* there is a policy, and a phase of it is in force */
};

static __always_inline bool pg_header_valid(const struct pg_header *header)
{
	return header->magic == PG_HEADER_MAGIC;
}

/* Whether there is a policy, and a phase of it in force: pg_view.valid, before there is a view. */
static __always_inline bool pg_view_is_valid(const struct pg_header *header, __u64 word)
{
	return pg_header_valid(header) && word & PG_STATE_PHASE_MASK;
}

static __always_inline void pg_view_fill(struct pg_view *view, const struct pg_header *header,
					 __u64 word)
{
	const __u32 bank = word >> PG_STATE_BANK_SHIFT & PG_STATE_BANK_MASK;
	__u32 index;

	view->header = header;
	view->slot = NULL;
	view->generation = word >> PG_STATE_GENERATION_SHIFT;
	view->phase = word & PG_STATE_PHASE_MASK;
	view->valid = pg_view_is_valid(header, word);
	if (view->phase > PG_PHASE_COUNT || bank >= PG_BANK_COUNT)
		return;
	index = bank * PG_PHASE_COUNT + view->phase - 1;
	/* The verifier has to see the bound on the value that is the index, before it is one. */
	barrier_var(index);
	if (index >= PG_BANK_COUNT * PG_PHASE_COUNT)
		return;
	view->slot = (const struct pg_phase_slot *)header->slots + index;
	barrier_var(view->slot);
}

/* The word of the state, which a run reads once; 0: nothing is in force. */
static __always_inline __u64 pg_state_word(__u32 index)
{
	const struct pg_state *state = bpf_map_lookup_elem(&pg_states, &index);

	return state ? *(const volatile __u64 *)&state->word : 0;
}

static __always_inline __u64 pg_view_word(const struct pg_header *header)
{
	return pg_state_word(header->state);
}

static __always_inline void pg_view_read(struct pg_view *view, const struct pg_header *header)
{
	pg_view_fill(view, header, pg_view_word(header));
}
