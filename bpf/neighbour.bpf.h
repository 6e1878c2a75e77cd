/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a kernel says to its neighbours: ARP (RFC 826), neighbour discovery (RFC 4861), MLD
 * (RFC 2710, 3810). Made by the kernel it still carries what a workload has chosen: groups that it
 * joined, addresses that it gave itself or wants to reach.
 */
#pragma once

#include "addr.bpf.h"
#include "facts.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "socket.bpf.h"

#define PG_ETH_P_ARP 0x0806

/* Options of neighbour discovery. */
#define PG_ND_SOURCE 1
#define PG_ND_TARGET 2
#define PG_ND_NONCE  14

#define PG_HOPS_ND  255
#define PG_HOPS_MLD 1

/* Kinds of records in a report (RFC 3810 section 5.2.12): 1 to this one. */
#define PG_MLD_RECORD_LAST 6

/* Groups in one report; a kernel's with as many own addresses is not known. */
#define PG_MLD_RECORDS_MAX 16

struct pg_mld_record {
	__u8 type;
	__u8 extra; /* data behind the sources, in words */
	__be16 sources;
	struct pg_addr group;
};
PG_ASSERT_SIZE(struct pg_mld_record, 20);

static __always_inline bool pg_is_mld_type(__u8 type)
{
	return type == PG_ICMPV6_MLD_REPORT || type == PG_ICMPV6_MLD_DONE ||
	       type == PG_ICMPV6_MLD2_REPORT;
}

static __always_inline bool pg_is_own_group(const struct pg_header *header,
					    const struct pg_addr *group)
{
	struct pg_own_key key = {.env_id = header->env_id, .addr = *group};

	return bpf_map_lookup_elem(&pg_own_groups, &key);
}

/* Whether what stands between the headers is the router alert that the kernel writes. */
static __always_inline bool pg_has_router_alert(struct __sk_buff *skb,
						const struct pg_packet *packet)
{
	__be32 words[2] = {};

	return !bpf_skb_load_bytes(skb, packet->transport, words, sizeof(words)) &&
	       words[0] == bpf_htonl(PG_IPPROTO_ICMPV6 << 24 | 0x0502) &&
	       words[1] == bpf_htonl(0x0100);
}

/*
 * Whether a report is about nothing but solicited-node groups of own addresses, so that joining any
 * other group says nothing outside. The message is behind a hop-by-hop header of eight octets.
 */
static __always_inline bool pg_mld_is_own(struct __sk_buff *skb, const struct pg_header *header,
					  const struct pg_packet *packet)
{
	const __u32 message = packet->transport + 8;
	struct pg_mld_record record = {};
	__be16 count = 0;

	if (!pg_has_router_alert(skb, packet))
		return false;
	if (packet->icmp_type != PG_ICMPV6_MLD2_REPORT)
		return skb->len == message + 24 &&
		       !bpf_skb_load_bytes(skb, message + 8, &record.group, sizeof(record.group)) &&
		       pg_is_own_group(header, &record.group);
	if (bpf_skb_load_bytes(skb, message + 6, &count, sizeof(count)) < 0)
		return false;
	count = bpf_ntohs(count);
	if (!count || count > PG_MLD_RECORDS_MAX ||
	    skb->len != message + 8 + count * sizeof(record))
		return false;
	for (__u32 i = 0; i < PG_MLD_RECORDS_MAX; i++) {
		if (i >= count)
			break;
		if (bpf_skb_load_bytes(skb, message + 8 + i * sizeof(record), &record,
				       sizeof(record)) < 0 ||
		    record.extra || record.sources ||
		    (__u8)(record.type - 1) >= PG_MLD_RECORD_LAST ||
		    !pg_is_own_group(header, &record.group))
			return false;
	}
	return true;
}

/* Of what looks like the kernel's neighbour discovery: whether MLD in it says only what it may. */
static __always_inline void pg_check_mld(struct __sk_buff *skb, const struct pg_header *header,
					 struct pg_facts *facts, const struct pg_packet *packet)
{
	if (facts->bits & PG_FACT_KERNEL_ND && pg_is_mld_type(packet->icmp_type) &&
	    (facts->protocol != PG_NEXT_HOP_BY_HOP || !pg_mld_is_own(skb, header, packet)))
		facts->bits &= ~PG_FACT_KERNEL_ND;
}

/* Own at the veth, whatever the header asks for. What user space enters is neither loopback nor
 * multicast. */
static __always_inline bool pg_is_own(const struct pg_header *header, const struct pg_addr *addr)
{
	struct pg_own_key key = {.env_id = header->env_id, .addr = *addr};
	pg_own_value *own;

	own = bpf_map_lookup_elem(&pg_own, &key);
	return own && !(*own & PG_OWN_HOST);
}

/* The sender's hardware address, or the nonce by which it knows its own question. */
static __always_inline bool pg_is_nd_option(struct __sk_buff *skb, __u32 offset, pg_station station)
{
	__u8 head[2] = {};
	pg_station told = 0;

	if (bpf_skb_load_bytes(skb, offset, head, sizeof(head)) < 0 || head[1] != 1 ||
	    bpf_skb_load_bytes(skb, offset + 2, &told, PG_STATION_SIZE) < 0)
		return false;
	return head[0] == PG_ND_NONCE ||
	       ((head[0] == PG_ND_SOURCE || head[0] == PG_ND_TARGET) && told == station);
}

