/* SPDX-License-Identifier: Apache-2.0 */
/* Writing what the client gets. */
#pragma once

#include "answer.h"
#include "query.h"

/* SOA minimum of what is denied: as long as a client may remember it (RFC 2308). Short, because the
 * next phase may allow the name. */
#define PG_REPLY_DENIED_TTL_S 1

/* Extended DNS errors (RFC 8914). */
#define PG_EDE_OTHER	     0
#define PG_EDE_FILTERED	     17
#define PG_EDE_NOT_READY     14
#define PG_EDE_NO_REACHABLE  22
#define PG_EDE_NETWORK_ERROR 23

struct pg_reply {
	uint16_t rcode;			/* of ns_rcode; BADVERS (16) needs EDNS */
	const struct pg_answer *answer; /* NULL: none */
	uint32_t age; /* seconds that the answer was kept; TTLs are lowered by it */
	/* Without records: TTL of the SOA in the authority section; 0: no SOA. */
	uint32_t negative_ttl;
	/* Sent only to a client that speaks EDNS; NULL text: no extended error. */
	uint16_t ede;
	const char *ede_text;
};

/*
 * Writes the reply to the query into buffer, at most limit octets (at least 512): the question in
 * the client's own case, then what fits. Records that do not fit are left out whole, and TC is set.
 * Returns its size.
 */
size_t pg_reply_write(const struct pg_dns_query *query, const struct pg_reply *reply,
		      uint8_t *buffer, size_t limit);
