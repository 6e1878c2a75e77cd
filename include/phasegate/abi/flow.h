/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * UDP flows and who opened them. Written by the BPF programs, aged out by user space. The key
 * holds the Environment and the network namespace: private addresses repeat, and a workload can
 * make a namespace of its own in which it plays any peer.
 */
#pragma once

#include "types.h"

enum pg_flow_kind {
	PG_FLOW_TUPLE = 0,
	/* Of an inbound flow, without the local address: for connect and sendmsg hooks, which do
	 * not know the source address yet. */
	PG_FLOW_HINT = 1,
	/* An outbound packet whose tuple cannot be read: only .remote is set; zero means any. */
	PG_FLOW_HIDDEN = 2,
	/* Of an inbound flow again, as seen on its way in by the guard of a veth: what comes in
	 * only inside, made by the workload itself, has no such record. .netns is 0. */
	PG_FLOW_LINK = 3,
};

struct pg_flow_key {
	__u64 env_id;
	__u64 netns;	      /* cookie; 0: the socket was made before the hooks were attached */
	struct pg_addr local; /* the Environment's end */
	struct pg_addr remote;
	__be16 local_port;
	__be16 remote_port;
	__u8 protocol;
	__u8 kind; /* enum pg_flow_kind */
	__u8 reserved[2];
};
PG_ASSERT_SIZE(struct pg_flow_key, 56);

enum pg_direction {
	PG_FLOW_OUTBOUND = 1,
	PG_FLOW_INBOUND = 2,
};

struct pg_flow {
	__u64 seen;	 /* CLOCK_BOOTTIME in ns; refreshed at most once a second */
	__u16 direction; /* enum pg_direction of the first packet */
	__u16 owner;	 /* index in pg_flow_counts: the Environment's state */
	/*
	 * Of an inbound flow: the state's generation (low bits) when a packet last came in. It may
	 * be answered in that generation only: what came in before a switch, perhaps because of
	 * what the Environment had sent, is no reason to send after it.
	 */
	__u32 generation;
};
PG_ASSERT_SIZE(struct pg_flow, 16);

/*
 * How many flows there are of each Environment, by the index of its state, and at PG_FLOW_ALL of
 * all. A flow is refused if its Environment has as many as there is room left: however many of them
 * are flooded, each, the newest too, has room for as many as the greatest, and none can use up the
 * table. Whoever inserts counts first, whoever deletes afterwards.
 */
struct pg_flow_count {
	__u64 live;
	__u64 hints; /* of them of kind PG_FLOW_HINT; of all together it is not kept */
	/* Not 0: it may have TCP connections in pg_accepted. Set by the hooks, and taken back when
	 * the state changes hands. */
	__u64 has_accepted;
	__u64 reserved;
};
PG_ASSERT_SIZE(struct pg_flow_count, 32);

/* Index 0 is no Environment's. */
#define PG_FLOW_ALL 0

/* A flow that saw no packet for this long is forgotten (RFC 4787 REQ-5 asks for two minutes). */
#define PG_FLOW_IDLE_NS (180ULL * 1000 * 1000 * 1000)

/*
 * For each Environment (key: env_id), until when (CLOCK_BOOTTIME ns) no new flow becomes inbound:
 * set when an outbound tuple found no room, since its answer could not be told from something that
 * came first. User space makes the element before the header; one that is missing bars for ever.
 */
typedef __u64 pg_flow_bar;

/*
 * An element of pg_accepted: a TCP connection that was accepted, by the cookie of its socket, which
 * the kernel gives to no second one; its place is at pg_accepted_index(). The hooks put it there
 * when the connection is established, and take it out when its socket connects; when it is closed
 * they leave it there for what it has sent last, to be replaced. User space takes out what an
 * Environment has left behind that has ended.
 */
struct pg_accepted {
	__u64 cookie; /* 0: the place is free */
	struct pg_addr remote;
	__be16 remote_port;
	__u16 owner;		   /* PG_ACCEPTED_*: index of the Environment's state */
	struct bpf_spin_lock lock; /* of writers */
};
PG_ASSERT_SIZE(struct pg_accepted, 32);

#define PG_ACCEPTED_STATE     0x0fff
#define PG_ACCEPTED_CONFIRMED 0x8000 /* as pg_mark.confirmed */
#define PG_ACCEPTED_CLOSED    0x4000 /* the place is free, too */
_Static_assert(PG_ENVIRONMENT_MAX <= PG_ACCEPTED_STATE + 1, "index of a state");

/* Cookies are given out one after the other, so who was in a place before has been for long. */
static inline __u32 pg_accepted_index(__u64 cookie)
{
	return (__u32)cookie & (PG_ACCEPTED_MAX - 1);
}

/* Value of the socket storage. A mark lives as long as its socket. */
enum pg_mark_kind {
	PG_MARK_NONE = 0,
	PG_MARK_ACCEPTED = 1, /* accepted from .remote, without a place in pg_accepted; a connect()
			       * deletes the mark */
	PG_MARK_LISTENER = 2, /* listens for .owner */
	PG_MARK_RAW = 3,      /* a raw socket that an application made */
	PG_MARK_DATAGRAM = 4, /* a UDP socket */
	PG_MARK_AGENT = 5,    /* one of Phasegate's own, in a namespace of .owner's; only user space
			       * sets it */
};

struct pg_mark {
	__u32 kind; /* enum pg_mark_kind */
	__be16 remote_port;
	__u16 confirmed; /* of ACCEPTED: 1: the guard of a veth saw it being opened from outside */
	__u64 owner;	 /* env_id, or where members are apart cgroup_id; 0: not known */
	__u64 netns;	 /* cookie of RAW and DATAGRAM */
	struct pg_addr remote;
};
PG_ASSERT_SIZE(struct pg_mark, 40);
