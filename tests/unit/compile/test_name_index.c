/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/name_index.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define HOST(text) \
	{ \
		.kind = PG_ENTRY_HOST, .name = (char[]) \
		{ \
			text \
		} \
	}
#define WILDCARD(text) \
	{ \
		.kind = PG_ENTRY_WILDCARD, .name = (char[]) \
		{ \
			text \
		} \
	}
#define ADDRESS \
	{ \
		.kind = PG_ENTRY_IP4, .prefix = {.length = 32, .v4 = true } \
	}

#define LIST(...) \
	{ \
		.count = PG_ARRAY_SIZE(((struct pg_entry[]){__VA_ARGS__})), \
		.items = (struct pg_entry[]) \
		{ \
			__VA_ARGS__ \
		} \
	}

static struct pg_name_index *make(const struct pg_entries *const *lists, size_t count)
{
	struct pg_name_index *index = NULL;
	struct pg_error err = {};

	cr_assert_eq(pg_name_index_new(lists, count, &index, &err), 0, "%s", err.text);
	return index;
}

static void expect(const struct pg_name_index *index, const char *name, unsigned int lists,
		   unsigned int by_host, const char *wildcard)
{
	const struct pg_name_match match = pg_name_index_find(index, name);

	cr_expect_eq(match.lists, lists, "%s: %#x", name, match.lists);
	cr_expect_eq(match.by_host, by_host, "%s: %#x", name, match.by_host);
	cr_expect_eq(match.wildcard != 0, wildcard != NULL, "%s", name);
	cr_expect_eq(match.host != 0, match.by_host && strcmp(name, "localhost") != 0, "%s", name);
	if (match.host)
		cr_expect_str_eq(pg_name_index_host(index, match.host - 1), name);
	if (match.wildcard && wildcard)
		cr_expect_str_eq(pg_name_index_wildcard(index, match.wildcard - 1), wildcard);
}

Test(name_index, nothing)
{
	const struct pg_entries empty = {}, *lists[] = {&empty, NULL};
	struct pg_name_index *index = make(NULL, 0);

	expect(index, "github.test", 0, 0, NULL);
	pg_name_index_free(index);
	index = make(lists, 2);
	expect(index, "github.test", 0, 0, NULL);
	expect(index, "", 0, 0, NULL);
	cr_expect_eq(pg_name_index_hosts(index), 0);
	cr_expect_eq(pg_name_index_wildcards(index), 0);
	pg_name_index_free(index);
	pg_name_index_free(NULL);
}

Test(name_index, too_many_lists)
{
	const struct pg_entries *lists[PG_NAME_LISTS_MAX + 1] = {0};
	struct pg_name_index *index = NULL;

	cr_expect_eq(pg_name_index_new(lists, PG_ARRAY_SIZE(lists), &index, NULL), -EINVAL);
	cr_expect_null(index);
}

Test(name_index, labels_are_whole)
{
	const struct pg_entries host = LIST(HOST("github.test"), ADDRESS);
	const struct pg_entries below = LIST(ADDRESS, WILDCARD("github.test"));
	const struct pg_entries *lists[] = {&host, &below};
	struct pg_name_index *index = make(lists, 2);

	expect(index, "github.test", 1, 1, NULL);
	expect(index, "a.github.test", 2, 0, "github.test");
	expect(index, "a.b.github.test", 2, 0, "github.test");
	expect(index, "notgithub.test", 0, 0, NULL);
	expect(index, "github.test.evil.test", 0, 0, NULL);
	expect(index, "a.github.test.evil.test", 0, 0, NULL);
	expect(index, "github-test", 0, 0, NULL);
	expect(index, "test", 0, 0, NULL);
	expect(index, "ithub.test", 0, 0, NULL);
	expect(index, "*.github.test", 2, 0, "github.test");
	/* Not names. */
	expect(index, ".github.test", 0, 0, NULL);
	expect(index, "a..github.test", 0, 0, NULL);
	expect(index, "github.test.", 0, 0, NULL);
	expect(index, ".", 0, 0, NULL);
	pg_name_index_free(index);
}

