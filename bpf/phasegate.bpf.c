// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Entry points: one program per hook of abi/hook.h. Each reads the header and the state once,
 * gathers facts, asks the decision function and counts. An Environment's cgroup has all of them.
 * Nothing here is of the kernel's own types, all of which libbpf would read: every start loads it.
 * What does need them, the guard of veths, is in links.bpf.c.
 */
#include <vmlinux.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "accepted.bpf.h"
#include "count.bpf.h"
#include "dns.bpf.h"
#include "egress.bpf.h"
#include "flow.bpf.h"
#include "hook.bpf.h"
#include "ingress.bpf.h"
#include "loopback.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "segment.bpf.h"
#include "sent.bpf.h"
#include "sockaddr.bpf.h"
#include "socket.bpf.h"
#include "view.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The reason for which the same has passed the hook a while ago, or PG_SENT_UNKNOWN. protocol: of
 * pg_ip_protocol(). */
static __always_inline int pg_find_sent(struct __sk_buff *skb, const struct pg_header *header,
					__u64 word, int protocol)
{
	const __u64 generation = word >> PG_STATE_GENERATION_SHIFT;

	if (!pg_view_is_valid(header, word) || skb->ifindex == PG_IFINDEX_LOOPBACK)
		return PG_SENT_UNKNOWN;
	if (protocol == IPPROTO_UDP)
		return pg_sent_find_own(skb, header->env_id, header->epoch, generation, 0);
	return pg_segment_find(skb, header->env_id, header->epoch, generation,
			       (__u64)header->state << PG_SENT_STATE);
}

SEC("cgroup_skb/egress")
int pg_egress(struct __sk_buff *skb)
{
	struct pg_counters *counters = bpf_get_local_storage(&pg_counts, 0);
	const struct pg_header *header = bpf_get_local_storage(&pg_headers, 0);
	const __u64 word = pg_view_word(header);
	struct pg_view view;
	int known;

	known = pg_find_sent(skb, header, word, pg_ip_protocol(skb, 0));
	if (known < 0) {
		pg_view_fill(&view, header, word);
		return pg_judge_egress(skb, &view, counters);
	}
	pg_count(counters, PG_COUNT_PACKET, known);
	return PG_HOOK_ALLOW;
}

SEC("cgroup_skb/ingress")
int pg_ingress(struct __sk_buff *skb)
{
	const struct pg_header *header = bpf_get_local_storage(&pg_headers, 0);

	return pg_see_ingress(skb, header, pg_view_word(header),
			      bpf_get_local_storage(&pg_counts, 0));
}

