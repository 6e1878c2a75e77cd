/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An upstream server's response, reduced to what answers the question: the CNAME chain that starts
 * at the question's name and, at its end, the records of the type asked for. Everything else in the
 * message (unrelated records, the authority and additional sections, EDNS options, DNSSEC) is left
 * out, names are uncompressed, and hints to addresses are stripped (HTTPS and SVCB: ipv4hint,
 * ipv6hint and ech, RFC 9460, and their mention in "mandatory").
 *
 * Why no library reads it: c-ares 1.18 has parsers, but they follow any CNAME of the answer,
 * wherever its chain began, so whoever can add a record to an answer could add an address to a
 * policy.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/addr.h"
#include "wire.h"

/* CNAMEs followed; resolvers give up at 8 to 16. */
#define PG_ANSWER_CHAIN_MAX 16

/* A TTL counts as at most this, one day, as resolvers do (unbound's default; RFC 8767, 4 lets
 * them), so that a server cannot keep an address allowed for years. */
#define PG_ANSWER_TTL_MAX_S 86400

/* TTL of "no such name" and "no such record" without an SOA record to say it, and its most. */
#define PG_ANSWER_NEGATIVE_S	 5
#define PG_ANSWER_NEGATIVE_MAX_S 300

/* Octets of records in one answer. Names grow where they are uncompressed: a message of 64 KiB
 * could become 1 MiB; real ones stay far below this. What pg_answer_join() adds is a chain. */
#define PG_ANSWER_RECORDS_MAX (4UL * 64 * 1024)

/* Address records kept of a response, the first ones: each opens an address, and whoever asks may
 * ask again. What a server sends beyond is not in the answer either. */
#define PG_ANSWER_ADDRESSES_MAX 256

struct pg_answer {
	struct pg_dns_name question;
	uint16_t type;
	uint8_t rcode;	    /* NOERROR or NXDOMAIN */
	unsigned int chain; /* CNAME records, first in .records */
	unsigned int count; /* records in all */
	/* Where the chain ends: .question if there is no CNAME. */
	struct pg_dns_name target;
	bool dangling; /* see pg_answer_is_dangling() */
	/* Seconds for which the whole may be kept: the smallest TTL, or that of the absence. */
	uint32_t ttl;
	/* Records back to back: owner (uncompressed), type, class, TTL, length, data. */
	size_t size;
	uint8_t *records;
};

/*
 * Reads the response to the question. -EBADMSG: not a response to it, or malformed; -ELOOP: the
 * chain is too long; -ENOMEM. A rcode other than NOERROR and NXDOMAIN is -EPROTO. The caller frees
 * *ret_answer with pg_answer_free().
 */
int pg_answer_read(const uint8_t *message, size_t size, const struct pg_dns_name *question,
		   uint16_t type, struct pg_answer **ret_answer) PG_MUST_CHECK;
void pg_answer_free(struct pg_answer *answer);
static inline void pg_answer_freep(struct pg_answer **answer)
{
	pg_answer_free(*answer);
}

/* Whether the chain ends at a name about which the response says nothing: ask for .target. */
bool pg_answer_is_dangling(const struct pg_answer *answer);

/*
 * Joins the answer to "what is .target?" to *answer, which is replaced. -ELOOP if the chain becomes
 * too long or meets itself; -ENOMEM. *answer stays as it was on failure.
 */
int pg_answer_join(struct pg_answer **answer, const struct pg_answer *more) PG_MUST_CHECK;

/* An answer made by ourselves: addresses of the question's name of the type A or AAAA; none is
 * "no such record". NULL: no memory. */
struct pg_answer *pg_answer_make(const struct pg_dns_name *question, uint16_t type,
				 const struct pg_addr *addrs, size_t count, uint32_t ttl);

/*
 * Each address record (type A or AAAA) with the smallest TTL on the way to it, at most
 * PG_ANSWER_TTL_MAX_S. A negative errno of the sink ends the walk and is returned.
 */
typedef int (*pg_answer_sink)(void *userdata, const struct pg_addr *addr, uint32_t ttl);
int pg_answer_addresses(const struct pg_answer *answer, pg_answer_sink sink,
			void *userdata) PG_MUST_CHECK;

/* Each target of a CNAME of the chain, with the smallest TTL on the way to it. */
typedef int (*pg_answer_name_sink)(void *userdata, const struct pg_dns_name *name, uint32_t ttl);
int pg_answer_targets(const struct pg_answer *answer, pg_answer_name_sink sink,
		      void *userdata) PG_MUST_CHECK;
