/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * How much the kernel side has room for, all limits in one list; what happens beyond one is said
 * beside it. The guard's is in guard.h, which never changes; the others may with PG_ABI_VERSION.
 */
#pragma once

/* Environments at once; bounds the maps that have an element for each. Another is refused. */
#define PG_ENVIRONMENT_MAX 4096

/* Members of one Environment; more are refused. */
#define PG_MEMBERS_MAX	     64
/* Deepest cgroup that can be a member where there are several. */
#define PG_MEMBER_LEVEL_MAX  16
/* Of all Environments together, and their addresses; what does not fit fails its creation. */
#define PG_MEMBERS_TOTAL_MAX 8192

/* Slots of the outer maps: three phases and a ceiling for each of 1,024 Environments, twice over
 * because an update fills new slots before it lets the old ones go. Without one creating and
 * updating fail. */
#define PG_SLOT_MAX 8192

/* Addresses of the Environments' own namespaces; one without room is a warning, and connecting to
 * it is judged by the packet alone. */
#define PG_OWN_MAX 65536

/* Addresses of the host, and the ports that an entry opens on them; more is an error. */
#define PG_HOST_ADDRESS_MAX 4096
#define PG_HOST_PORT_MAX    1024

/* UDP flows of all Environments, at most half of them of one; one without room is never inbound
 * (flow.h). */
#define PG_FLOW_MAX 65536

/* Places for what was let out recently, of all Environments; a power of two (sent.h). */
#define PG_SENT_MAX_BITS 14
#define PG_SENT_MAX	 (1U << PG_SENT_MAX_BITS)

/* Open TCP connections that were accepted and have a place in pg_accepted; one whose place is taken
 * is marked, which takes longer (flow.h). A power of 2. */
#define PG_ACCEPTED_MAX 16384

/* Network namespaces with a listener; of others the hooks find out at the first query. */
#define PG_DNS_SERVED_MAX 16384
/* Longest UDP query that is parked; what is longer is dropped, and the client asks again. */
#define PG_DNS_PARKED_MAX 512

/* What does not fit is counted: events_lost. */
#define PG_EVENT_RING_BYTES   (256 * 1024)
/*
 * Denials that are reported in a second, of one Environment. What is more is counted only
 * (events_suppressed), and so is what comes while the ring is half full: events that DNS waits for
 * need the rest.
 */
#define PG_EVENT_DENIED_PER_S 1000
/* Executions that are ended, of one member; as denials. */
#define PG_EVENT_EXEC_PER_S   100
/* Sources that are asked about in a second, of one Environment; the others are counted only. */
#define PG_EVENT_SOURCE_PER_S 10

/* Veths with a guard; one without room keeps none, which is an error. */
#define PG_LINK_MAX	  4096
/* Of all Environments together, the addresses that they route by; more is an error. */
#define PG_LINK_HOP_MAX	  16384
/* Network namespaces in which programs with CAP_NET_ADMIN have begun; with one without room nothing
 * is believed that comes after the first look, in any, until the Environments of then have ended.
 */
#define PG_BEGUN_MAX	  1024
/* Host ends of namespaces in which a member has executed something; one without room is not known
 * where nobody is in its namespace any more. They go with the link. */
#define PG_HOST_ENDS_MAX  16384
/* Solicited-node groups of own addresses; one without room is not reported by MLD. */
#define PG_OWN_GROUPS_MAX PG_OWN_MAX