/* Group N of all nodes of the link. */
static __always_inline bool pg_is_link_group(const struct pg_addr *addr, __u32 number)
{
	return addr->word[0] == bpf_htonl(0xff020000) && !addr->word[1] && !addr->word[2] &&
	       addr->word[3] == bpf_htonl(number);
}

static __always_inline bool pg_is_solicited_of(const struct pg_addr *group,
					       const struct pg_addr *target)
{
	return group->word[0] == bpf_htonl(0xff020000) && !group->word[1] &&
	       group->word[2] == bpf_htonl(1) &&
	       group->word[3] == (target->word[3] | bpf_htonl(0xff000000));
}

/* What the kernel leaves empty is empty: a process may rewrite its messages below the hooks. */
static __always_inline bool pg_is_nd_plain(struct __sk_buff *skb, const struct pg_packet *packet)
{
	const bool mld = pg_is_mld_type(packet->icmp_type);
	__be32 head = 0, words[2] = {}; /* type, code, checksum; what depends on the type */
	__be32 empty = bpf_htonl(0xffffffff);

	if (bpf_skb_load_bytes(skb, packet->network, &head, sizeof(head)) < 0 ||
	    bpf_skb_load_bytes(skb, packet->transport + (mld ? 8 : 0), words, sizeof(words)) < 0)
		return false;
	if (packet->icmp_type == PG_ICMPV6_ADVERT)
		empty = bpf_htonl(0x1fffffff);
	else if (packet->icmp_type == PG_ICMPV6_MLD2_REPORT)
		empty = bpf_htonl(0xffff0000);
	return head == bpf_htonl(6U << 28) && !(words[0] & bpf_htonl(0x00ff0000)) &&
	       !(words[1] & empty);
}

/* Whether a message of the kernel's goes where the kernel sends it, or to one that the caller may
 * ask for. */
static __always_inline bool pg_is_nd_destination(const struct pg_header *header,
						 const struct pg_packet *packet,
						 const struct pg_addr *destination,
						 const struct pg_addr *target, bool known)
{
	switch (packet->icmp_type) {
	case PG_ICMPV6_SOLICIT:
		return pg_is_solicited_of(destination, target) ||
		       pg_addr_equal(destination, target);
	case PG_ICMPV6_ADVERT:
		return known || pg_is_link_group(destination, 1);
	case PG_ICMPV6_MLD_REPORT:
		return pg_is_own_group(header, destination);
	case PG_ICMPV6_MLD2_REPORT:
		return pg_is_link_group(destination, 0x16);
	}
	return pg_is_link_group(destination, 2);
}

/*
 * Of what looks like the kernel's neighbour discovery: whether the kernel has made it, and of what
 * size. ret_target: whose link address is asked for, or the source if that is not the question.
 */
static __always_inline bool pg_read_nd(struct __sk_buff *skb, const struct pg_header *header,
				       const struct pg_facts *facts, const struct pg_packet *packet,
				       pg_station station, struct pg_addr *ret_target)
{
	__u32 option = packet->transport + 24;
	__u8 hops = 0;

	*ret_target = facts->local;
	if (!pg_addr_is_unspecified(&facts->local) && !pg_is_own(header, &facts->local))
		return false;
	if (!pg_is_nd_plain(skb, packet))
		return false;
	if (bpf_skb_load_bytes(skb, packet->network + 7, &hops, sizeof(hops)) < 0)
		return false;
	if (pg_is_mld_type(packet->icmp_type))
		return hops == PG_HOPS_MLD;
	if (hops != PG_HOPS_ND)
		return false;
	if (packet->icmp_type == PG_ICMPV6_ROUTER_SOLICIT)
		option = packet->transport + 8;
	else if (bpf_skb_load_bytes(skb, packet->transport + 8, ret_target, sizeof(*ret_target)) <
		 0)
		return false;
	return skb->len == option ||
	       (skb->len == option + 8 && pg_is_nd_option(skb, option, station));
}

/* A request or reply as the kernel makes it, without anything behind it. */
static __always_inline bool pg_read_arp(struct __sk_buff *skb, struct pg_facts *facts,
					const struct pg_packet *packet, pg_station station)
{
	const __u32 arp = packet->network;
	__be32 head[2] = {}, sender = 0, target = 0;
	pg_station told = 0;

	if (skb->len != arp + 28 || bpf_skb_load_bytes(skb, arp, head, sizeof(head)) < 0 ||
	    bpf_skb_load_bytes(skb, arp + 14, &sender, sizeof(sender)) < 0 ||
	    bpf_skb_load_bytes(skb, arp + 24, &target, sizeof(target)) < 0)
		return false;
	if (bpf_skb_load_bytes(skb, arp + 8, &told, PG_STATION_SIZE) < 0 || told != station)
		return false;
	pg_addr_set_v4(&facts->local, sender);
	pg_addr_set_v4(&facts->remote, target);
	/* Ethernet, IPv4, their lengths; 1 is a request, 2 a reply. */
	return head[0] == bpf_htonl(1 << 16 | PG_ETH_P_IP) &&
	       (head[1] == bpf_htonl(0x06040001) || head[1] == bpf_htonl(0x06040002));
}
