/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What was decided a while ago of TCP between two addresses. It is recorded only where source and
 * destination alone have decided, and holds for what is no reply, and goes neither to port 53 nor
 * to lo.
 */
#pragma once

#include "decide.bpf.h"
#include "facts.h"
#include "lasting.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "sent.bpf.h"
#include "view.bpf.h"

/* Whether source and destination alone decide about the segment. */
static __always_inline bool pg_recent_is_of(const struct pg_facts *facts, __u8 tcp_flags)
{
	return facts->remote_port != bpf_htons(PG_PORT_DNS) &&
	       (tcp_flags & (PG_TCP_SYN | PG_TCP_ACK)) != (PG_TCP_SYN | PG_TCP_ACK);
}

/* The reason for which the packet may go out, if it is a plain segment of TCP, or PG_SENT_UNKNOWN.
 */
static __always_inline int pg_recent_find(struct __sk_buff *skb, __u64 where,
					  struct pg_sent_key *key)
{
	struct pg_facts facts = {};
	pg_word tcp[4];

	if (!pg_sent_read_packet(skb, where, &facts, tcp, 4))
		return PG_SENT_UNKNOWN;
	if (where & PG_SENT_LINK)
		key->env_id |= PG_SENT_OF_LINK;
	if (!pg_recent_is_of(&facts, bpf_ntohl(tcp[3]) >> 16))
		return PG_SENT_UNKNOWN;
	return pg_sent_find(key, &facts, false);
}

/* Whether the reason depends on nothing but source and destination. */
static __always_inline bool pg_recent_is_fit(const struct pg_view *view, enum pg_reason reason,
					     const struct pg_addr *remote)
{
	switch (reason) {
	case PG_REASON_PUBLIC:
		return true;
	case PG_REASON_ENTRY:
	case PG_REASON_LEARNED:
		/* Of the host some ports are open. */
		return !(view->header->flags & PG_HEADER_HOST_PORTS) || !pg_may_be_host(remote);
	default:
		return false;
	}
}

/* env_id: as in struct pg_sent. At the guard only of what is recorded as asked. */
PG_APART void pg_recent_record(const struct pg_view *view, __u64 env_id,
			       const struct pg_facts *facts, enum pg_reason reason)
{
	const struct pg_sent_key key = {.env_id = env_id,
					.epoch = view->header->epoch,
					.generation = view->generation};

	if (pg_sent_is_plain(facts) && pg_recent_is_fit(view, reason, &facts->remote) &&
	    pg_lasts(reason, view->slot ? view->slot->learned : 0, &facts->remote))
		pg_sent_put(&key, facts, reason);
}
