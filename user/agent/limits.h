/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent gives to all users together, and how much of it one user may have, root too, so
 * that there is always some left for others. docs/phasegated.8.md has them.
 */
#pragma once

#include <phasegate/abi/types.h>

/* Environments at once: indices of the kernel's states, of which 0 is never used. */
#define PG_ENVIRONMENTS_MAX  (PG_ENVIRONMENT_MAX - 1)
#define PG_ENVIRONMENTS_USER 2048
/* Of all Environments of one user: each takes some twenty of the agent's descriptors. */
#define PG_MEMBERS_USER	     8192
/* Entries of all policies of a user, each in some 100 octets here and in the kernel: 1.6 GB. */
#define PG_ENTRIES_USER	     16000000
#define PG_ENTRIES_USER_MAX  (4096UL * 1000 * 1000)
/* Connections at once; each may hold a request in memory. */
#define PG_CLIENTS_MAX	     256
#define PG_CLIENTS_USER	     128
/* Beside them, connections that are told why they are refused; what is beyond is closed. */
#define PG_REFUSALS_MAX	     32
/* Octets of requests that are being received, and of replies that are not read yet; a reply that
 * comes on top of them is as large as it is. */
#define PG_RECEIVING_MAX     (512UL * 1024 * 1024)
#define PG_SENDING_MAX	     (512UL * 1024 * 1024)
/* Of each, this much for one user. */
#define PG_USER_SHARE	     2
/* A request has to arrive within this time, and its reply to be read. */
#define PG_CLIENT_SECONDS    10
/* The longest that ?follow=1 waits for an event. */
#define PG_FOLLOW_SECONDS    25
