/* SPDX-License-Identifier: Apache-2.0 */
#include "targets.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

/* A power of two. */
#define BUCKETS 1024

struct link {
	LIST_ENTRY(link) bucket;
	TAILQ_ENTRY(link) added;
	uint64_t hash; /* of the target */
	uint64_t expires;
	const char *original; /* behind the target */
	char target[];
};

struct pg_targets {
	struct pg_hash_key secret;
	size_t count, count_max;
	TAILQ_HEAD(link_list, link) added; /* oldest first */
	LIST_HEAD(link_bucket, link) buckets[BUCKETS];
};

struct pg_targets *pg_targets_new(size_t count, const struct pg_hash_key *secret)
{
	struct pg_targets *targets = calloc(1, sizeof(*targets));

	if (!targets)
		return NULL;
	targets->secret = *secret;
	targets->count_max = count;
	TAILQ_INIT(&targets->added);
	return targets;
}

static void drop(struct pg_targets *targets, struct link *link)
{
	LIST_REMOVE(link, bucket);
	TAILQ_REMOVE(&targets->added, link, added);
	targets->count--;
	free(link);
}

void pg_targets_free(struct pg_targets *targets)
{
	struct link *link;

	if (!targets)
		return;
	while ((link = TAILQ_FIRST(&targets->added)))
		drop(targets, link);
	free(targets);
}

/* Removes what has expired of the target. Returns the link of the original, or NULL; *ret_count and
 * *ret_oldest are about what is left. */
static struct link *tidy(struct pg_targets *targets, uint64_t hash, const char *target,
			 const char *original, uint64_t now, unsigned int *ret_count,
			 struct link **ret_oldest)
{
	struct link *link = LIST_FIRST(&targets->buckets[hash % BUCKETS]), *next, *found = NULL;

	*ret_count = 0;
	*ret_oldest = NULL;
	for (; link; link = next) {
		next = LIST_NEXT(link, bucket);
		if (link->hash != hash || strcmp(link->target, target) != 0)
			continue;
		if (strcmp(link->original, original) == 0) {
			found = link;
		} else if (link->expires <= now) {
			drop(targets, link);
			continue;
		}
		(*ret_count)++;
		*ret_oldest = link;
	}
	return found;
}

void pg_targets_add(struct pg_targets *targets, const char *target, const char *original,
		    uint64_t expires, uint64_t now)
{
	const size_t target_size = strlen(target) + 1, original_size = strlen(original) + 1;
	uint64_t hash = pg_hash(&targets->secret, target, target_size - 1);
	struct link *oldest, *link;
	unsigned int count;

	link = tidy(targets, hash, target, original, now, &count, &oldest);
	if (link) {
		if (link->expires < expires)
			link->expires = expires;
		TAILQ_REMOVE(&targets->added, link, added);
		TAILQ_INSERT_TAIL(&targets->added, link, added);
		return;
	}
	if (count >= PG_TARGETS_ORIGINALS_MAX)
		drop(targets, oldest);
	if (targets->count >= targets->count_max)
		drop(targets, TAILQ_FIRST(&targets->added));
	link = malloc(sizeof(*link) + target_size + original_size);
	if (!link)
		return;
	memcpy(link->target, target, target_size);
	memcpy(link->target + target_size, original, original_size);
	link->original = link->target + target_size;
	link->hash = hash;
	link->expires = expires;
	LIST_INSERT_HEAD(&targets->buckets[hash % BUCKETS], link, bucket);
	TAILQ_INSERT_TAIL(&targets->added, link, added);
	targets->count++;
}

size_t pg_targets_find(const struct pg_targets *targets, const char *target, uint64_t now,
		       struct pg_original ret_originals[static PG_TARGETS_ORIGINALS_MAX])
{
	uint64_t hash = pg_hash(&targets->secret, target, strlen(target));
	const struct link *link;
	size_t count = 0;

	LIST_FOREACH (link, &targets->buckets[hash % BUCKETS], bucket) {
		if (link->hash != hash || link->expires <= now || strcmp(link->target, target) != 0)
			continue;
		if (count == PG_TARGETS_ORIGINALS_MAX)
			break;
		strcpy(ret_originals[count].name, link->original);
		ret_originals[count++].expires = link->expires;
	}
	return count;
}
