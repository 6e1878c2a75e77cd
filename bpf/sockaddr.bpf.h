/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What connect() and sendmsg() are judged by: a sockaddr, the socket, and who is on loopback. */
#pragma once

#include "count.bpf.h"
#include "decide.bpf.h"
#include "dns.bpf.h"
#include "facts.h"
#include "flow.bpf.h"
#include "hook.bpf.h"
#include "loopback.bpf.h"
#include "sent.bpf.h"
#include "socket.bpf.h"
#include "view.bpf.h"

/* Returns whether the destination is known to be local. */
static __always_inline bool pg_read_sockaddr_facts(struct bpf_sock_addr *ctx, enum pg_count what,
						   const struct pg_view *view,
						   struct pg_facts *facts)
{
	const struct pg_header *header = view->header;
	struct bpf_sock *sk = ctx->sk;
	bool local;

	facts->netns = bpf_get_netns_cookie(ctx);
	if (what == PG_COUNT_SENDMSG && facts->protocol == IPPROTO_UDP && sk &&
	    pg_is_mapped_peer(sk, facts))
		facts->bits |= PG_FACT_ESTABLISHED;
	if (facts->protocol == IPPROTO_UDP && sk && sk->src_port) {
		facts->local_port = bpf_htons(sk->src_port);
		if (pg_flow_is_inbound(view, pg_flow_lookup_hint(header, facts)))
			facts->bits |= PG_FACT_INBOUND;
	}
	if (pg_dns_goes_to_listener(view, facts)) {
		facts->bits |= PG_FACT_LISTENER;
		return true;
	}
	local = pg_is_local_destination(header, facts);
	if (local && pg_listener_is_own(ctx, header, facts))
		facts->bits |= PG_FACT_LOOPBACK;
	if (pg_is_member_address(header, &facts->remote))
		facts->bits |= PG_FACT_MEMBER;
	return local;
}

/* Whether the destination may be an own address that user space has not told of yet. */
static __always_inline bool pg_may_reach_itself(struct bpf_sock_addr *ctx, enum pg_count what,
						const struct pg_header *header,
						const struct pg_facts *facts)
{
	if (pg_addr_is_multicast(&facts->remote))
		return false; /* the kernel binds to these as well */
	if (what == PG_COUNT_SENDMSG)
		return pg_has_udp_receiver(ctx, facts);
	return pg_listener_is_own(ctx, header, facts) && pg_binds_to_destination(ctx, facts);
}

/* The reason for which the same was let out a while ago, by this or, of TCP, another socket, or
 * PG_SENT_UNKNOWN. word: of the state. */
static __always_inline int pg_judged_before(struct bpf_sock_addr *ctx, enum pg_count what,
					    const struct pg_header *header, __u64 word,
					    struct pg_facts *facts)
{
	struct pg_sent_key key = {.env_id = header->env_id,
				  .epoch = header->epoch,
				  .generation = word >> PG_STATE_GENERATION_SHIFT};
	struct bpf_sock *sk = ctx->sk;

	if (!pg_view_is_valid(header, word))
		return PG_SENT_UNKNOWN;
	if (what == PG_COUNT_SENDMSG) {
		if (facts->protocol != IPPROTO_UDP || !sk || !sk->src_port)
			return PG_SENT_UNKNOWN;
		key.socket = bpf_get_socket_cookie(ctx);
		key.local_port = bpf_htons(sk->src_port);
		key.remote_port = facts->remote_port;
	} else if (facts->protocol != IPPROTO_TCP || facts->remote_port == bpf_htons(PG_PORT_DNS)) {
		return PG_SENT_UNKNOWN;
	}
	return pg_sent_find(&key, facts, true);
}

/*
 * The fast denial of connect() and sendmsg(): EPERM at once, where a dropped SYN alone would hang
 * the application. What they let through is judged again packet by packet.
 */
static __always_inline int pg_judge_sockaddr(struct bpf_sock_addr *ctx,
					     const struct pg_header *header, enum pg_count what,
					     struct pg_facts *facts)
{
	struct pg_counters *counters = bpf_get_local_storage(&pg_counts, 0);
	const __u64 word = pg_view_word(header);
	enum pg_reason reason = PG_REASON_NO_POLICY;
	struct pg_view view;
	bool local = false;
	int known;

	facts->remote_port = ctx->user_port;
	facts->protocol = ctx->protocol == PG_IPPROTO_MPTCP ? IPPROTO_TCP : ctx->protocol;
	known = pg_judged_before(ctx, what, header, word, facts);
	if (known >= 0) {
		pg_count(counters, what, known);
		return PG_HOOK_ALLOW;
	}
	pg_view_fill(&view, header, word);
	if (view.valid) {
		local = pg_read_sockaddr_facts(ctx, what, &view, facts);
		reason = pg_decide(&view, facts);
	}
	/* Asked last, because it costs most, and only where it would allow. */
	if (reason == PG_REASON_NOT_ALLOWED && !local &&
	    pg_may_reach_itself(ctx, what, header, facts))
		reason = PG_REASON_LOOPBACK;
	if (reason == PG_REASON_LISTENER)
		pg_dns_ask(ctx, &view, facts, counters);
	else
		facts->bits &= ~PG_FACT_LISTENER;
	if (pg_count(counters, what, reason) == PG_ALLOW)
		return PG_HOOK_ALLOW;
	pg_report_denied(&view, facts, what, reason, counters);
	return PG_HOOK_DENY;
}
