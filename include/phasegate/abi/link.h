/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * The veth guard: what leaves a network namespace without passing a hook of a cgroup (packet
 * sockets, forwarding, what netfilter or tc rewrote, the kernel's own answers) is judged again at
 * the veth's end outside of it, the host end. One link is one host end, in the network namespace of
 * whoever attached the guard; two filters of tc (clsact) are on it:
 *
 *   from  at its ingress: judges what comes out of the Environment
 *   to    at its egress: sees what goes in, so that answers to it can be told
 *
 * While there are Environments, veths that have no guard have a third at their ingress:
 *
 *   new   drops frames of packet sockets (AF_XDP, ...) of cgroups in pg_members
 *
 * so that what is sent before a link is known to be an Environment's does not leave by it.
 *
 * Order of user space: pg_own of the Environment, pg_link_tables, pg_links, pg_link_changes, then
 * the filters; and the filters first when a link goes. A filter whose interface is not in pg_links
 * drops everything.
 */
#pragma once

#include "header.h"
#include "types.h"

/* The filters' place among those of tc, by which they are known to be ours. Lower priorities run
 * first, and 1 is the lowest. */
#define PG_LINK_PRIORITY 1
#define PG_LINK_HANDLE	 0x5047
/* Of "new", which is beside the others for a moment: the upper half; the lower one is the agent's,
 * as several may have one on the same link. */
#define PG_LINK_NEW	 0x50480000

/* X(symbol, program) */
#define PG_LINK_HOOKS(X) \
	X(FROM, pg_link_from) \
	X(TO, pg_link_to)

/* pg_link.flags */
/* Somebody who is not of the Environment lives in the namespace too: what sockets of other cgroups
 * send there is not judged. Without it everything that comes out is taken for the Environment's. */
#define PG_LINK_SHARED	 (1U << 0)
/* Outside public, ARP and neighbour solicitations only for the Environment's own addresses, allowed
 * destinations, pg_link_hops, and who has sent something to the Environment. */
#define PG_LINK_TARGETS	 (1U << 1)
/* Outside public, frames only from .stations.own, and unicast only to the station that the
 * destination has: the host end, its bridge, the one that pg_link_hops are seen at, or, of one that
 * no router is needed for (.stations.networks, link-local), the one that it was seen at itself. */
#define PG_LINK_STATIONS (1U << 2)

/* A hardware address: its six octets as they stand in memory, and two of zero. */
typedef __u64 pg_station;
#define PG_STATION_SIZE 6

/* Addresses that have the bits of .addr where .mask has ones; .addr has none elsewhere. */
struct pg_link_network {
	struct pg_addr addr;
	struct pg_addr mask;
};
PG_ASSERT_SIZE(struct pg_link_network, 32);

/* More networks of a link are reached by their routers only. */
#define PG_LINK_NETWORKS 6

struct pg_link_stations {
	pg_station own;	   /* of the veth's end inside */
	pg_station host;   /* of the host end */
	pg_station bridge; /* of the bridge that it is a port of, or .host again */
	__u32 network_count;
	__u32 reserved;
	struct pg_link_network networks[PG_LINK_NETWORKS]; /* what is on the link itself */
};
PG_ASSERT_SIZE(struct pg_link_stations, 24 + 8 + 6 * 32);

/*
 * Value of pg_links (key: __u32 ifindex of the host end). The header is a copy of that of a member
 * whose namespace the veth leads to, of the same Environment at least: phases and state are the
 * Environment's. A write replaces it as a whole. Zero denies everything.
 */
struct pg_link {
	struct pg_header header;
	__u32 flags; /* PG_LINK_* */
	__u32 reserved;
	struct pg_link_stations stations;
};
PG_ASSERT_SIZE(struct pg_link, 432);

/*
 * Value of pg_link_shorts, of each CPU: places of what most packets need of their link, in one
 * cache line. A place holds as long as pg_link_changes, an array of one __u64, has the value that
 * it had before the link was looked up: whoever has written or deleted one gives it another that it
 * never had, the time (CLOCK_BOOTTIME in ns). Only programs write and read places.
 */
struct pg_link_short {
	__u64 changes;
	__u32 ifindex; /* 0: the place is empty */
	__u32 flags;
	__u64 env_id, epoch; /* of a header that is valid */
	pg_station own, host, bridge;
	__u32 state;
	__u32 reserved;
};
PG_ASSERT_SIZE(struct pg_link_short, 64);

#define PG_LINK_SHORTS 256 /* a power of two */

struct pg_link_short_places {
	struct pg_link_short place[PG_LINK_SHORTS];
};
PG_ASSERT_SIZE(struct pg_link_short_places, 256 * 64);

/* pg_link_flow.protocol of a datagram of which fragments are to follow the first: the ports are its
 * identification. That of IPv6's fragment header, which no other record has. */
#define PG_LINK_FRAGMENTS 44

/*
 * Who opened it, of what the kernel answers without a socket of the Environment: SYN-ACKs, the last
 * ACKs and resets, echo replies, ICMP errors. Each Environment has a table of its own with fixed
 * places for each tuple, so that nobody takes another's room; a newer one takes the place of an
 * older one.
 */
struct pg_link_flow {
	struct pg_addr remote;
	__be16 local_port, remote_port; /* of an echo request: 0 and its identifier */
	__u8 protocol;			/* 0: the place is empty */
	__u8 direction;			/* enum pg_direction (abi/flow.h) of the first packet */
	__u16 reserved;
	/* The state's generation (low bits) when something last came in, see struct pg_flow. */
	__u32 generation;
	/* CLOCK_BOOTTIME: of datagrams in seconds, of streams in units of 1,024 ns. */
	__u32 seen;
};
PG_ASSERT_SIZE(struct pg_link_flow, 32);

/* In the upper octets of a station: by neighbour discovery that no router has forwarded. */
#define PG_LINK_PEER_NEIGHBOUR (1ULL << 62)

/* Somebody who has sent something to the Environment, and the station of the frame. */
struct pg_link_peer {
	struct pg_addr addr; /* zero: the place is empty */
	pg_station station;  /* and PG_LINK_PEER_NEIGHBOUR */
};
PG_ASSERT_SIZE(struct pg_link_peer, 24);

/*
 * The last segment of TCP that acknowledged something and has this place. The one that completes a
 * connection is there when the connection becomes one, however many SYNs came in since its own.
 * Of somebody to whom a segment has gone out it may be of a connection that was opened inside, with
 * whatever number, so it counts of nobody whose place in .asked is set.
 */
struct pg_link_ack {
	struct pg_addr remote;
	__be16 local_port, remote_port;
	__u32 number;
	__u32 generation; /* of the state when it came in, low bits */
};
PG_ASSERT_SIZE(struct pg_link_ack, 28);

/* Powers of two; the whole with the kernel's own part of a hash element in 32 KiB. */
#define PG_LINK_STREAMS	  512
#define PG_LINK_DATAGRAMS 32
#define PG_LINK_PEERS	  64
#define PG_LINK_ACKS	  32
#define PG_LINK_GATEWAYS  4
#define PG_LINK_ASKED	  4096
#define PG_LINK_SENT	  65536 /* bits */

/* So many places a stream can have; who was there first makes room. With one, those of connections
 * that are opened at the same time are taken by others before they are complete. */
#define PG_LINK_STREAM_WAYS 4
/* An address has so many places among the peers. */
#define PG_LINK_PEER_WAYS   4

/*
 * Value of pg_link_neighbours (key: __u64 env_id): those who have been seen at another station than
 * the host's, its bridge's or a router's, of all links of the Environment. Their stations count, so
 * the many who are behind the host take no place of theirs.
 */
#define PG_LINK_NEIGHBOURS 512

struct pg_link_neighbours {
	struct pg_link_peer peers[PG_LINK_NEIGHBOURS];
};
PG_ASSERT_SIZE(struct pg_link_neighbours, 512 * 24);

/*
 * Value of pg_link_tables (key: __u64 env_id), of all links of the Environment. Streams are TCP,
 * and echo requests; they are recorded when the first packet comes in. Of datagrams outgoing ones
 * are recorded too: as long as one that goes out has the place, none that comes in takes it.
 */
struct pg_link_table {
	struct pg_link_flow streams[PG_LINK_STREAMS];
	struct pg_link_flow datagrams[PG_LINK_DATAGRAMS];
	struct pg_link_peer peers[PG_LINK_PEERS];
	struct pg_link_ack acks[PG_LINK_ACKS];
	pg_station gateways[PG_LINK_GATEWAYS]; /* of the peers that are in pg_link_hops */
	/* CLOCK_BOOTTIME in seconds until which no datagram that comes in is recorded: what went
	 * out could not be read, and what comes in may be its answer. */
	__u32 barred;
	__u32 asked_any; /* not 0: a segment may have gone out to anybody */
	/* 1: a segment of a connection that nobody had opened from outside has gone out to an
	 * address that has this place; it stays. Octets, since before
	 * Linux 5.12 a program cannot set a bit in one instruction. */
	__u8 asked[PG_LINK_ASKED];
	/* Two bits of a tuple in the first half, and two of its remote address in the second, all
	 * set: a datagram has gone out that was no reply, or may have. It stays: a router on the
	 * way lets answers in for as long as the other end likes, and nobody here need hear of
	 * that. Others that have all four by chance get no replies: of somebody to whom nothing was
	 * sent, after 10,000 tuples to 1,000 addresses, 8 in 10,000. */
	__u32 sent[PG_LINK_SENT / 32];
	__u32 sent_any;		   /* not 0: one may have gone out on any tuple */
	struct bpf_spin_lock lock; /* of who sets bits */
};
PG_ASSERT_SIZE(struct pg_link_table,
	       512 * 32 + 32 * 32 + 64 * 24 + 32 * 28 + 4 * 8 + 8 + 4096 + 8192 + 8);

/* What pg_link_bar_in returns if there is a table. */
#define PG_LINK_BARRED 1

/*
 * pg_link_counts (key: __u64 env_id) has of each Environment with links a struct pg_counters of
 * what was denied there, all links together; what passes is not counted.
 *
 * pg_link_hops (key: struct pg_own_key) has for PG_LINK_TARGETS the addresses that an Environment's
 * namespaces route by, with one of PG_LINK_HOP_*.
 */

#define PG_LINK_HOP_ROUTER 1 /* at whatever station it is seen */
#define PG_LINK_HOP_HOST   2 /* an address of the host end or its bridge, at no other station */

/*
 * Value of pg_link_seens, of each CPU: places of what came in by a veth a moment ago and has been
 * recorded, so that the next one that differs in nothing needs no record. Of segments of somebody
 * who has a place in .asked nothing but the station is recorded, so that one place is for all of
 * them: its ports are zero.
 */
struct pg_link_seen {
	struct pg_addr remote, local;
	pg_station from;
	__u64 word;	/* of the state */
	__u32 ifindex;	/* 0: the place is empty */
	__u32 since;	/* jiffies, low half */
	__be32 ports;	/* the remote and the local one, as in the packet */
	__u16 state;	/* pg_header.state */
	__u16 protocol; /* TCP or UDP */
};
PG_ASSERT_SIZE(struct pg_link_seen, 64);

#define PG_LINK_SEEN 256 /* a power of two */

struct pg_link_seen_places {
	struct pg_link_seen place[PG_LINK_SEEN];
};
PG_ASSERT_SIZE(struct pg_link_seen_places, 256 * 64);

/* Value of pg_link_runs: what a run of the programs gathers, of no meaning to others. */
#define PG_LINK_RUN_BYTES 96
