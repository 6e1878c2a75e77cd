/* SPDX-License-Identifier: Apache-2.0 */
/* Private to user/kernel/. */
#pragma once

#include <phasegate.skel.h>

#include <phasegate/abi/set.h>

#include "kernel.h"

struct ring_buffer;

struct pg_kernel {
	struct phasegate_bpf *skeleton;
	struct ring_buffer *events;
	pg_event_sink sink;
	void *sink_userdata;
	/* A bit per slot of the outer maps that is in use. */
	uint64_t set_slots[PG_SLOT_MAX / 64];
	uint64_t learned_slots[PG_SLOT_MAX / 64];
};

/* Lowest free slot, marked as used; 0 if there is none. Slot 0 is never given out. */
uint32_t pg_slot_take(uint64_t slots[static PG_SLOT_MAX / 64]);
void pg_slot_release(uint64_t slots[static PG_SLOT_MAX / 64], uint32_t slot);

/* pg_fail_errno() with advice on locked memory where EPERM can mean that (before Linux 5.11). */
int pg_fail_map(struct pg_error *err, int number, const char *operation, const char *name,
		size_t bytes);
