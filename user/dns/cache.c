/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"

/* A power of two; about as many answers as fit. */
#define BUCKETS 16384

struct entry {
	LIST_ENTRY(entry) bucket;
	TAILQ_ENTRY(entry) used;
	uint64_t hash;
	unsigned int upstream;
	struct pg_answer *answer; /* its question and type are the rest of the key */
	uint64_t stored;
};

struct pg_cache {
	size_t octets, octets_max;
	TAILQ_HEAD(entry_list, entry) used; /* most recently used first */
	LIST_HEAD(entry_bucket, entry) buckets[BUCKETS];
};

uint64_t pg_answer_key_hash(const struct pg_answer_key *key, const struct pg_hash_key *secret)
{
	uint8_t octets[sizeof(uint32_t) + sizeof(uint16_t) + PG_DNS_NAME_MAX];
	const uint32_t upstream = key->upstream;
	size_t head = sizeof(upstream) + sizeof(key->type);

	memcpy(octets, &upstream, sizeof(upstream));
	memcpy(octets + sizeof(upstream), &key->type, sizeof(key->type));
	memcpy(octets + head, key->name->octets, key->name->size);
	return pg_hash(secret, octets, head + key->name->size);
}

struct pg_cache *pg_cache_new(size_t octets_max)
{
	struct pg_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->octets_max = octets_max;
	TAILQ_INIT(&cache->used);
	return cache;
}

static size_t octets_of(const struct pg_answer *answer)
{
	return sizeof(struct entry) + sizeof(*answer) + answer->size;
}

static void drop(struct pg_cache *cache, struct entry *entry)
{
	cache->octets -= octets_of(entry->answer);
	LIST_REMOVE(entry, bucket);
	TAILQ_REMOVE(&cache->used, entry, used);
	pg_answer_free(entry->answer);
	free(entry);
}

void pg_cache_free(struct pg_cache *cache)
{
	struct entry *entry;

	if (!cache)
		return;
	while ((entry = TAILQ_FIRST(&cache->used)))
		drop(cache, entry);
	free(cache);
}

static struct entry *find(struct pg_cache *cache, const struct pg_answer_key *key, uint64_t hash)
{
	struct entry *entry;

	LIST_FOREACH (entry, &cache->buckets[hash % BUCKETS], bucket) {
		if (entry->hash == hash && entry->upstream == key->upstream &&
		    entry->answer->type == key->type &&
		    pg_dns_name_equal(&entry->answer->question, key->name))
			return entry;
	}
	return NULL;
}

const struct pg_answer *pg_cache_get(struct pg_cache *cache, const struct pg_answer_key *key,
				     uint64_t hash, uint64_t now, uint32_t *ret_age)
{
	struct entry *entry = find(cache, key, hash);
	uint64_t age;

	if (!entry)
		return NULL;
	age = (now - entry->stored) / PG_NSEC_PER_SEC;
	if (age >= entry->answer->ttl) {
		drop(cache, entry);
		return NULL;
	}
	TAILQ_REMOVE(&cache->used, entry, used);
	TAILQ_INSERT_HEAD(&cache->used, entry, used);
	*ret_age = (uint32_t)age;
	return entry->answer;
}

void pg_cache_put(struct pg_cache *cache, const struct pg_answer_key *key, uint64_t hash,
		  struct pg_answer *answer, uint64_t now)
{
	const size_t octets = octets_of(answer);
	struct entry *entry = find(cache, key, hash);

	if (entry)
		drop(cache, entry);
	entry = answer->ttl > 0 && octets <= cache->octets_max ? malloc(sizeof(*entry)) : NULL;
	if (!entry) {
		pg_answer_free(answer);
		return;
	}
	while (cache->octets + octets > cache->octets_max)
		drop(cache, TAILQ_LAST(&cache->used, entry_list));
	*entry = (struct entry){
		.hash = hash,
		.upstream = key->upstream,
		.answer = answer,
		.stored = now,
	};
	LIST_INSERT_HEAD(&cache->buckets[hash % BUCKETS], entry, bucket);
	TAILQ_INSERT_HEAD(&cache->used, entry, used);
	cache->octets += octets;
}

size_t pg_cache_octets(const struct pg_cache *cache)
{
	return cache->octets;
}
