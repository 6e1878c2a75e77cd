/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a DNS response (RFC 1035, 4.1) as something that an enemy may have written. c-ares has
 * parsers for this, but the one of 1.18 follows any CNAME of the answer, wherever its chain began,
 * so whoever can add a record to an answer could add an address to a policy.
 *
 * Nothing is allocated. The time is at most linear in the size of the message for each of the
 * PG_ANSWER_CHAIN_MAX steps of the chain.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "net/addr.h"

/* CNAMEs followed; resolvers give up at 8 to 16. */
#define PG_ANSWER_CHAIN_MAX 16

/*
 * Receives each address with the smallest TTL (in seconds) on the way to it. A negative errno ends
 * the reading.
 */
typedef int (*pg_answer_sink)(void *userdata, const struct pg_addr *addr, uint32_t ttl);

/*
 * Reports the addresses of the given type (A or AAAA) that the message has at the end of the CNAME
 * chain that begins at name. Nothing is reported before the whole answer section has been found
 * well-formed. Returns how many there were; -EBADMSG: not a response to this question, or
 * malformed; -ELOOP: the chain is too long; or the sink's error.
 */
int pg_answer_addresses(const uint8_t *message, size_t size, const char *name, uint16_t type,
			pg_answer_sink sink, void *userdata) PG_MUST_CHECK;
