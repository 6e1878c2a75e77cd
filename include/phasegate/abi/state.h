/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of an Environment: one word of the array pg_states, whose index is in the headers of
 * all its members. It names the phase in force and the bank of phase slots that it is taken from,
 * so that one aligned store of 64 bits switches all members at once. A hook run reads it once.
 *
 * bits 0-3   phase + 1; 0: none is in force, everything is denied
 * bits 4-7   bank: which of pg_header.slots
 * bits 8-63  generation; increases by one with each write
 *
 * generation 5, bank 1, verifier (2) 0x513
 */
#pragma once

#include "mode.h"
#include "types.h"

struct pg_state {
	__u64 word;
};
PG_ASSERT_SIZE(struct pg_state, 8);

#define PG_STATE_PHASE_MASK	  0xfU
#define PG_STATE_BANK_SHIFT	  4
#define PG_STATE_BANK_MASK	  0xfU
#define PG_STATE_GENERATION_SHIFT 8

/* Banks of phase slots: one in force, one that an update of the policy may fill. */
#define PG_BANK_COUNT 2
