/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is known about one connect, send or packet: the input of the decision function. Filled by
 * the entry points from their different contexts, or by a test.
 */
#pragma once

#include <phasegate/abi/types.h>

/* Protocols that the kernel has as macros only, so that its type information lacks them. */
#define PG_IPPROTO_ICMPV6 58
#define PG_IPPROTO_MPTCP  262

/*
 * A function of its own: what is rarely done is not between what is done for each packet, and of
 * such functions only one at a time needs its part of the stack's 512 octets.
 */
#define PG_APART static __attribute__((noinline, unused))

/* pg_facts.bits */
#define PG_FACT_PACKET	    (1U << 0) /* from a packet's header, not from a sockaddr */
#define PG_FACT_IPV6	    (1U << 1) /* the header is IPv6 */
#define PG_FACT_KERNEL_ND   (1U << 2) /* neighbour discovery or MLD made by the kernel */
#define PG_FACT_LISTENER    (1U << 3) /* Phasegate's DNS listener receives it */
#define PG_FACT_OWN_SOURCE  (1U << 4) /* the source is an address of the Environment */
#define PG_FACT_ACCEPTED    (1U << 5) /* of a TCP connection opened from outside */
#define PG_FACT_INBOUND	    (1U << 6) /* of a UDP flow opened from outside */
#define PG_FACT_LOOPBACK    (1U << 7) /* stays in, and the receiver is the Environment's or no one */
#define PG_FACT_ESTABLISHED (1U << 8) /* of a connection that was open already */
#define PG_FACT_SYN	    (1U << 9) /* first segment of an outbound TCP connection */
#define PG_FACT_HIDDEN	    (1U << 10) /* a socket of Phasegate's receives it that it may not reach */
#define PG_FACT_UNSERVED    (1U << 11) /* LISTENER, where none has been opened yet */
#define PG_FACT_TO_LO	    (1U << 12) /* a packet to lo */
#define PG_FACT_MEMBER	    (1U << 13) /* the destination is another member's */
#define PG_FACT_LINK	    (1U << 14) /* judged at the veth, where the source is always checked */

struct pg_facts {
	__u64 netns;		      /* cookie of the socket's namespace; 0 if not known */
	struct pg_addr local, remote; /* zero if not known */
	__be16 local_port, remote_port;
	__u8 protocol; /* IPPROTO_*, of the header behind the IP header */
	__u8 defect;   /* enum pg_reason of a header that allowlists do not let pass; 0: none */
	__u16 bits;    /* PG_FACT_* */
};
PG_ASSERT_SIZE(struct pg_facts, 48);
