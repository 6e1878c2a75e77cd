/* SPDX-License-Identifier: Apache-2.0 */
/* How many addresses the names of each entry may have. */
#include "dns.h"

#include <stdlib.h>

/* Rotating names have hundreds at a time; a wildcard has any number of names. */
#define QUOTA_HOST_MIN 64
#define QUOTA_HOST_MAX 1024
#define QUOTA_WILDCARD 65536

/* What is left of a quota where entries have more than there is room for, as a share of that: so
 * many of them must belong to one hand before it can leave no room to the others. */
#define SHARE_MIN 16384

size_t pg_quota_owners(const struct pg_name_index *index)
{
	return pg_name_index_hosts(index) + pg_name_index_wildcards(index);
}

struct pg_learned_teacher pg_quota_teacher(const struct pg_name_index *index, const char *name)
{
	const struct pg_name_match match = pg_name_index_find(index, name);
	struct pg_learned_teacher teacher = {.name = name, .owner = PG_OWNER_NONE};

	if (match.host)
		teacher.owner = (uint32_t)(match.host - 1);
	else if (match.wildcard && !match.by_host)
		teacher.owner = (uint32_t)(pg_name_index_hosts(index) + match.wildcard - 1);
	if (teacher.owner != PG_OWNER_NONE)
		teacher.lists = match.lists;
	return teacher;
}

static size_t host_quota(size_t hosts)
{
	const size_t share = hosts ? PG_LEARNED_MAX / hosts : QUOTA_HOST_MAX;

	if (share < QUOTA_HOST_MIN)
		return QUOTA_HOST_MIN;
	return share < QUOTA_HOST_MAX ? share : QUOTA_HOST_MAX;
}

static uint32_t scale(size_t quota, size_t sum, size_t max)
{
	const size_t least = max / SHARE_MIN ? max / SHARE_MIN : 1;
	const size_t scaled =
		sum > max ? (size_t)((double)quota / (double)sum * (double)max) : quota;

	return (uint32_t)(scaled > least ? scaled : least);
}

uint32_t *pg_quota_make(const struct pg_name_index *index, size_t addresses_max)
{
	const size_t hosts = pg_name_index_hosts(index);
	const size_t wildcards = pg_name_index_wildcards(index);
	const size_t each = host_quota(hosts);
	const size_t sum = hosts * each + wildcards * QUOTA_WILDCARD;
	uint32_t *quotas = calloc(hosts + wildcards ? hosts + wildcards : 1, sizeof(*quotas));

	if (!quotas)
		return NULL;
	for (size_t i = 0; i < hosts; i++)
		quotas[i] = scale(each, sum, addresses_max);
	for (size_t i = 0; i < wildcards; i++)
		quotas[hosts + i] = scale(QUOTA_WILDCARD, sum, addresses_max);
	return quotas;
}

const char *pg_quota_text(const struct pg_name_index *index, uint32_t owner,
			  char ret_text[static PG_OWNER_TEXT])
{
	const size_t hosts = pg_name_index_hosts(index);
	const bool wildcard = owner >= hosts;

	snprintf(ret_text, PG_OWNER_TEXT, "%s%s", wildcard ? "*." : "",
		 wildcard ? pg_name_index_wildcard(index, owner - hosts)
			  : pg_name_index_host(index, owner));
	return ret_text;
}

/*
 * The names of an owner teach the same lists, those that have all of them. Of a wildcard's, "*"
 * stands for each: no entry has a name like that.
 */
size_t pg_quota_capacity(const struct pg_name_index *index, const uint32_t *quotas,
			 unsigned int list, size_t addresses_max)
{
	const size_t owners = pg_quota_owners(index);
	char text[PG_OWNER_TEXT];
	size_t capacity = 0;

	for (uint32_t i = 0; i < owners && capacity < addresses_max; i++)
		if (pg_name_index_find(index, pg_quota_text(index, i, text)).lists & 1U << list)
			capacity += quotas[i];
	return capacity < addresses_max ? capacity : addresses_max;
}
