/* SPDX-License-Identifier: Apache-2.0 */
/* Names with fixed addresses: those of hosts files, and "localhost" (RFC 6761, 6.3). */
#pragma once

#include <stdbool.h>

#include "answer.h"
#include "base/hash.h"

/* As long as a client may remember such an address; asking again costs nothing. */
#define PG_LOCAL_TTL_S 60

struct pg_local;

/* NULL: no memory. */
struct pg_local *pg_local_new(const struct pg_hash_key *secret);
void pg_local_free(struct pg_local *local);

/* The name has the address, too. -ENOMEM, -EINVAL: no name that DNS can have. */
int pg_local_add(struct pg_local *local, const char *name,
		 const struct pg_addr *addr) PG_MUST_CHECK;

/* Whether text is "localhost" or below it. */
bool pg_local_is_localhost(const char *text);

/* Whether text is the name of 127.0.0.1 or ::1 for PTR. */
bool pg_local_is_loopback_reverse(const char *text);

/*
 * The answer, to be freed by the caller. 0 and NULL: the name is not known here; -ENOMEM. text is
 * the name in lower case.
 */
int pg_local_find(const struct pg_local *local, const char *text, const struct pg_dns_name *name,
		  uint16_t type, struct pg_answer **ret_answer) PG_MUST_CHECK;

/* The same for "localhost", what is below it, and the PTR names of its addresses. */
int pg_local_find_localhost(const char *text, const struct pg_dns_name *name, uint16_t type,
			    struct pg_answer **ret_answer) PG_MUST_CHECK;
