/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Verdicts and the reason of each. A reason implies its verdict. Values are stable: they appear in
 * counters, events and reports. The order of judgement is that of docs/verdicts.md; the first
 * reason that applies is the one reported.
 */
#pragma once

#include "types.h"

enum pg_verdict {
	PG_DENY = 0,
	PG_ALLOW = 1,
};

/* X(symbol, value, verdict, name, explanation) */
#define PG_REASONS(X) \
	X(NO_POLICY, 0, PG_DENY, "no-policy", "no policy is installed for this cgroup yet") \
	X(UNREADABLE, 1, PG_DENY, "unreadable", "the policy's state in the kernel cannot be read") \
	X(KERNEL_ND, 2, PG_ALLOW, "kernel-nd", "neighbour discovery or MLD sent by the kernel") \
	X(LISTENER, 3, PG_ALLOW, "dns-listener", "Phasegate's own DNS listener") \
	X(OPERATOR, 4, PG_DENY, "operator", "the host's operator never allows this destination") \
	X(PUBLIC, 5, PG_ALLOW, "public", "the phase allows every destination") \
	X(SOURCE, 6, PG_DENY, "source", "the source address is not the Environment's own") \
	X(TRUNCATED, 7, PG_DENY, "truncated", "the packet's headers cannot be read") \
	X(FRAGMENT, 8, PG_DENY, "fragment", "a fragment built by a raw socket") \
	X(IP_OPTIONS, 9, PG_DENY, "ip-options", "IPv4 options, which can change the destination") \
	X(EXTENSION, 10, PG_DENY, "extension-header", "an IPv6 extension header") \
	X(ACCEPTED, 11, PG_ALLOW, "accepted", "reply on a TCP connection opened from outside") \
	X(INBOUND, 12, PG_ALLOW, "inbound", "reply on a UDP flow opened from outside") \
	X(LOOPBACK, 13, PG_ALLOW, "loopback", "loopback within the Environment") \
	X(ADDRESS_FORM, 14, PG_DENY, "address-form", \
	  "mapped, compatible or unspecified IPv6 form") \
	X(PROTOCOL, 15, PG_DENY, "protocol", "a protocol that an entry does not open") \
	X(DNS_BYPASS, 16, PG_DENY, "dns-bypass", "port 53 past the resolver in the path") \
	X(ENTRY, 17, PG_ALLOW, "entry", "the destination is in the phase's address set") \
	X(LEARNED, 18, PG_ALLOW, "learned", "the destination was learned for an allowed name") \
	X(DRAINING, 19, PG_ALLOW, "draining", "open connection to an expired learned address") \
	X(EXPIRED, 20, PG_DENY, "expired", "the learned address has expired") \
	X(NOT_ALLOWED, 21, PG_DENY, "not-allowed", "the phase does not allow the destination") \
	X(INGRESS, 22, PG_ALLOW, "ingress", "a packet that came in") \
	X(MEMBER, 23, PG_ALLOW, "member", "an address of another member of the Environment") \
	X(FRAME, 24, PG_DENY, "frame", \
	  "at the veth: a packet socket's frame, or neither ARP, IPv4 nor IPv6")

enum pg_reason {
#define PG_X(symbol, value, verdict, name, text) PG_REASON_##symbol = value,
	PG_REASONS(PG_X)
#undef PG_X
};

#define PG_REASON_COUNT 25

/* The verdict of a reason, as a bit mask, so that both sides derive it from the one list. */
#define PG_X(symbol, value, verdict, name, text) | ((__u32)(verdict) << (value))
#define PG_REASON_ALLOW_MASK			 (0U PG_REASONS(PG_X))
static const __u32 pg_reason_allow_mask = PG_REASON_ALLOW_MASK;
#undef PG_X

static inline enum pg_verdict pg_reason_verdict(enum pg_reason reason)
{
	return (pg_reason_allow_mask >> reason) & 1U ? PG_ALLOW : PG_DENY;
}