SEC("sockops")
int pg_sockops(struct bpf_sock_ops *ctx)
{
	/* Of every connection the kernel tells several things more. */
	if (ctx->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		pg_note_accepted(ctx, bpf_get_local_storage(&pg_headers, 0));
	else if (ctx->op == BPF_SOCK_OPS_STATE_CB && ctx->args[1] == PG_TCP_CLOSE)
		pg_end_accepted(ctx, bpf_get_local_storage(&pg_headers, 0));
	else if (ctx->op == BPF_SOCK_OPS_TCP_LISTEN_CB)
		pg_mark_listener(ctx, bpf_get_local_storage(&pg_headers, 0));
	return 1;
}

/*
 * Marks raw sockets, so that they cannot pass for the kernel's neighbour discovery, and with UDP
 * sockets for the namespace that their flows belong to.
 */
SEC("cgroup/sock_create")
int pg_sock_create(struct bpf_sock *sk)
{
	const struct pg_header *header = bpf_get_local_storage(&pg_headers, 0);
	struct pg_mark mark = {};

	if (sk->type == PG_SOCK_RAW)
		mark.kind = PG_MARK_RAW;
	else if (sk->type == PG_SOCK_DGRAM && sk->protocol == IPPROTO_UDP)
		mark.kind = PG_MARK_DATAGRAM;
	else
		return PG_HOOK_ALLOW;
	mark.owner = pg_mark_owner(header);
	mark.netns = bpf_get_netns_cookie(sk);
	return bpf_sk_storage_get(&pg_marks, sk, &mark, BPF_SK_STORAGE_GET_F_CREATE) ? PG_HOOK_ALLOW
										     : PG_HOOK_DENY;
}

static __always_inline int pg_judge_sockaddr4(struct bpf_sock_addr *ctx, enum pg_count what)
{
	const struct pg_header *header = bpf_get_local_storage(&pg_headers, 0);
	struct pg_facts facts = {};
	int verdict;

	pg_addr_set_v4(&facts.remote, ctx->user_ip4);
	verdict = pg_judge_sockaddr(ctx, header, what, &facts);
	if (facts.bits & PG_FACT_LISTENER)
		pg_dns_write4(ctx, &header->listener[0]);
	return verdict;
}

/* An IPv4-mapped sockaddr has the form of an IPv4 address here already. */
static __always_inline void pg_read_user_ip6(struct bpf_sock_addr *ctx, struct pg_addr *addr)
{
	addr->word[0] = ctx->user_ip6[0];
	addr->word[1] = ctx->user_ip6[1];
	addr->word[2] = ctx->user_ip6[2];
	addr->word[3] = ctx->user_ip6[3];
}

static __always_inline int pg_judge_sockaddr6(struct bpf_sock_addr *ctx, enum pg_count what)
{
	const struct pg_header *header = bpf_get_local_storage(&pg_headers, 0);
	struct pg_facts facts = {};
	int verdict;

	pg_read_user_ip6(ctx, &facts.remote);
	verdict = pg_judge_sockaddr(ctx, header, what, &facts);
	if (facts.bits & PG_FACT_LISTENER)
		pg_dns_write6(ctx, pg_addr_is_v4(&facts.remote) ? &header->listener[0]
								: &header->listener[1]);
	return verdict;
}

/*
 * A stream socket that connects is outbound from here on, whatever it was before. A raw socket
 * keeps its mark: without it, it would pass for the kernel's.
 */
static __always_inline void pg_forget_accepted(struct bpf_sock_addr *ctx)
{
	const struct pg_header *header = bpf_get_local_storage(&pg_headers, 0);
	struct bpf_sock *sk = ctx->sk;
	struct pg_accepted *place;
	__u64 cookie;

	if (!sk || ctx->type != PG_SOCK_STREAM)
		return;
	bpf_sk_storage_delete(&pg_marks, sk);
	if (!pg_may_be_accepted(header->state))
		return;
	cookie = bpf_get_socket_cookie(ctx);
	place = pg_accepted_find(header->state, cookie);
	if (place)
		pg_accepted_free(place, cookie);
}

/*
 * Outside public, a UDP port that another's socket holds on loopback is not shared with it
 * (SO_REUSEADDR, SO_REUSEPORT): who receives a datagram could change between verdict and delivery.
 */
static __always_inline int pg_judge_bind(struct bpf_sock_addr *ctx, struct pg_facts *facts)
{
	const struct pg_header *header = bpf_get_local_storage(&pg_headers, 0);
	struct pg_view view;

	facts->remote_port = ctx->user_port;
	pg_view_read(&view, header);
	if (!view.valid || ctx->protocol != IPPROTO_UDP || !facts->remote_port)
		return PG_HOOK_ALLOW;
	if (view.slot && view.slot->mode == PG_MODE_PUBLIC)
		return PG_HOOK_ALLOW;
	return pg_udp_holder_is_own(ctx, header, facts) ? PG_HOOK_ALLOW : PG_HOOK_DENY;
}

SEC("cgroup/bind4")
int pg_bind4(struct bpf_sock_addr *ctx)
{
	struct pg_facts facts = {};

	pg_addr_set_v4(&facts.remote, ctx->user_ip4);
	return pg_judge_bind(ctx, &facts);
}

SEC("cgroup/bind6")
int pg_bind6(struct bpf_sock_addr *ctx)
{
	struct pg_facts facts = {};

	pg_read_user_ip6(ctx, &facts.remote);
	return pg_judge_bind(ctx, &facts);
}

SEC("cgroup/connect4")
int pg_connect4(struct bpf_sock_addr *ctx)
{
	pg_forget_accepted(ctx);
	return pg_judge_sockaddr4(ctx, PG_COUNT_CONNECT);
}

SEC("cgroup/connect6")
int pg_connect6(struct bpf_sock_addr *ctx)
{
	pg_forget_accepted(ctx);
	return pg_judge_sockaddr6(ctx, PG_COUNT_CONNECT);
}

SEC("cgroup/sendmsg4")
int pg_sendmsg4(struct bpf_sock_addr *ctx)
{
	return pg_judge_sockaddr4(ctx, PG_COUNT_SENDMSG);
}

SEC("cgroup/sendmsg6")
int pg_sendmsg6(struct bpf_sock_addr *ctx)
{
	return pg_judge_sockaddr6(ctx, PG_COUNT_SENDMSG);
}

/* What comes from the listener is shown to come from the nameserver that was asked. */
static __always_inline int pg_show_server4(struct bpf_sock_addr *ctx)
{
	const struct pg_header *header = bpf_get_local_storage(&pg_headers, 0);
	const struct pg_dns_socket *asked;
	struct pg_addr from;

	pg_addr_set_v4(&from, ctx->user_ip4);
	asked = pg_dns_asked(ctx, header, &from);
	if (asked && pg_addr_is_v4(&asked->server.addr))
		pg_dns_write4(ctx, &asked->server);
	return PG_HOOK_ALLOW;
}

static __always_inline int pg_show_server6(struct bpf_sock_addr *ctx)
{
	const struct pg_header *header = bpf_get_local_storage(&pg_headers, 0);
	const struct pg_dns_socket *asked;
	struct pg_addr from;

	pg_read_user_ip6(ctx, &from);
	asked = pg_dns_asked(ctx, header, &from);
	if (asked)
		pg_dns_write6(ctx, &asked->server);
	return PG_HOOK_ALLOW;
}

SEC("cgroup/recvmsg4")
int pg_recvmsg4(struct bpf_sock_addr *ctx)
{
	return pg_show_server4(ctx);
}

SEC("cgroup/recvmsg6")
int pg_recvmsg6(struct bpf_sock_addr *ctx)
{
	return pg_show_server6(ctx);
}

SEC("cgroup/getpeername4")
int pg_getpeername4(struct bpf_sock_addr *ctx)
{
	return pg_show_server4(ctx);
}

SEC("cgroup/getpeername6")
int pg_getpeername6(struct bpf_sock_addr *ctx)
{
	return pg_show_server6(ctx);
}

/* Values of optlen that the kernel takes for something else than a size: the call succeeds and does
 * nothing; or it reads what the application gave, and not the hook's copy, which ends with a page.
 */
#define PG_SOCKOPT_IGNORE    (-1)
#define PG_SOCKOPT_UNTOUCHED 0

SEC("cgroup/setsockopt")
int pg_setsockopt(struct bpf_sockopt *ctx)
{
	struct pg_counters *counters = bpf_get_local_storage(&pg_counts, 0);
	struct pg_view view;

	pg_view_read(&view, bpf_get_local_storage(&pg_headers, 0));
	ctx->optlen = pg_dns_ignores_recverr(ctx, &view, counters) ? PG_SOCKOPT_IGNORE
								   : PG_SOCKOPT_UNTOUCHED;
	return PG_HOOK_ALLOW;
}
