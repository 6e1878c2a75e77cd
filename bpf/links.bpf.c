// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Entry points of the veth guard: programs of tc, on the ends of veths and not on cgroups
 * (abi/link.h). Only who guards a veth loads them; all maps are those of phasegate.bpf.c.
 */
#include <vmlinux.h>

#include <bpf/bpf_helpers.h>

#include "link.bpf.h"
#include "link_inner.bpf.h"
#include "link_known.bpf.h"
#include "link_new.bpf.h"
#include "link_see.bpf.h"
#include "maps.bpf.h"
#include "view.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Whatever has come out of a veth. A function of its own, so that its part of the stack is not
 * taken while pg_link_knows() is asked. */
__noinline int pg_link_judge_any(struct __sk_buff *skb)
{
	struct pg_link_run *run = pg_link_begin();
	__u32 ifindex = skb->ifindex;
	const struct pg_link *link;
	struct pg_view view;
	__u64 env_id;

	if (!run || !pg_link_make_whole(skb))
		return PG_TC_DROP;
	pg_link_take(skb, pg_link_sender(skb), run);
	link = bpf_map_lookup_elem(&pg_links, &ifindex);
	if (!link)
		return PG_TC_DROP;
	env_id = link->header.env_id;
	pg_view_read(&view, &link->header);
	return pg_link_judge(skb, run, link, bpf_map_lookup_elem(&pg_link_tables, &env_id), &view);
}

/* What comes out of a veth; see abi/link.h. */
SEC("tc")
int pg_link_from(struct __sk_buff *skb)
{
	return pg_link_knows(skb) ? PG_TC_NEXT : pg_link_judge_any(skb);
}

/* What goes in. */
SEC("tc")
int pg_link_to(struct __sk_buff *skb)
{
	if (!pg_link_see_plain(skb))
		pg_link_see_other(skb);
	return PG_TC_NEXT;
}

/* What leaves by the other end of it, inside. */
SEC("tc")
int pg_link_inner(struct __sk_buff *skb)
{
	return pg_skips_guard(skb) ? PG_TC_DROP : PG_TC_NEXT;
}

/*
 * Run by user space alone (pg_link_bar()), so that nothing which is recorded meanwhile gets lost.
 * cb: the Environment's id, low half first, and until when datagrams are barred; 0: they are not.
 */
SEC("tc")
int pg_link_bar_in(struct __sk_buff *skb)
{
	__u64 env_id = skb->cb[0] | (__u64)skb->cb[1] << 32;
	struct pg_link_table *table = bpf_map_lookup_elem(&pg_link_tables, &env_id);

	if (!table)
		return 0;
	table->asked_any = 1;
	if (skb->cb[2])
		table->barred = skb->cb[2];
	return PG_LINK_BARRED;
}

/* What comes out of one without a guard. */
SEC("tc")
int pg_link_new(struct __sk_buff *skb)
{
	return pg_is_frame_of_member(skb) ? PG_TC_DROP : PG_TC_NEXT;
}
