/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * The header of a member of an Environment: a value of a BPF_MAP_TYPE_CGROUP_STORAGE map keyed by
 * the u64 cgroup id. The kernel replaces the value as a whole (an RCU-protected pointer), so a hook
 * run that reads it once sees one header or the other, never a mixture. Only user space writes it.
 * Nothing that a BPF program writes may live here: the next header write would lose it.
 *
 * Which phase is in force is not here but in the state (abi/state.h), which the members share. An
 * update of the policy fills the bank that is not in force in all headers, waits for hook runs that
 * have read an older header, and only then switches the state to that bank.
 *
 * A zero header, that of a fresh attach, denies everything.
 */
#pragma once

#include "mode.h"
#include "state.h"
#include "types.h"

#define PG_HEADER_MAGIC (0x50470000U | PG_ABI_VERSION)

#define PG_PORT_DNS 53

/* pg_header.flags */
#define PG_HEADER_CHECK_SOURCE	   (1U << 0) /* deny packets whose source is not in pg_own */
#define PG_HEADER_DNS_LISTENER	   (1U << 1) /* .listener is set; see PG_PHASE_DNS_REDIRECT */
#define PG_HEADER_GUARD		   (1U << 2) /* reserved: a tc guard is on the veth */
#define PG_HEADER_DENY_INBOUND	   (1U << 3) /* reserved: refuse flows opened from outside */
#define PG_HEADER_AUDIT		   (1U << 4) /* reserved: report denials without enforcing */
/* The same for packets on their way to lo only, where the destination is an own address as well:
 * what the kernel answers to a forged source there would leave unjudged. */
#define PG_HEADER_CHECK_LO_SOURCE  (1U << 5)
#define PG_HEADER_MEMBERS	   (1U << 6) /* what is sent to other members on loopback is within */
#define PG_HEADER_EVENTS	   (1U << 7) /* report denials: PG_EVENT_DENIED */
/* Outside public, an entry opens only pg_host_ports on pg_host_addresses. */
#define PG_HEADER_HOST_PORTS	   (1U << 8)
/* What is sent to pg_member_addresses is open, outside public too. */
#define PG_HEADER_MEMBER_ADDRESSES (1U << 9)
/* The members ran before they were confined: a listener without a mark may be theirs. */
#define PG_HEADER_ATTACHED	   (1U << 10)

/* pg_phase_slot.flags */
#define PG_PHASE_DNS_REDIRECT (1U << 0) /* what is meant for port 53 goes to .listener only */

/* What one phase allows. Slots index the outer maps of abi/set.h; slot 0 is never filled. */
struct pg_phase_slot {
	__u32 set;     /* static address set; meaningful if .tables is not 0 */
	__u32 learned; /* learned addresses; 0: none */
	__u8 mode;     /* enum pg_mode */
	__u8 tables;   /* bit per enum pg_table that .set has */
	__u8 flags;    /* PG_PHASE_* */
	__u8 reserved[5];
};
PG_ASSERT_SIZE(struct pg_phase_slot, 16);

struct pg_header {
	__u32 magic;	     /* PG_HEADER_MAGIC; anything else is "no policy" */
	__u32 state;	     /* index into pg_states; 0 is never used */
	__u32 flags;	     /* PG_HEADER_* */
	__u32 ceiling;	     /* address set of what the operator never allows */
	__u8 level;	     /* depth of the member's cgroup; the root has 0 */
	__u8 ceiling_tables; /* bit per enum pg_table that .ceiling has; 0: no ceiling */
	__u8 reserved0[6];
	__u64 env_id;	 /* of the Environment: the cgroup id of its first member */
	__u64 cgroup_id; /* of this member */
	/* Another one for each Environment that is made, whose env_id and generations may be those
	 * of an earlier one of the same cgroup, and with each change of its headers. */
	__u64 epoch;
	struct pg_phase_slot slots[PG_BANK_COUNT][PG_PHASE_COUNT];
	struct pg_endpoint listener[2]; /* of DNS, both on loopback: IPv4, IPv6 */
	__u64 reserved1;
};
PG_ASSERT_SIZE(struct pg_header, 200);