Test(name_index, one_list_of_several)
{
	const struct pg_entries setup = LIST(WILDCARD("a.example.test"), HOST("b.example.test"));
	const struct pg_entries run = LIST(WILDCARD("example.test"));
	const struct pg_entries *lists[] = {&setup, &run};
	struct pg_name_index *index = make(lists, 2);
	struct pg_name_match match = pg_name_index_find_in(index, 2, "x.a.example.test");

	cr_expect_eq(match.lists, 2);
	cr_assert_neq(match.wildcard, 0);
	cr_expect_str_eq(pg_name_index_wildcard(index, match.wildcard - 1), "example.test");
	match = pg_name_index_find_in(index, 2, "b.example.test");
	cr_expect_eq(match.lists, 2);
	cr_expect_eq(match.by_host, 0);
	cr_expect_eq(match.host, 0);
	match = pg_name_index_find_in(index, 1, "c.example.test");
	cr_expect_eq(match.lists, 0);
	cr_expect_eq(match.wildcard, 0);
	pg_name_index_free(index);
}

Test(name_index, the_longest_wildcard_and_all_lists)
{
	const struct pg_entries wide = LIST(WILDCARD("test"));
	const struct pg_entries narrow =
		LIST(WILDCARD("b.c.test"), HOST("c.test"), WILDCARD("c.test"));
	const struct pg_entries host = LIST(HOST("a.b.c.test"), HOST("c.test"));
	const struct pg_entries *lists[] = {&wide, &narrow, NULL, &host, &wide};
	struct pg_name_index *index = make(lists, 5);

	expect(index, "a.b.c.test", 1 | 2 | 8 | 16, 8, "b.c.test");
	expect(index, "x.b.c.test", 1 | 2 | 16, 0, "b.c.test");
	expect(index, "b.c.test", 1 | 2 | 16, 0, "c.test");
	expect(index, "c.test", 1 | 2 | 8 | 16, 2 | 8, "test");
	expect(index, "test", 0, 0, NULL);
	cr_expect_eq(pg_name_index_wildcards(index), 3);
	cr_expect_eq(pg_name_index_hosts(index), 2);
	pg_name_index_free(index);
}

Test(name_index, hosts_are_listed_once_and_without_localhost)
{
	const struct pg_entries a = LIST(HOST("localhost"), HOST("a.test"), WILDCARD("w.test"));
	const struct pg_entries b = LIST(HOST("a.test"), HOST("b.test"), WILDCARD("a.test"));
	const struct pg_entries *lists[] = {&a, &b, &a};
	struct pg_name_index *index = make(lists, 3);
	unsigned int seen[2] = {0};

	cr_assert_eq(pg_name_index_hosts(index), 2);
	for (size_t i = 0; i < 2; i++) {
		const char *name = pg_name_index_host(index, i);

		cr_assert(!strcmp(name, "a.test") || !strcmp(name, "b.test"), "%s", name);
		seen[name[0] - 'a']++;
	}
	cr_expect(seen[0] == 1 && seen[1] == 1);
	expect(index, "localhost", 5, 5, NULL);
	pg_name_index_free(index);
}

/* The whole of a name of the greatest length, with as many labels as there can be. */
Test(name_index, longest_names)
{
	char name[254];
	struct pg_entry items[] = {{.kind = PG_ENTRY_WILDCARD, .name = name + 2},
				   {.kind = PG_ENTRY_HOST, .name = name}};
	const struct pg_entries entries = {.count = 2, .items = items}, *lists[] = {&entries};
	struct pg_name_index *index;

	for (size_t i = 0; i < sizeof(name) - 1; i++)
		name[i] = i % 2 ? '.' : 'a';
	name[sizeof(name) - 1] = '\0';
	index = make(lists, 1);
	expect(index, name, 1, 1, name + 2);
	expect(index, name + 2, 0, 0, NULL);
	pg_name_index_free(index);
}

static uint32_t random_below(uint32_t *state, uint32_t limit)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % limit;
}

/* Few labels, so that names meet, and labels that begin or end alike. */
static void random_name(uint32_t *state, char ret_name[64])
{
	static const char *const labels[] = {"a", "b", "aa", "ab", "ba", "a-a"};
	const uint32_t count = 1 + random_below(state, 4);

	ret_name[0] = '\0';
	for (uint32_t i = 0; i < count; i++) {
		if (i)
			strcat(ret_name, ".");
		strcat(ret_name, labels[random_below(state, PG_ARRAY_SIZE(labels))]);
	}
}

/* The definition, by the text alone. */
static bool matches(const struct pg_entry *entry, const char *name)
{
	const size_t size = strlen(name),
		     suffix = entry->kind <= PG_ENTRY_WILDCARD ? strlen(entry->name) : 0;

	if (entry->kind == PG_ENTRY_HOST)
		return !strcmp(entry->name, name);
	return entry->kind == PG_ENTRY_WILDCARD && size > suffix + 1 &&
	       name[size - suffix - 1] == '.' && !strcmp(name + size - suffix, entry->name);
}

