/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who was looked at already. A chain of processes (or threads), each of which starts the next and
 * ends, is missed by one list of all if looking at those in front takes longer than one of them
 * lives. So lists are made until all who are new in one could be looked at, which begins with those
 * who came last.
 */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <sys/types.h>

#include "base/vector.h"

/* One that ends all the time is met by some of so many. */
#define PG_INSPECT_LISTS_MAX 100

struct pg_pids {
	pid_t *items;
	size_t count, room;
	size_t sorted; /* that many from the first on */
};

static inline void pg_pids_clear(struct pg_pids *pids)
{
	free(pids->items);
	*pids = (struct pg_pids){};
}
#define pg_autopids PG_CLEANUP(pg_pids_clear)

static inline int pg_pids_order(const void *a, const void *b)
{
	return (*(const pid_t *)a > *(const pid_t *)b) - (*(const pid_t *)a < *(const pid_t *)b);
}

/* Before a list. */
static inline void pg_pids_sort(struct pg_pids *pids)
{
	if (pids->sorted != pids->count)
		qsort(pids->items, pids->count, sizeof(*pids->items), pg_pids_order);
	pids->sorted = pids->count;
}

/* Of those before the list. */
static inline bool pg_pids_have(const struct pg_pids *pids, pid_t pid)
{
	return pids->sorted && bsearch(&pid, pids->items, pids->sorted, sizeof(pid), pg_pids_order);
}

static inline int PG_MUST_CHECK pg_pids_add(struct pg_pids *pids, pid_t pid)
{
	int error = pg_vector_grow(&pids->items, pids->count, &pids->room, sizeof(*pids->items));

	if (!error)
		pids->items[pids->count++] = pid;
	return error;
}
