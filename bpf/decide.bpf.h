/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The decision function: (view, facts) -> reason, in the order of docs/verdicts.md. Every hook
 * calls it, so that connect, sendmsg and packets cannot disagree. It reads maps and writes nothing.
 */
#pragma once

#include "addr.bpf.h"
#include "facts.h"
#include "maps.bpf.h"
#include "set.bpf.h"
#include "view.bpf.h"

/* What an entry opens: no tunnels, whose inner destination no hook would judge. */
static __always_inline bool pg_protocol_opened(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_SCTP:
	case IPPROTO_ICMP:
	case PG_IPPROTO_ICMPV6:
		return true;
	}
	return false;
}

/* What only the listener is asked while DNS is redirected, by whatever carries ports. */
static __always_inline bool pg_is_dns(const struct pg_facts *facts)
{
	if (facts->remote_port != bpf_htons(PG_PORT_DNS))
		return false;
	return facts->protocol == IPPROTO_UDP || facts->protocol == IPPROTO_TCP ||
	       facts->protocol == IPPROTO_UDPLITE || facts->protocol == IPPROTO_SCTP;
}

#define PG_FACTS_REPLY (PG_FACT_ACCEPTED | PG_FACT_INBOUND)

/*
 * Whether the packet may go elsewhere than its destination says: options and extension headers can
 * change it, also behind an IPv6 fragment header, and a cut header does not say it.
 */
static __always_inline bool pg_hides_destination(const struct pg_facts *facts)
{
	if (facts->defect == PG_REASON_FRAGMENT)
		return facts->bits & PG_FACT_IPV6;
	return facts->defect;
}

/* The operator's ceiling. What hides its destination is not let out by any phase where there is
 * one.
 */
static __always_inline enum pg_reason pg_decide_ceiling(const struct pg_header *header,
							const struct pg_facts *facts)
{
	if (pg_hides_destination(facts))
		return PG_REASON_NOT_ALLOWED;
	switch (pg_set_lookup(header->ceiling, header->ceiling_tables, &facts->remote)) {
	case PG_SET_MISSING:
		return PG_REASON_UNREADABLE;
	case PG_SET_MEMBER:
		return PG_REASON_OPERATOR;
	case PG_SET_OUTSIDE:
		break;
	}
	return PG_REASON_NOT_ALLOWED;
}

static __always_inline enum pg_reason pg_decide_learned(__u32 slot, const struct pg_facts *facts)
{
	void *set = bpf_map_lookup_elem(&pg_learned_sets, &slot);
	struct pg_learned *learned;

	if (!set)
		return PG_REASON_UNREADABLE;
	learned = bpf_map_lookup_elem(set, &facts->remote);
	if (!learned)
		return PG_REASON_NOT_ALLOWED;
	if (bpf_ktime_get_boot_ns() < learned->expires)
		return PG_REASON_LEARNED;
	return facts->bits & PG_FACT_ESTABLISHED ? PG_REASON_DRAINING : PG_REASON_EXPIRED;
}

/* Is the destination in what the phase lists? */
static __always_inline enum pg_reason pg_decide_entries(const struct pg_header *header,
							const struct pg_phase_slot *slot,
							const struct pg_facts *facts)
{
	if (slot->mode != PG_MODE_ALLOWLIST)
		return PG_REASON_NOT_ALLOWED;
	if (!pg_protocol_opened(facts->protocol))
		return PG_REASON_PROTOCOL;
	switch (pg_set_lookup(slot->set, slot->tables, &facts->remote)) {
	case PG_SET_MISSING:
		return PG_REASON_UNREADABLE;
	case PG_SET_MEMBER:
		return PG_REASON_ENTRY;
	case PG_SET_OUTSIDE:
		break;
	}
	return slot->learned ? pg_decide_learned(slot->learned, facts) : PG_REASON_NOT_ALLOWED;
}

/*
 * Whether the host itself may be who receives: at its addresses and those of its networks, which
 * user space lists, at all of loopback, and as one of many.
 */
static __always_inline bool pg_may_be_host(const struct pg_addr *addr)
{
	return pg_addr_is_loopback(addr) || pg_addr_is_multicast(addr) ||
	       bpf_map_lookup_elem(&pg_host_addresses, addr);
}

