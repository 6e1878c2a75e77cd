/* SPDX-License-Identifier: Apache-2.0 */
/* The records of this process, found by name: with a thousand of them, reading each for every one
 * that is made would take most of the time. */
#include "record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"

static uint64_t hash_name(const struct pg_own_records *own, const char *name)
{
	return pg_hash(&own->key, name, strlen(name));
}

int pg_own_records_add(struct pg_own_records *own, const struct pg_record *record)
{
	if (!own->count)
		pg_hash_key_make(&own->key);
	if (pg_vector_grow(&own->records, own->count, &own->room,
			   sizeof(const struct pg_record *)) ||
	    pg_hash_table_reserve(&own->names, 1))
		return -ENOMEM;
	own->records[own->count] = record;
	pg_hash_table_add(&own->names, hash_name(own, record->name), (uint32_t)own->count);
	own->count++;
	return 0;
}

void pg_own_records_clear(struct pg_own_records *own)
{
	pg_hash_table_clear(&own->names);
	free(own->records);
	*own = (struct pg_own_records){};
}

const struct pg_record *pg_own_records_find(const struct pg_own_records *own, const char *name)
{
	const uint64_t hash = own->count ? hash_name(own, name) : 0;
	size_t cursor = 0;
	uint32_t item;

	while (own->count && pg_hash_table_next(&own->names, hash, &cursor, &item))
		if (!strcmp(own->records[item]->name, name))
			return own->records[item];
	return NULL;
}
