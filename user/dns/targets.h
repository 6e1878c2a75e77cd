/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CNAME targets of answers for allowed names. A forwarder inside the Environment asks for them on
 * its own, though no list has them. Each is kept with the name that led to it and may be asked as
 * long as that name is allowed, until its TTL.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "wire.h"

/* Names that may lead to the same target; of more, the oldest is forgotten. */
#define PG_TARGETS_ORIGINALS_MAX 8

struct pg_targets;

/* At most count in all; of more, the one that was added first goes. NULL: no memory. */
struct pg_targets *pg_targets_new(size_t count, const struct pg_hash_key *secret);
void pg_targets_free(struct pg_targets *targets);

/* The original leads to the target until expires (ns). Without memory it is forgotten. */
void pg_targets_add(struct pg_targets *targets, const char *target, const char *original,
		    uint64_t expires, uint64_t now);

struct pg_original {
	char name[PG_DNS_TEXT];
	uint64_t expires;
};

/* Copies the names that lead to the target. Returns their number. */
size_t pg_targets_find(const struct pg_targets *targets, const char *target, uint64_t now,
		       struct pg_original ret_originals[static PG_TARGETS_ORIGINALS_MAX]);
