/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are kept until their TTL, bounded in octets; the least recently used goes first. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "answer.h"
#include "base/hash.h"

/* What an answer is the answer to. The name is in lower case. */
struct pg_answer_key {
	unsigned int upstream;
	uint16_t type;
	const struct pg_dns_name *name;
};

uint64_t pg_answer_key_hash(const struct pg_answer_key *key, const struct pg_hash_key *secret);

struct pg_cache;

/* NULL: no memory. */
struct pg_cache *pg_cache_new(size_t octets_max);
void pg_cache_free(struct pg_cache *cache);

/*
 * The answer, which stays the cache's and is there until the next put, and for how many whole
 * seconds it was kept. NULL: none that is young enough. now: ns.
 */
const struct pg_answer *pg_cache_get(struct pg_cache *cache, const struct pg_answer_key *key,
				     uint64_t hash, uint64_t now, uint32_t *ret_age);

/* Takes the answer over, whatever becomes of it. TTL 0 and what does not fit is not kept. */
void pg_cache_put(struct pg_cache *cache, const struct pg_answer_key *key, uint64_t hash,
		  struct pg_answer *answer, uint64_t now);

/* What the answers take. */
size_t pg_cache_octets(const struct pg_cache *cache);
