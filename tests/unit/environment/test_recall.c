/* SPDX-License-Identifier: Apache-2.0 */
/* A book that begins with the kernel's tables, and one that goes on in another. */
#include "learned_lab.h"

static char visited[256];

/* The owner of what was there before the book; not one that a name has. */
#define UNKNOWN (OWNERS - 1)

static int note(void *userdata, uint32_t owner, uint32_t lists, const struct pg_addr *addr,
		uint64_t expires)
{
	const size_t used = strlen(visited);

	snprintf(visited + used, sizeof(visited) - used, "%s %x %zu %ld;", owner_texts[owner],
		 lists, number_of(addr), ((long)expires - (long)now_ns) / (long)SECOND);
	return 0;
}

static void recall(unsigned int list, size_t number, uint64_t expires)
{
	const struct pg_addr addr = addr_of(number);

	cr_expect_eq(pg_learned_book_recall(book, list, UNKNOWN, &addr, expires, NULL), 0);
}

Test(recall, what_was_there_runs_out_by_itself)
{
	open_book(10);
	recall(0, 1, now_ns + 100 * SECOND);
	recall(2, 1, now_ns + 200 * SECOND);
	recall(0, 2, EVER);
	cr_expect_eq(pg_learned_book_count(book), 2);
	now_ns += 150 * SECOND;
	cr_expect_eq(pg_learned_book_sweep(book, collect, NULL, NULL), 0);
	cr_expect_eq(tables[0].expires[1], 0);
	cr_expect_neq(tables[2].expires[1], 0);
	now_ns += 100 * SECOND;
	cr_expect_eq(pg_learned_book_sweep(book, collect, NULL, NULL), 1);
	cr_expect_eq(tables[2].expires[1], 0);
	cr_expect_eq(tables[0].expires[2], EVER);
	pg_learned_book_free(book);
}

/* It drains, like before. */
Test(recall, what_has_expired_goes_when_nobody_uses_it)
{
	open_book(10);
	tables[0].expires[1] = now_ns - SECOND;
	recall(0, 1, now_ns - SECOND);
	cr_expect_leq(tables[0].expires[1], now_ns);
	in_use[1] = true;
	now_ns += SECOND;
	cr_expect_eq(pg_learned_book_sweep(book, collect, NULL, NULL), 0);
	cr_expect_neq(tables[0].expires[1], 0);
	in_use[1] = false;
	cr_expect_eq(pg_learned_book_sweep(book, collect, NULL, NULL), 1);
	cr_expect_eq(tables[0].expires[1], 0);
	pg_learned_book_free(book);
}

/* The name that teaches it again is no second one. */
Test(recall, is_not_shared_with_who_taught_it)
{
	open_book(10);
	recall(0, 1, now_ns + 100 * SECOND);
	cr_expect_eq(try_add(1, "a", 1, now_ns + 300 * SECOND), 0);
	cr_expect_str_eq(told, "");
	cr_expect_eq(tables[0].expires[1], now_ns + 300 * SECOND);
	pg_learned_book_free(book);
}

Test(recall, visits_what_names_have_taught)
{
	open_book(10);
	cr_expect_eq(try_add(1, "a", 1, now_ns + 100 * SECOND), 0);
	cr_expect_eq(try_add(0, "only-seen", 2, now_ns + 100 * SECOND), 0);
	cr_expect_eq(try_add(1, "gone", 3, now_ns + SECOND), 0);
	recall(0, 4, now_ns + 100 * SECOND);
	recall(2, 4, now_ns + 100 * SECOND);
	now_ns += 50 * SECOND;
	cr_expect_eq(pg_learned_book_visit(book, note, NULL), 0);
	cr_expect_str_eq(visited, "a 1 1 50; 4 4 50; 1 4 50;");
	pg_learned_book_free(book);
}