/* What an entry opens of the host itself. */
static __always_inline enum pg_reason
pg_decide_host(const struct pg_header *header, const struct pg_facts *facts, enum pg_reason reason)
{
	__be16 port = facts->remote_port;

	if (!(header->flags & PG_HEADER_HOST_PORTS) || pg_reason_verdict(reason) != PG_ALLOW ||
	    !pg_may_be_host(&facts->remote))
		return reason;
	return bpf_map_lookup_elem(&pg_host_ports, &port) ? reason : PG_REASON_OPERATOR;
}

/* Replies to what was opened from outside. */
static __always_inline enum pg_reason pg_decide_reply(const struct pg_facts *facts)
{
	if (facts->bits & PG_FACT_ACCEPTED)
		return PG_REASON_ACCEPTED;
	if (facts->bits & PG_FACT_INBOUND)
		return PG_REASON_INBOUND;
	return PG_REASON_NOT_ALLOWED;
}

/* Whether all of the state that the phase is judged by is there, whatever the packet needs of it.
 */
static __always_inline bool pg_state_readable(const struct pg_header *header,
					      const struct pg_phase_slot *slot)
{
	if (header->ceiling_tables && !pg_set_readable(header->ceiling, header->ceiling_tables))
		return false;
	switch (slot->mode) {
	case PG_MODE_NO_NETWORK:
	case PG_MODE_PUBLIC:
		return true;
	case PG_MODE_ALLOWLIST:
		if (slot->learned && !bpf_map_lookup_elem(&pg_learned_sets, &slot->learned))
			return false;
		return pg_set_readable(slot->set, slot->tables);
	}
	return false; /* a mode that is in no list is memory that nobody wrote */
}

/* Whether public lets it out: not what might be for a destination or, on lo, for a socket that no
 * phase opens. */
static __always_inline bool pg_is_for_anybody(const struct pg_header *header,
					      const struct pg_facts *facts)
{
	if (!facts->defect)
		return true;
	return !(facts->bits & PG_FACT_TO_LO) &&
	       !(header->ceiling_tables && pg_hides_destination(facts));
}

static __always_inline enum pg_reason pg_decide(const struct pg_view *view,
						const struct pg_facts *facts)
{
	const struct pg_header *header = view->header;
	const struct pg_phase_slot *slot = view->slot;
	enum pg_reason reason;

	if (!view->valid)
		return PG_REASON_NO_POLICY;
	if (!slot || !pg_state_readable(header, slot))
		return PG_REASON_UNREADABLE;

	if (facts->bits & PG_FACT_KERNEL_ND)
		return PG_REASON_KERNEL_ND;
	if (facts->bits & PG_FACT_LISTENER && slot->flags & PG_PHASE_DNS_REDIRECT)
		return PG_REASON_LISTENER;
	if (facts->bits & PG_FACT_HIDDEN)
		return PG_REASON_NOT_ALLOWED;
	if (header->ceiling_tables) {
		reason = pg_decide_ceiling(header, facts);
		if (reason != PG_REASON_NOT_ALLOWED)
			return reason;
	}
	if (slot->flags & PG_PHASE_DNS_REDIRECT && pg_is_dns(facts) &&
	    !(facts->bits & PG_FACTS_REPLY))
		return PG_REASON_DNS_BYPASS;
	if (slot->mode == PG_MODE_PUBLIC && pg_is_for_anybody(header, facts))
		return PG_REASON_PUBLIC;
	if (facts->bits & PG_FACT_PACKET && !(facts->bits & PG_FACT_OWN_SOURCE) &&
	    (facts->bits & PG_FACT_LINK ||
	     header->flags & (PG_HEADER_CHECK_SOURCE | PG_HEADER_CHECK_LO_SOURCE)))
		return PG_REASON_SOURCE;
	if (facts->defect)
		return facts->defect;
	reason = pg_decide_reply(facts);
	if (reason != PG_REASON_NOT_ALLOWED)
		return reason;
	if (facts->bits & PG_FACT_LOOPBACK)
		return PG_REASON_LOOPBACK;
	if (facts->bits & PG_FACT_IPV6 && pg_addr_is_v4_form(&facts->remote))
		return PG_REASON_ADDRESS_FORM;
	if (facts->bits & PG_FACT_MEMBER && pg_protocol_opened(facts->protocol))
		return PG_REASON_MEMBER;
	return pg_decide_host(header, facts, pg_decide_entries(header, slot, facts));
}