static void compare(const struct pg_name_index *index, const struct pg_entries *const *lists,
		    size_t count, const char *name)
{
	unsigned int any = 0, by_host = 0;
	const char *longest = NULL;

	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < lists[i]->count; j++) {
			const struct pg_entry *entry = &lists[i]->items[j];

			if (!matches(entry, name))
				continue;
			any |= 1U << i;
			if (entry->kind == PG_ENTRY_HOST)
				by_host |= 1U << i;
			else if (!longest || strlen(entry->name) > strlen(longest))
				longest = entry->name;
		}
	}
	expect(index, name, any, by_host, longest);
}

Test(name_index, random_against_the_definition)
{
	enum {
		LISTS = 4,
		ENTRIES = 40
	};
	static struct pg_entry items[LISTS][ENTRIES];
	static char texts[LISTS][ENTRIES][64];
	uint32_t state = 3;

	for (unsigned int round = 0; round < 60; round++) {
		struct pg_entries entries[LISTS];
		const struct pg_entries *lists[LISTS];
		struct pg_name_index *index;
		char name[64];

		for (size_t i = 0; i < LISTS; i++) {
			for (size_t j = 0; j < ENTRIES; j++) {
				random_name(&state, texts[i][j]);
				items[i][j] = (struct pg_entry){.kind = random_below(&state, 3)
										? PG_ENTRY_HOST
										: PG_ENTRY_WILDCARD,
								.name = texts[i][j]};
				if (!random_below(&state, 8))
					items[i][j] = (struct pg_entry)ADDRESS;
			}
			entries[i] = (struct pg_entries){.count = random_below(&state, ENTRIES + 1),
							 .items = items[i]};
			lists[i] = &entries[i];
		}
		index = make(lists, LISTS);
		for (unsigned int i = 0; i < 300; i++) {
			random_name(&state, name);
			compare(index, lists, LISTS, name);
		}
		pg_name_index_free(index);
	}
}

/* Whatever else runs on the machine. */
static uint64_t cpu_ns(void)
{
	return pg_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static uint64_t time_lookups(const struct pg_name_index *index, size_t range)
{
	const uint64_t start = cpu_ns();
	char name[64];

	for (size_t i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "x.n%zu.example.com", i * 7919 % range);
		(void)pg_name_index_find(index, name);
	}
	return (cpu_ns() - start) / 100000;
}

Test(name_index, a_million_entries)
{
	enum {
		COUNT = 1000000
	};
	struct pg_entry *items = calloc(COUNT, sizeof(*items));
	char(*texts)[24] = calloc(COUNT, sizeof(*texts));
	struct pg_entries entries = {.items = items};
	const struct pg_entries *lists[] = {&entries};
	struct pg_name_index *index;
	uint64_t start, few, many;

	cr_assert(items && texts);
	for (size_t i = 0; i < COUNT; i++) {
		snprintf(texts[i], sizeof(texts[i]), "n%zu.example.com", i);
		items[i] = (struct pg_entry){.kind = i % 3 ? PG_ENTRY_HOST : PG_ENTRY_WILDCARD,
					     .name = texts[i]};
		if (i % 5 == 4)
			items[i] = (struct pg_entry)ADDRESS;
	}
	entries.count = 10;
	index = make(lists, 1);
	few = time_lookups(index, COUNT);
	pg_name_index_free(index);

	entries.count = COUNT;
	start = cpu_ns();
	index = make(lists, 1);
	printf("%d entries: %llu ms to build, ", COUNT,
	       (unsigned long long)((cpu_ns() - start) / PG_NSEC_PER_MSEC));
	many = time_lookups(index, COUNT);
	printf("%llu ns a lookup, of 10 entries %llu ns\n", (unsigned long long)many,
	       (unsigned long long)few);
	/* Caches make a difference; the number of entries must make no other. */
	cr_expect_lt(many, 10 * few + 5000);
	for (size_t i = 0; i < COUNT; i += 997) {
		if (items[i].kind == PG_ENTRY_HOST) {
			expect(index, texts[i], 1, 1, NULL);
		} else if (items[i].kind == PG_ENTRY_WILDCARD) {
			char name[64];

			snprintf(name, sizeof(name), "a.b.%s", texts[i]);
			expect(index, name, 1, 0, texts[i]);
		} else {
			expect(index, texts[i], 0, 0, NULL);
		}
	}
	pg_name_index_free(index);
	free(items);
	free(texts);
}
