/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a packet's headers to facts. The packet decides, never the socket: a raw socket's header
 * may say something else than its sockaddr. Sources: RFC 791, RFC 8200, RFC 9293, RFC 4443.
 */
#pragma once

#include "addr.bpf.h"
#include "facts.h"
#include "maps.bpf.h"

#define PG_ETH_P_IP   0x0800
#define PG_ETH_P_IPV6 0x86dd

/* Offset of the IP header at the guard of a veth: behind the Ethernet header. */
#define PG_LINK_NETWORK 14

#define PG_IP_MORE_OR_OFFSET 0x3fff /* MF bit and fragment offset */

/* IPv6 next-header values that are not in the kernel's enum of socket protocols. */
#define PG_NEXT_HOP_BY_HOP  0
#define PG_NEXT_ROUTING	    43
#define PG_NEXT_FRAGMENT    44
#define PG_NEXT_AUTH	    51
#define PG_NEXT_DESTINATION 60
#define PG_NEXT_MOBILITY    135
#define PG_NEXT_HIP	    139
#define PG_NEXT_SHIM6	    140
#define PG_NEXT_EXPERIMENT1 253
#define PG_NEXT_EXPERIMENT2 254

#define PG_TCP_FIN 0x01
#define PG_TCP_SYN 0x02
#define PG_TCP_RST 0x04
#define PG_TCP_ACK 0x10

/* What only the packet layer needs to know besides the facts. */
struct pg_packet {
	__u32 network;	 /* offset of the IP header: 0 in hooks of a cgroup */
	__u32 transport; /* offset of the transport header */
	__u8 tcp_flags;
	__u8 icmp_type;
	bool tcp_payload;
};

/* A hop-by-hop header of eight octets: next header, length 0, option type, option length. */
struct pg_hop_by_hop {
	__u8 next;
	__u8 length;
	__u8 option;
	__u8 option_length;
};

#define PG_OPTION_JUMBO 0xc2

typedef __u32 __attribute__((may_alias)) pg_word;

/* The first words of a TCP header; only the first one of others'. */
struct pg_transport {
	__be16 ports[2];
	__be32 numbers[2];
	__u8 data_offset, flags;
	__be16 window;
};

/* Copies words of the packet, mostly without a call; offset and count are constants. */
static __always_inline long pg_load(struct __sk_buff *skb, __u32 offset, void *to, __u32 count)
{
	const void *data = (const void *)(long)skb->data;
	const pg_word *words = data + offset;
	pg_word *copy = to;

	if ((const void *)(words + count) > (const void *)(long)skb->data_end)
		return bpf_skb_load_bytes(skb, offset, to, count * sizeof(*words));
#pragma unroll
	for (__u32 i = 0; i < count; i++)
		copy[i] = words[i];
	return 0;
}

static __always_inline void pg_read_tcp(struct __sk_buff *skb, __u32 offset,
					const struct pg_transport *tcp, struct pg_packet *packet)
{
	packet->tcp_flags = tcp->flags;
	packet->tcp_payload = skb->len > offset + (tcp->data_offset >> 4) * 4U;
}

/* Of a segment that ends before its window, which the calls that need less can read. */
static __always_inline bool pg_read_short_tcp(struct __sk_buff *skb, __u32 offset,
					      struct pg_packet *packet)
{
	struct pg_transport tcp = {};

	if (bpf_skb_load_bytes(skb, offset + 12, &tcp.data_offset, 2) < 0)
		return false;
	pg_read_tcp(skb, offset, &tcp, packet);
	return true;
}

static __always_inline void pg_read_transport(struct __sk_buff *skb, bool egress, __u32 offset,
					      struct pg_facts *facts, struct pg_packet *packet)
{
	struct pg_transport header = {};

