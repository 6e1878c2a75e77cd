/* SPDX-License-Identifier: Apache-2.0 */
/* Which entry a name belongs to, and what it may have. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment/dns.h"

#define WILDCARD_QUOTA 65536
#define HOST_QUOTA     1024

static char names[40000][32];
static struct pg_entry items[PG_ARRAY_SIZE(names)];
static struct pg_name_index *indexed;
static uint32_t *quotas;

static void open_index(const struct pg_entries *const *lists, size_t count, size_t max)
{
	struct pg_error err = {};

	cr_assert_eq(pg_name_index_new(lists, count, &indexed, &err), 0, "%s", err.text);
	quotas = pg_quota_make(indexed, max);
	cr_assert(quotas);
}

static void close_index(void)
{
	free(quotas);
	pg_name_index_free(indexed);
}

/* Policies of hosts and wildcards in one list. */
static void open_mixed(size_t hosts, size_t wildcards, size_t max)
{
	const struct pg_entries entries = {.count = hosts + wildcards, .items = items};
	const struct pg_entries *lists[] = {&entries};

	for (size_t i = 0; i < hosts + wildcards; i++) {
		snprintf(names[i], sizeof(names[i]), "n%zu.test", i);
		items[i] = (struct pg_entry){.kind = i < hosts ? PG_ENTRY_HOST : PG_ENTRY_WILDCARD,
					     .name = names[i]};
	}
	open_index(lists, 1, max);
}

static void expect(size_t hosts, size_t wildcards, size_t max, uint32_t host, uint32_t wildcard,
		   size_t capacity)
{
	open_mixed(hosts, wildcards, max);
	cr_expect_eq(pg_quota_owners(indexed), hosts + wildcards);
	for (size_t i = 0; i < hosts + wildcards; i++)
		cr_assert_eq(quotas[i], i < hosts ? host : wildcard, "%zu: %u", i, quotas[i]);
	cr_expect_eq(pg_quota_capacity(indexed, quotas, 0, max), capacity, "%zu",
		     pg_quota_capacity(indexed, quotas, 0, max));
	close_index();
}

Test(dns_quota, a_share_for_each_entry)
{
	const size_t max = PG_LEARNED_MAX;

	expect(1, 0, max, HOST_QUOTA, 0, HOST_QUOTA);
	expect(3, 1, max, HOST_QUOTA, WILDCARD_QUOTA, 3 * HOST_QUOTA + WILDCARD_QUOTA);
	expect(1024, 0, max, HOST_QUOTA, 0, max);
	expect(2048, 0, max, 512, 0, max);
	expect(16384, 0, max, 64, 0, max);
	/* More than there is room for: none has so little that a usual answer has no room. */
	expect(40000, 0, max, 64, 0, max);
	expect(0, 16, max, 0, WILDCARD_QUOTA, max);
	expect(0, 32, max, 0, WILDCARD_QUOTA / 2, max);
	/* A setting that is smaller. */
	expect(1, 1, 20, 1, 19, 20);
	expect(6, 0, 100, 16, 0, 96);
	expect(10, 0, 4, 1, 0, 4);
}

Test(dns_quota, owners_of_names)
{
	char texts[][16] = {"test", "localhost", "a.test", "x.a.test"};
	struct pg_entry wide[] = {{.kind = PG_ENTRY_WILDCARD, .name = texts[0]},
				  {.kind = PG_ENTRY_HOST, .name = texts[1]}};
	struct pg_entry narrow[] = {{.kind = PG_ENTRY_WILDCARD, .name = texts[2]},
				    {.kind = PG_ENTRY_HOST, .name = texts[3]}};
	const struct pg_entries wide_list = {.count = 2, .items = wide};
	const struct pg_entries narrow_list = {.count = 2, .items = narrow};
	const struct pg_entries *lists[] = {&wide_list, &narrow_list};
	static const struct {
		const char *name;
		const char *owner; /* NULL: none */
		unsigned int lists;
	} cases[] = {
		{"x.a.test", "x.a.test", 3},
		{"y.a.test", "*.a.test", 3},
		{"y.x.a.test", "*.a.test", 3},
		{"a.test", "*.test", 1},
		{"test", NULL, 0},
		{"localhost", NULL, 0},
	};
	char text[PG_OWNER_TEXT];

	open_index(lists, 2, PG_LEARNED_MAX);
	for (size_t i = 0; i < PG_ARRAY_SIZE(cases); i++) {
		const struct pg_learned_teacher teacher = pg_quota_teacher(indexed, cases[i].name);

		cr_expect_eq(teacher.lists, cases[i].lists, "%s", cases[i].name);
		cr_expect_str_eq(teacher.name, cases[i].name);
		if (cases[i].owner)
			cr_expect_str_eq(pg_quota_text(indexed, teacher.owner, text),
					 cases[i].owner);
		else
			cr_expect_eq(teacher.owner, PG_OWNER_NONE);
	}
	/* The wide list has the names of the narrow one's entries as well, and room for them. */
	cr_expect_eq(pg_quota_capacity(indexed, quotas, 0, PG_LEARNED_MAX),
		     2 * WILDCARD_QUOTA + HOST_QUOTA);
	cr_expect_eq(pg_quota_capacity(indexed, quotas, 1, PG_LEARNED_MAX),
		     WILDCARD_QUOTA + HOST_QUOTA);
	close_index();
}
