/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What was decided a while ago (abi/recent.h). It is recorded only where source and destination
 * alone have decided, and holds for what is no reply, does not reset, and goes neither to port 53
 * nor to lo.
 */
#pragma once

#include "decide.bpf.h"
#include "facts.h"
#include "lasting.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "view.bpf.h"

/* There is no record. */
#define PG_RECENT_UNKNOWN (-1)

#define PG_RECENT_TAG 0xffffffff00000000ULL

/* By whom, and by which policy. */
struct pg_recent_key {
	__u64 place; /* as in abi/recent.h */
	__u64 epoch;
	__u64 generation;
	__u64 now;	   /* jiffies */
	__u32 mask, flags; /* which PG_RECENT_* count, and what they have to be */
};

/* As they follow each other in a plain segment. */
struct pg_segment4 {
	struct iphdr ip;
	struct pg_transport tcp;
};

struct pg_segment6 {
	struct ipv6hdr ip;
	struct pg_transport tcp;
};

/* Hook and guard have places of their own, and so have the addresses of a network of 256: what they
 * differ in is above the other bits here, and only the upper bits of a product depend on it. */
static __always_inline struct pg_recent *pg_recent_place(__u64 place, __be32 remote)
{
	__u32 hash = (remote ^ (__u32)place) * 0x9e3779b1U >> 24 & (PG_RECENT_MAX - 1);

	hash = (hash ^ place >> 63) + bpf_get_smp_processor_id() * PG_RECENT_MAX;
	return bpf_map_lookup_elem(&pg_recents, &hash);
}

/* Reads a word of a record and compares it, before the next one is read: the compiler would keep
 * them all, on a stack that is small. */
static __always_inline void pg_recent_compare(const volatile __u64 *word, __u64 tag, __u32 value,
					      __u64 *differs)
{
	*differs |= *word ^ (tag | value);
	barrier_var(*differs);
}

/* The reason of a record that differs in nothing but what it is of, and is not over. */
static __always_inline int pg_recent_reason(const volatile __u64 *words, __u64 tag, __u64 differs,
					    const struct pg_recent_key *key)
{
	__u64 until, reason;

	pg_recent_compare(&words[PG_RECENT_PLACE], tag, key->place, &differs);
	pg_recent_compare(&words[PG_RECENT_PLACE_HIGH], tag, key->place >> 32, &differs);
	pg_recent_compare(&words[PG_RECENT_EPOCH], tag, key->epoch, &differs);
	pg_recent_compare(&words[PG_RECENT_GENERATION], tag, key->generation, &differs);
	until = words[PG_RECENT_UNTIL];
	reason = words[PG_RECENT_REASON];
	differs |= ((until ^ tag) | (reason ^ tag)) >> 32;
	differs |= (reason ^ key->flags) & key->mask;
	until = (__u32)until | (__u64)((__u32)reason >> PG_RECENT_UNTIL_SHIFT) << 32;
	differs |= key->now >= until;
	return differs ? PG_RECENT_UNKNOWN : (int)(reason & PG_RECENT_REASON_MASK);
}

/* Begins to compare: the words of the place, or NULL. */
static __always_inline const volatile __u64 *
pg_recent_words(const struct pg_recent_key *key, __be32 remote, __u64 *ret_tag, __u64 *ret_differs)
{
	const struct pg_recent *recent = pg_recent_place(key->place, remote);
	const volatile __u64 *words;

	if (!recent)
		return NULL;
	words = recent->word;
	*ret_differs = words[PG_RECENT_REMOTE];
	*ret_tag = *ret_differs & PG_RECENT_TAG;
	*ret_differs ^= *ret_tag | remote;
	return words;
}

/* The reason of what goes from local to remote, or PG_RECENT_UNKNOWN. */
static __always_inline int pg_recent_find4(const struct pg_recent_key *key, __be32 local,
					   __be32 remote)
{
	__u64 tag, differs;
	const volatile __u64 *words = pg_recent_words(key, remote, &tag, &differs);

	if (!words)
		return PG_RECENT_UNKNOWN;
	pg_recent_compare(&words[PG_RECENT_LOCAL], tag, local, &differs);
	return pg_recent_reason(words, tag, differs, key);
}

static __always_inline void pg_recent_compare_rest(const volatile __u64 *rest, __u64 tag,
						   const __be32 *addr, __u64 *differs)
{
	pg_recent_compare(&rest[0], tag, addr[0], differs);
	pg_recent_compare(&rest[1], tag, addr[1], differs);
	pg_recent_compare(&rest[2], tag, addr[2], differs);
}

/* The same of IPv6 addresses. */
static __always_inline int pg_recent_find6(const struct pg_recent_key *key, const __be32 *local,
					   const __be32 *remote)
{
	__u64 tag, differs;
	const volatile __u64 *words = pg_recent_words(key, remote[3], &tag, &differs);

	if (!words)
		return PG_RECENT_UNKNOWN;
	pg_recent_compare(&words[PG_RECENT_LOCAL], tag, local[3], &differs);
	pg_recent_compare_rest(&words[PG_RECENT_REMOTE_REST], tag, remote, &differs);
	pg_recent_compare_rest(&words[PG_RECENT_LOCAL_REST], tag, local, &differs);
	return pg_recent_reason(words, tag, differs, key);
}