	packet->transport = offset;
	switch (facts->protocol) {
	case IPPROTO_TCP:
		if (!pg_load(skb, offset, &header, 4)) {
			pg_read_tcp(skb, offset, &header, packet);
			break;
		}
		if (!pg_read_short_tcp(skb, offset, packet))
			goto truncated;
		/* fallthrough */
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_SCTP:
		if (pg_load(skb, offset, &header, 1) < 0)
			goto truncated;
		break;
	case PG_IPPROTO_ICMPV6:
		if (bpf_skb_load_bytes(skb, offset, &packet->icmp_type, 1) < 0)
			goto truncated;
		return;
	default:
		return;
	}
	facts->local_port = egress ? header.ports[0] : header.ports[1];
	facts->remote_port = egress ? header.ports[1] : header.ports[0];
	return;
truncated:
	facts->defect = PG_REASON_TRUNCATED;
}

static __always_inline void pg_read_ipv4(struct __sk_buff *skb, bool egress, __u32 network,
					 struct pg_facts *facts, struct pg_packet *packet)
{
	struct iphdr ip;

	if (pg_load(skb, network, &ip, sizeof(ip) / 4) < 0 || ip.version != 4) {
		facts->defect = PG_REASON_TRUNCATED;
		return;
	}
	pg_addr_set_v4(&facts->local, egress ? ip.saddr : ip.daddr);
	pg_addr_set_v4(&facts->remote, egress ? ip.daddr : ip.saddr);
	facts->protocol = ip.protocol;
	/* Options first: they can change the destination of a fragment too. */
	if (ip.ihl != 5) {
		facts->defect = PG_REASON_IP_OPTIONS;
		return;
	}
	if (ip.frag_off & bpf_htons(PG_IP_MORE_OR_OFFSET)) {
		facts->defect = PG_REASON_FRAGMENT;
		return;
	}
	pg_read_transport(skb, egress, network + sizeof(ip), facts, packet);
}

/*
 * What follows a hop-by-hop header that the kernel itself puts there: MLD (router alert), or the
 * jumbo option of a GSO packet over 64 KiB. Anything else stays a defect.
 */
static __always_inline void pg_read_hop_by_hop(struct __sk_buff *skb, struct pg_facts *facts,
					       struct pg_packet *packet)
{
	struct pg_hop_by_hop hop;

	facts->defect = PG_REASON_EXTENSION;
	if (bpf_skb_load_bytes(skb, packet->transport, &hop, sizeof(hop)) < 0 || hop.length)
		return;
	if (hop.next == PG_IPPROTO_ICMPV6) {
		bpf_skb_load_bytes(skb, packet->transport + 8, &packet->icmp_type, 1);
		return;
	}
	if (hop.option != PG_OPTION_JUMBO || hop.option_length != 4 || hop.next != IPPROTO_TCP ||
	    !skb->gso_size || skb->len - packet->network <= 65535)
		return;
	facts->defect = 0;
	facts->protocol = hop.next;
}

static __always_inline void pg_read_ipv6(struct __sk_buff *skb, bool egress, __u32 network,
					 struct pg_facts *facts, struct pg_packet *packet)
{
	struct ipv6hdr ip;

	if (pg_load(skb, network, &ip, sizeof(ip) / 4) < 0 || ip.version != 6) {
		facts->defect = PG_REASON_TRUNCATED;
		return;
	}
	facts->bits |= PG_FACT_IPV6;
	__builtin_memcpy(&facts->local, egress ? &ip.saddr : &ip.daddr, sizeof(facts->local));
	__builtin_memcpy(&facts->remote, egress ? &ip.daddr : &ip.saddr, sizeof(facts->remote));
	facts->protocol = ip.nexthdr;
	packet->transport = network + sizeof(ip);
	switch (ip.nexthdr) {
	case PG_NEXT_HOP_BY_HOP:
		pg_read_hop_by_hop(skb, facts, packet);
		if (!facts->defect)
			pg_read_transport(skb, egress, network + sizeof(ip) + 8, facts, packet);
		return;
	case PG_NEXT_FRAGMENT:
		facts->defect = PG_REASON_FRAGMENT;
		return;
	case PG_NEXT_ROUTING:
	case PG_NEXT_AUTH:
	case PG_NEXT_DESTINATION:
	case PG_NEXT_MOBILITY:
	case PG_NEXT_HIP:
	case PG_NEXT_SHIM6:
	case PG_NEXT_EXPERIMENT1:
	case PG_NEXT_EXPERIMENT2:
		facts->defect = PG_REASON_EXTENSION;
		return;
	}
	pg_read_transport(skb, egress, network + sizeof(ip), facts, packet);
}

