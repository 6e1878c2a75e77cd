/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For how long a decision may be remembered. */
#pragma once

#include "maps.bpf.h"

/* At most a second, whatever CONFIG_HZ is. */
#define PG_LASTS_JIFFIES 100
#define PG_LASTS_NS	 1000000000ULL

/*
 * Whether the same will be decided for as long, unless the state is written: what others may end at
 * any time does not last. slot: of the phase's learned addresses.
 */
static __always_inline bool pg_lasts(enum pg_reason reason, __u32 slot,
				     const struct pg_addr *remote)
{
	struct pg_learned *learned;
	void *set;

	switch (reason) {
	case PG_REASON_PUBLIC:
	case PG_REASON_INBOUND:
	case PG_REASON_ACCEPTED: /* as long as the socket has its mark or its place */
	case PG_REASON_ENTRY:
		return true;
	case PG_REASON_LEARNED:
		set = bpf_map_lookup_elem(&pg_learned_sets, &slot);
		learned = set ? bpf_map_lookup_elem(set, remote) : NULL;
		return learned && learned->expires > bpf_ktime_get_boot_ns() + PG_LASTS_NS;
	default:
		return false;
	}
}