/* Whether source and destination alone decide about the segment. At the guard a SYN needs a record
 * of one that was recorded as asked. */
static __always_inline bool pg_recent_is_of(const struct pg_transport *tcp,
					    struct pg_recent_key *key)
{
	const __u8 syn = tcp->flags & (PG_TCP_SYN | PG_TCP_ACK);

	if (tcp->flags & PG_TCP_RST || tcp->ports[1] == bpf_htons(PG_PORT_DNS) ||
	    syn == (PG_TCP_SYN | PG_TCP_ACK))
		return false;
	if (syn == PG_TCP_SYN && key->place & PG_RECENT_LINK) {
		key->mask |= PG_RECENT_ASKED;
		key->flags |= PG_RECENT_ASKED;
	}
	return true;
}

/* The reason for which the packet may go out, if it is a plain segment of TCP, or
 * PG_RECENT_UNKNOWN. */
static __always_inline int pg_recent_find(struct __sk_buff *skb, __u32 network,
					  struct pg_recent_key *key)
{
	const void *end = (const void *)(long)skb->data_end;
	const void *begin = (const void *)(long)skb->data + network;
	const struct pg_segment4 *v4 = begin;
	const struct pg_segment6 *v6 = begin;

	key->mask = PG_RECENT_IPV6;
	if (skb->protocol == bpf_htons(PG_ETH_P_IP)) {
		if ((const void *)(v4 + 1) > end || *(const __u8 *)&v4->ip != 0x45 ||
		    v4->ip.frag_off & bpf_htons(PG_IP_MORE_OR_OFFSET) ||
		    v4->ip.protocol != IPPROTO_TCP || !pg_recent_is_of(&v4->tcp, key))
			return PG_RECENT_UNKNOWN;
		return pg_recent_find4(key, v4->ip.saddr, v4->ip.daddr);
	}
	if (skb->protocol != bpf_htons(PG_ETH_P_IPV6) || (const void *)(v6 + 1) > end ||
	    v6->ip.version != 6 || v6->ip.nexthdr != IPPROTO_TCP || !pg_recent_is_of(&v6->tcp, key))
		return PG_RECENT_UNKNOWN;
	key->flags |= PG_RECENT_IPV6;
	return pg_recent_find6(key, v6->ip.saddr.in6_u.u6_addr32, v6->ip.daddr.in6_u.u6_addr32);
}

/* Of what goes to remote, from whatever address. */
static __always_inline int pg_recent_find_to(struct pg_recent_key *key,
					     const struct pg_addr *remote)
{
	const bool v4 = pg_addr_is_v4(remote);
	__u64 tag, differs;
	const volatile __u64 *words = pg_recent_words(key, remote->word[3], &tag, &differs);

	if (!words)
		return PG_RECENT_UNKNOWN;
	key->mask = PG_RECENT_IPV6;
	key->flags = v4 ? 0 : PG_RECENT_IPV6;
	differs |= (words[PG_RECENT_LOCAL] ^ tag) >> 32;
	if (!v4)
		pg_recent_compare_rest(&words[PG_RECENT_REMOTE_REST], tag, remote->word, &differs);
	return pg_recent_reason(words, tag, differs, key);
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

/* flags: PG_RECENT_ASKED or 0 */
PG_APART void pg_recent_record(const struct pg_view *view, __u64 place,
			       const struct pg_facts *facts, enum pg_reason reason, __u32 flags)
{
	const __u64 until = bpf_jiffies64() + PG_LASTS_JIFFIES;
	const __u64 tag = (__u64)bpf_get_prandom_u32() << 32;
	struct pg_recent *recent;
	volatile __u64 *words;

	if (!pg_recent_is_fit(view, reason, &facts->remote) ||
	    !pg_lasts(reason, view->slot ? view->slot->learned : 0, &facts->remote))
		return;
	recent = pg_recent_place(place, facts->remote.word[3]);
	if (!recent)
		return;
	if (!pg_addr_is_v4(&facts->remote) || !pg_addr_is_v4(&facts->local))
		flags |= PG_RECENT_IPV6;
	words = recent->word;
	words[PG_RECENT_REMOTE] = tag | facts->remote.word[3];
	words[PG_RECENT_LOCAL] = tag | facts->local.word[3];
#pragma unroll
	for (__u32 i = 0; i < 3; i++) {
		words[PG_RECENT_REMOTE_REST + i] = tag | facts->remote.word[i];
		words[PG_RECENT_LOCAL_REST + i] = tag | facts->local.word[i];
	}
	words[PG_RECENT_PLACE] = tag | (__u32)place;
	words[PG_RECENT_PLACE_HIGH] = tag | place >> 32;
	words[PG_RECENT_EPOCH] = tag | (__u32)view->header->epoch;
	words[PG_RECENT_GENERATION] = tag | (__u32)view->generation;
	words[PG_RECENT_UNTIL] = tag | (__u32)until;
	words[PG_RECENT_REASON] =
		tag | (__u32)(until >> 32) << PG_RECENT_UNTIL_SHIFT | flags | reason;
}
