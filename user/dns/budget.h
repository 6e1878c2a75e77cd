/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many distinct names a minute may be asked under a "*." entry: names carry data to whoever
 * runs the name's servers, and a wildcard lets the workload choose them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

#define PG_BUDGET_PER_MINUTE 1000

struct pg_budget;

/* Budgets of count wildcards. NULL: no memory. Memory per wildcard is taken when it is first used
 * and bounded by per_minute. */
struct pg_budget *pg_budget_new(size_t count, unsigned int per_minute);
void pg_budget_free(struct pg_budget *budget);
static inline void pg_budget_freep(struct pg_budget **budget)
{
	pg_budget_free(*budget);
}

/*
 * Counts the name unless it was counted in this minute already (windows of 60 s from the first
 * name; names are kept as keyed 64-bit hashes). false: the budget is used up and the name must not
 * be asked. *ret_first tells the first refusal of a minute. now_ns: CLOCK_BOOTTIME.
 */
bool pg_budget_spend(struct pg_budget *budget, size_t wildcard, const char *name, uint64_t now_ns,
		     bool *ret_first);
