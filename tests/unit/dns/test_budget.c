/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include <stdio.h>

#include "base/clock.h"
#include "dns/budget.h"

#define MINUTE (60 * PG_NSEC_PER_SEC)

static bool spend(struct pg_budget *budget, size_t wildcard, unsigned int number, uint64_t now,
		  bool *ret_first)
{
	char name[32];

	snprintf(name, sizeof(name), "n%u.example.com", number);
	return pg_budget_spend(budget, wildcard, name, now, ret_first);
}

Test(budget, distinct_names_count)
{
	PG_CLEANUP(pg_budget_freep) struct pg_budget *budget = pg_budget_new(2, 1000);
	bool first;

	cr_assert(budget);
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < 1000; i++) {
			cr_assert(spend(budget, 0, i, 5, &first), "%u", i);
			cr_assert(!first);
		}
	}
	cr_expect(!spend(budget, 0, 1000, 6, &first));
	cr_expect(first);
	cr_expect(!spend(budget, 0, 1001, 7, &first));
	cr_expect(!first, "only the first refusal of a minute is told");
	cr_expect(spend(budget, 0, 999, 8, &first), "counted already");
	cr_expect(spend(budget, 1, 1000, 8, &first), "another wildcard");
}

Test(budget, a_minute_from_the_first_name)
{
	PG_CLEANUP(pg_budget_freep) struct pg_budget *budget = pg_budget_new(1, 2);
	const uint64_t start = 1000 * PG_NSEC_PER_SEC;
	bool first;

	cr_expect(spend(budget, 0, 1, start, &first));
	cr_expect(spend(budget, 0, 2, start + MINUTE / 2, &first));
	cr_expect(!spend(budget, 0, 3, start + MINUTE - 1, &first));
	cr_expect(first);
	cr_expect(spend(budget, 0, 3, start + MINUTE, &first), "a new minute");
	cr_expect(spend(budget, 0, 1, start + MINUTE, &first));
	cr_expect(!spend(budget, 0, 2, start + MINUTE + 1, &first), "forgotten, and no room");
	cr_expect(first, "the first of its minute");
}

Test(budget, nothing_to_spend)
{
	PG_CLEANUP(pg_budget_freep) struct pg_budget *budget = pg_budget_new(1, 0);
	bool first;

	cr_expect(!spend(budget, 0, 1, 1, &first));
	cr_expect(first);
	cr_expect(!spend(budget, 0, 1, 2, &first));
	cr_expect(!first);
	pg_budget_free(NULL);
}

Test(budget, a_large_one)
{
	PG_CLEANUP(pg_budget_freep) struct pg_budget *budget = pg_budget_new(1, 200000);
	bool first;

	for (unsigned int i = 0; i < 200000; i++)
		cr_assert(spend(budget, 0, i, 1, &first));
	cr_expect(!spend(budget, 0, 200000, 1, &first));
}
