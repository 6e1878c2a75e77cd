/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (lists of entries) -> which of them have a name. Pure. One lookup costs one hash per label of the
 * name, however many entries there are.
 */
#pragma once

#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "policy/policy.h"

/* Lists are numbered; a set of them is a bit mask. */
#define PG_NAME_LISTS_MAX 32

struct pg_name_match {
	unsigned int lists;   /* that have the name by a host entry or by a wildcard */
	unsigned int by_host; /* those of them that have it by a host entry */
	/* Number + 1 of the longest wildcard that matches, of any of the lists looked into; 0:
	 * none.
	 */
	size_t wildcard;
	/* Number + 1 of the host entry that by_host is about; 0: none, or "localhost". */
	size_t host;
};

struct pg_name_index;

/* The entries must outlive the index. */
int pg_name_index_new(const struct pg_entries *const *lists, size_t count,
		      struct pg_name_index **ret_index, struct pg_error *err) PG_MUST_CHECK;
void pg_name_index_free(struct pg_name_index *index);
static inline void pg_name_index_freep(struct pg_name_index **index)
{
	pg_name_index_free(*index);
}

/* Looks into these lists. name: lower case without final dot. "*.example.com" matches one or more
 * labels below example.com, never itself; labels are whole. */
struct pg_name_match pg_name_index_find_in(const struct pg_name_index *index, unsigned int lists,
					   const char *name);

/* Looks into all lists. */
static inline struct pg_name_match pg_name_index_find(const struct pg_name_index *index,
						      const char *name)
{
	return pg_name_index_find_in(index, UINT_MAX, name);
}

size_t pg_name_index_wildcards(const struct pg_name_index *index);
/* The text of the wildcard without "*."; number as in pg_name_match.wildcard minus 1. */
const char *pg_name_index_wildcard(const struct pg_name_index *index, size_t number);

/* Each name of a host entry once, "localhost" left out, in no particular order. */
size_t pg_name_index_hosts(const struct pg_name_index *index);
const char *pg_name_index_host(const struct pg_name_index *index, size_t number);
