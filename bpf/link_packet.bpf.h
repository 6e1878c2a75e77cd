/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What comes past the guard of a veth: who has sent it, and what can be read of it. */
#pragma once

#include "checksum.bpf.h"
#include "decide.bpf.h"
#include "neighbour.bpf.h"
#include "packet.bpf.h"
#include "socket.bpf.h"

/* Ethernet, IPv6, a header of eight octets, TCP. What is read behind that is the kernel's own. */
#define PG_LINK_JUDGED_MAX (PG_LINK_NETWORK + 40 + 8 + 20)

/* What has made a packet, as far as its socket tells. */
enum pg_link_sender {
	PG_LINK_NOBODY,	 /* no socket of its own: the kernel, or it was forwarded */
	PG_LINK_CONTROL, /* a raw socket that no application made, the kernel's */
	PG_LINK_SOCKET,	 /* an IP socket that is not raw */
	PG_LINK_RAW,	 /* an application's raw socket */
	PG_LINK_FRAMES,	 /* a packet socket, AF_XDP or whatever else */
};

/* What only the guard needs to know besides the facts and the packet. */
struct pg_link_packet {
	struct pg_packet packet;
	enum pg_link_sender sender;
	pg_station from, to;
	bool is_public; /* the phase in force is */
	bool arp;
	bool fragment, later; /* a fragment, and not the first */
	__u32 identification; /* of a fragment */
	bool recorded;	      /* of a datagram: the hook of the cgroup has its tuple */
};

/*
 * Where a run gathers facts. Not on the stack, where the verifier would follow each way by which
 * they came about through the decision. No softirq interrupts a run, so no run another.
 */
struct pg_link_run {
	struct pg_facts facts;
	struct pg_link_packet packet;
};
PG_ASSERT_SIZE(struct pg_link_run, PG_LINK_RUN_BYTES);

static __always_inline struct pg_link_run *pg_link_begin(void)
{
	const __u32 first = 0;
	struct pg_link_run *run = bpf_map_lookup_elem(&pg_link_runs, &first);

	if (run)
		__builtin_memset(run, 0, sizeof(*run));
	return run;
}

static __always_inline enum pg_link_sender pg_link_sender(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return PG_LINK_NOBODY;
	if (sk->family != PG_AF_INET && sk->family != PG_AF_INET6)
		return PG_LINK_FRAMES;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return PG_LINK_NOBODY;
	if (sk->type == PG_SOCK_RAW)
		return bpf_sk_storage_get(&pg_marks, sk, NULL, 0) ? PG_LINK_RAW : PG_LINK_CONTROL;
	/* What a listener sends, the kernel sends for it. */
	return sk->type == PG_SOCK_STREAM && sk->state == PG_TCP_LISTEN ? PG_LINK_NOBODY
									: PG_LINK_SOCKET;
}

/*
 * The kernel fragments behind the cgroup's hook, so here its fragments come past. The first one
 * has the ports; of the others address and protocol are judged. Not what hides behind IPv6's header
 * anything but what an entry opens.
 */
static __always_inline void pg_link_read_fragment(struct __sk_buff *skb, bool egress,
						  struct pg_facts *facts,
						  struct pg_link_packet *link)
{
	const __u32 network = link->packet.network;
	__be16 words[4] = {};
	__u32 transport;

	if (facts->bits & PG_FACT_IPV6) {
		/* Next header, reserved; offset and flags; identification. */
		if (bpf_skb_load_bytes(skb, network + 40, words, 8) < 0)
			return;
		facts->protocol = bpf_ntohs(words[0]) >> 8;
		link->later = words[1] & bpf_htons(0xfff8);
		link->identification = (__u32)words[2] << 16 | words[3];
		transport = network + 48;
	} else {
		/* Identification; flags and offset. */
		if (bpf_skb_load_bytes(skb, network + 4, words, 4) < 0)
			return;
		link->later = words[1] & bpf_htons(0x1fff);
		link->identification = words[0];
		transport = network + 20;
	}
	if (!pg_protocol_opened(facts->protocol))
		return;
	link->fragment = true;
	facts->defect = 0;
	link->packet.transport = transport;
	if (link->later)
		return;
	if (facts->bits & PG_FACT_IPV6)
		pg_read_transport(skb, egress, PG_LINK_NETWORK + 48, facts, &link->packet);
	else
		pg_read_transport(skb, egress, PG_LINK_NETWORK + 20, facts, &link->packet);
}

/* Whether so many octets are in one piece of memory that is the packet's own. Others may be in
 * pages that a process can write to: of a packet socket's ring, or of a file. */
static __always_inline bool pg_link_is_whole(struct __sk_buff *skb, __u32 size)
{
	return (const void *)(long)skb->data + size <= (const void *)(long)skb->data_end;
}

/* Has all that is judged there, so that nobody changes it between two who read it. */
static __always_inline bool pg_link_make_whole(struct __sk_buff *skb)
{
	__u32 size = skb->len < PG_LINK_JUDGED_MAX ? skb->len : PG_LINK_JUDGED_MAX;

	return pg_link_is_whole(skb, size) || !bpf_skb_pull_data(skb, size);
}

static __always_inline void pg_link_read_stations(struct __sk_buff *skb,
						  struct pg_link_packet *link)
{
	__u32 words[3] = {};

	pg_load(skb, 0, words, 3);
	__builtin_memcpy(&link->to, words, PG_STATION_SIZE);
	__builtin_memcpy(&link->from, (const __u8 *)words + PG_STATION_SIZE, PG_STATION_SIZE);
}

static __always_inline void pg_link_read(struct __sk_buff *skb, bool egress, struct pg_facts *facts,
					 struct pg_link_packet *link)
{
	link->packet.network = PG_LINK_NETWORK;
	pg_link_read_stations(skb, link);
	facts->bits = PG_FACT_PACKET | PG_FACT_LINK;
	if (skb->vlan_present) {
		facts->defect = PG_REASON_FRAME;
		return;
	}
	if (skb->protocol == bpf_htons(PG_ETH_P_ARP)) {
		link->arp = true;
		if (!pg_read_arp(skb, facts, &link->packet, link->from) ||
		    (egress && pg_checksum_offset(skb) != PG_CHECKSUM_NONE))
			facts->defect = PG_REASON_FRAME;
		return;
	}
	if (skb->protocol != bpf_htons(PG_ETH_P_IP) && skb->protocol != bpf_htons(PG_ETH_P_IPV6)) {
		facts->defect = PG_REASON_FRAME;
		return;
	}
	pg_read_packet(skb, egress, PG_LINK_NETWORK, facts, &link->packet);
	if (facts->defect == PG_REASON_FRAGMENT)
		pg_link_read_fragment(skb, egress, facts, link);
	if (egress && !facts->defect &&
	    !pg_checksum_is_fit(skb, facts->protocol,
				(int)link->packet.transport - PG_LINK_NETWORK))
		facts->defect = PG_REASON_FRAME;
}