/* Whether it is ICMPv6 behind a hop-by-hop header like the kernel's, as pg_read_hop_by_hop() reads
 * it: a defect, but it hides nothing. */
static __always_inline bool pg_is_icmp_behind_hop(const struct pg_facts *facts,
						  const struct pg_packet *packet)
{
	return facts->protocol == PG_NEXT_HOP_BY_HOP && packet->icmp_type;
}

/* What follows the IP header, which is at the offset; -1: that cannot be told. */
static __always_inline int pg_ip_protocol(struct __sk_buff *skb, __u32 network)
{
	__u32 words[3] = {};

	if (pg_load(skb, network, words, 3) < 0)
		return -1;
	if (skb->protocol == bpf_htons(PG_ETH_P_IP))
		return bpf_ntohl(words[2]) >> 16 & 0xff;
	return skb->protocol == bpf_htons(PG_ETH_P_IPV6) ? bpf_ntohl(words[1]) >> 8 & 0xff : -1;
}

/*
 * Fills addresses, ports and protocol of a packet of the protocol that has neither options,
 * extension headers nor fragments, and the first count words of its transport header, at most four.
 * in: it comes in, so that its source is remote.
 */
static __always_inline bool pg_read_plain(struct __sk_buff *skb, __u32 network, bool in,
					  __u8 protocol, struct pg_facts *facts, pg_word *transport,
					  __u32 count)
{
	struct pg_addr *from = in ? &facts->remote : &facts->local;
	struct pg_addr *to = in ? &facts->local : &facts->remote;
	pg_word words[14] = {};
	const pg_word *behind = &words[5];
	const __be16 *ports;

	if (skb->protocol == bpf_htons(PG_ETH_P_IP)) {
		if (pg_load(skb, network, words, 5 + count) < 0 ||
		    bpf_ntohl(words[0]) >> 24 != 0x45 ||
		    bpf_ntohl(words[1]) & PG_IP_MORE_OR_OFFSET ||
		    (bpf_ntohl(words[2]) >> 16 & 0xff) != protocol)
			return false;
		pg_addr_set_v4(from, words[3]);
		pg_addr_set_v4(to, words[4]);
	} else {
		if (skb->protocol != bpf_htons(PG_ETH_P_IPV6) ||
		    pg_load(skb, network, words, 10 + count) < 0 ||
		    bpf_ntohl(words[0]) >> 28 != 6 || (bpf_ntohl(words[1]) >> 8 & 0xff) != protocol)
			return false;
		facts->bits |= PG_FACT_IPV6;
		__builtin_memcpy(from, &words[2], sizeof(*from));
		__builtin_memcpy(to, &words[6], sizeof(*to));
		behind = &words[10];
	}
	__builtin_memcpy(transport, behind, count * sizeof(*transport));
	ports = (const __be16 *)transport;
	facts->protocol = protocol;
	facts->local_port = in ? ports[1] : ports[0];
	facts->remote_port = in ? ports[0] : ports[1];
	return true;
}

/* Fills addresses, ports, protocol and defect; network is the offset of the IP header. "Local" is
 * the source of what goes out. */
static __always_inline void pg_read_packet(struct __sk_buff *skb, bool egress, __u32 network,
					   struct pg_facts *facts, struct pg_packet *packet)
{
	facts->bits |= PG_FACT_PACKET;
	packet->network = network;
	if (skb->protocol == bpf_htons(PG_ETH_P_IP))
		pg_read_ipv4(skb, egress, network, facts, packet);
	else if (skb->protocol == bpf_htons(PG_ETH_P_IPV6))
		pg_read_ipv6(skb, egress, network, facts, packet);
	else
		facts->defect = PG_REASON_TRUNCATED;
	if ((packet->tcp_flags & (PG_TCP_SYN | PG_TCP_ACK)) == PG_TCP_SYN)
		facts->bits |= PG_FACT_SYN;
}
