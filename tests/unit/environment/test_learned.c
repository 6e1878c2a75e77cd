/* SPDX-License-Identifier: Apache-2.0 */
#include "learned_lab.h"

/* in: seconds from now */
static void add(unsigned int lists, const char *name, size_t number, uint64_t in)
{
	cr_expect_eq(try_add(lists, name, number, now_ns + in * SECOND), 0);
}

static void forget(const char *name)
{
	pg_learned_book_forget(book, owner_of(name));
}

/* Removed, and whether it asked what is in use. */
static int sweep(bool asks)
{
	struct pg_error err = {};
	int removed;

	collected = 0;
	removed = pg_learned_book_sweep(book, collect, NULL, &err);
	cr_expect_eq(collected, asks);
	return removed;
}

/* The expiry in the kernel, in seconds from now; -1: not there. */
static long in_kernel(unsigned int list, size_t number)
{
	const uint64_t expires = tables[list].expires[number];

	return expires ? ((long)expires - (long)now_ns) / (long)SECOND : -1;
}

static bool is_there(unsigned int list, size_t number)
{
	return tables[list].expires[number] != 0;
}

static void pass(uint64_t seconds)
{
	now_ns += seconds * SECOND;
}

Test(learned, expiries_only_move_later)
{
	open_book(10);
	add(1 | 4, "a", 1, 100);
	add(1 | 4, "a", 1, 50);
	cr_expect_eq(in_kernel(0, 1), 100);
	cr_expect_eq(in_kernel(1, 1), -1);
	cr_expect_eq(in_kernel(2, 1), 100);
	add(1, "b", 1, 200);
	add(4, "b", 1, 20);
	cr_expect_eq(in_kernel(0, 1), 200);
	cr_expect_eq(in_kernel(2, 1), 100);
	cr_expect_eq(pg_learned_book_count(book), 1);
	pg_learned_book_free(book);
}

Test(learned, drains_until_it_is_not_in_use)
{
	open_book(10);
	add(1, "a", 1, 100);
	add(1, "a", 2, 100);
	in_use[1] = true;
	cr_expect_eq(sweep(false), 0);
	pass(99);
	cr_expect_eq(sweep(false), 0);
	pass(1);
	cr_expect_eq(sweep(true), 1);
	cr_expect(is_there(0, 1));
	cr_expect_not(is_there(0, 2));
	pass(10);
	cr_expect_eq(sweep(true), 0);
	/* Learned again while it drains. */
	add(1, "b", 1, 30);
	cr_expect_eq(in_kernel(0, 1), 30);
	cr_expect_eq(sweep(false), 0);
	in_use[1] = false;
	pass(31);
	cr_expect_eq(sweep(true), 1);
	cr_expect_eq(pg_learned_book_count(book), 0);
	cr_expect_eq(count_in(&tables[0]), 0);
	pg_learned_book_free(book);
}

Test(learned, a_collection_that_fails_removes_nothing)
{
	open_book(10);
	add(1, "a", 1, 10);
	pass(20);
	collect_error = -EACCES;
	cr_expect_eq(sweep(true), -EACCES);
	cr_expect(is_there(0, 1));
	cr_expect_eq(pg_learned_book_count(book), 1);
	collect_error = 0;
	cr_expect_eq(sweep(true), 1);
	cr_expect_not(is_there(0, 1));
	pg_learned_book_free(book);
}

Test(learned, two_names_hold_an_address)
{
	open_book(10);
	add(1, "a", 1, 100);
	add(1, "b", 1, 50);
	forget("a");
	cr_expect_eq(in_kernel(0, 1), 50);
	cr_expect_eq(sweep(false), 0);
	forget("nobody");
	forget("b");
	cr_expect_eq(tables[0].expires[1], now_ns);
	in_use[1] = true;
	cr_expect_eq(sweep(true), 0);
	in_use[1] = false;
	cr_expect_eq(sweep(true), 1);
	pg_learned_book_free(book);
}

Test(learned, drains_in_one_list_and_lives_in_another)
{
	open_book(10);
	add(1, "a", 1, 10);
	add(2, "b", 1, 100);
	pass(10);
	in_use[1] = true;
	cr_expect_eq(sweep(true), 0);
	cr_expect(is_there(0, 1));
	in_use[1] = false;
	cr_expect_eq(sweep(true), 0);
	cr_expect_not(is_there(0, 1));
	cr_expect_eq(in_kernel(1, 1), 90);
	cr_expect_eq(sweep(false), 0);
	forget("b");
	cr_expect_eq(sweep(true), 1);
	pg_learned_book_free(book);
}

/* After a change of policy: the list that the name has left keeps its own time. */
Test(learned, a_name_whose_lists_change)
{
	open_book(10);
	add(1 | 2, "a", 1, 10);
	add(2, "a", 1, 100);
	cr_expect_eq(in_kernel(0, 1), 10);
	cr_expect_eq(in_kernel(1, 1), 100);
	pass(11);
	cr_expect_eq(sweep(true), 0);
	cr_expect_not(is_there(0, 1));
	cr_expect(is_there(1, 1));
	/* One name twice is not shared. */
	cr_expect_str_eq(told, "");
	forget("a");
	cr_expect_eq(sweep(true), 1);
	pg_learned_book_free(book);
}

Test(learned, expired_and_then_forgotten)
{
	open_book(10);
	add(1, "a", 1, 10);
	pass(20);
	forget("a");
	cr_expect(is_there(0, 1));
	cr_expect_eq(sweep(true), 1);
	pg_learned_book_free(book);
}

Test(learned, for_ever)
{
	open_book(10);
	cr_expect_eq(try_add(1, "a", 1, EVER), 0);
	pass(10000000);
	cr_expect_eq(sweep(false), 0);
	cr_expect_eq(tables[0].expires[1], EVER);
	add(1, "a", 1, 5);
	cr_expect_eq(tables[0].expires[1], EVER);
	forget("a");
	cr_expect_eq(sweep(true), 1);
	pg_learned_book_free(book);
}

Test(learned, far_expiries_and_rare_sweeps)
{
	open_book(20);
	for (size_t i = 0; i < 10; i++)
		add(1, "a", i, i * PG_BOOK_WHEEL_PLACES + 5);
	pass(4);
	cr_expect_eq(sweep(false), 0);
	for (size_t i = 0; i < 3; i++) {
		pass(i ? PG_BOOK_WHEEL_PLACES : 1);
		cr_expect_eq(sweep(true), 1);
		cr_expect_eq(sweep(false), 0);
	}
	pass(20UL * PG_BOOK_WHEEL_PLACES);
	cr_expect_eq(sweep(true), 7);
	cr_expect_eq(pg_learned_book_count(book), 0);
	pg_learned_book_free(book);
}

Test(learned, a_full_book_changes_nothing)
{
	open_book(2);
	add(1, "a", 1, 10);
	add(1, "a", 2, 100);
	cr_expect_eq(try_add(1, "a", 3, now_ns + SECOND), -ENOSPC);
	cr_expect_eq(count_in(&tables[0]), 2);
	/* What is there has room. */
	add(1, "b", 2, 200);
	cr_expect_eq(in_kernel(0, 2), 200);
	in_use[1] = true;
	pass(10);
	cr_expect_eq(sweep(true), 0);
	cr_expect_eq(try_add(1, "a", 3, now_ns + SECOND), -ENOSPC);
	in_use[1] = false;
	cr_expect_eq(sweep(true), 1);
	add(1, "a", 3, 10);
	pg_learned_book_free(book);
}

Test(learned, names_of_an_address_are_bounded)
{
	char name[16];
	size_t names = 0;
	int error = 0;

	open_book(4);
	for (; !error && names < 1000; names++) {
		snprintf(name, sizeof(name), "n%zu", names);
		error = try_add(1, name, 1, now_ns + (names + 1) * SECOND);
	}
	cr_expect_eq(error, -ENOSPC);
	cr_expect_eq(names, 17);
	cr_expect_eq(in_kernel(0, 1), 16);
	/* Expired ones make room though the address lives. */
	pass(3);
	cr_expect_eq(sweep(false), 0);
	cr_expect_eq(try_add(1, name, 1, now_ns + 20 * SECOND), 0);
	pg_learned_book_free(book);
}

Test(learned, a_full_table_is_all_or_nothing)
{
	open_book(10);
	tables[2].room = 1;
	add(4, "a", 1, 10);
	add(2, "a", 2, 10);
	cr_expect_eq(try_add(1 | 2 | 4, "b", 2, now_ns + 100 * SECOND), -ENOSPC);
	cr_expect_eq(in_kernel(1, 2), 10);
	cr_expect_not(is_there(0, 2));
	cr_expect_eq(try_add(1 | 4, "b", 3, now_ns + 100 * SECOND), -ENOSPC);
	cr_expect_not(is_there(0, 3));
	cr_expect_eq(pg_learned_book_count(book), 2);
	/* What has not been taught is not remembered either. */
	cr_expect_str_eq(told, "");
	forget("b");
	cr_expect_eq(sweep(false), 0);
	add(1 | 4, "b", 1, 100);
	pg_learned_book_free(book);
}

Test(learned, a_kernel_that_fails_is_all_or_nothing)
{
	for (unsigned int failing = 1; failing <= 3; failing++) {
		memset(tables, 0, sizeof(tables));
		open_book(10);
		add(2 | 4, "a", 1, 10);
		puts_left = failing;
		cr_expect_eq(try_add(1 | 2 | 4, "a", 1, now_ns + 100 * SECOND), -ENOMEM);
		cr_expect_not(is_there(0, 1));
		cr_expect_eq(in_kernel(1, 1), 10);
		cr_expect_eq(in_kernel(2, 1), 10);
		pass(10);
		cr_expect_eq(sweep(true), 1);
		pg_learned_book_free(book);
	}
}

/* Nor can it be put back: closed, and learned again by the next answer. */
Test(learned, a_kernel_that_fails_twice_stays_closed)
{
	open_book(10);
	add(1 | 2, "a", 1, 10);
	puts_left = 1;
	forget("a");
	cr_expect_not(is_there(0, 1));
	cr_expect_eq(in_kernel(1, 1), 0);
	add(1 | 2, "a", 1, 20);
	cr_expect_eq(in_kernel(0, 1), 20);
	cr_expect_eq(in_kernel(1, 1), 20);
	pg_learned_book_free(book);
}

Test(learned, shared_is_told_once_in_either_order)
{
	open_book(20);
	add(1, "allowed", 1, 100);
	add(1, "allowed", 1, 200);
	cr_expect_str_eq(told, "");
	add(0, "other", 1, 100);
	cr_expect_str_eq(told, "1 allowed other;");
	add(0, "third", 1, 100);
	add(1, "fourth", 1, 100);
	cr_expect_str_eq(told, "1 allowed other;");

	told[0] = '\0';
	add(0, "other", 2, 100);
	add(0, "third", 2, 100);
	add(0, "fourth", 2, 100);
	cr_expect_str_eq(told, "");
	add(2, "allowed", 2, 100);
	add(2, "fourth", 2, 100);
	cr_expect_eq(strncmp(told, "2 allowed ", 10), 0, "%s", told);
	cr_expect_eq(strchr(told, ';'), told + strlen(told) - 1);

	told[0] = '\0';
	add(1, "a", 3, 100);
	add(1, "b", 3, 100);
	cr_expect_str_eq(told, "3 b a;");
	pg_learned_book_free(book);
}

/* Of an entry that has many names, as a wildcard has. */
Test(learned, names_of_one_entry_share)
{
	const uint32_t owner = owner_of("*.example");

	open_book(20);
	for (size_t i = 0; i < 2; i++)
		cr_expect_eq(try_add_as(owner, 1, "a.example", 1, now_ns + 10 * SECOND), 0);
	cr_expect_str_eq(told, "");
	for (size_t i = 0; i < 2; i++)
		cr_expect_eq(try_add_as(owner, 1, "b.example", 1, now_ns + 20 * SECOND), 0);
	cr_expect_str_eq(told, "1 b.example *.example;");
	cr_expect_eq(in_kernel(0, 1), 20);
	cr_expect_eq(book->store.references.live, 1);

	told[0] = '\0';
	cr_expect_eq(try_add_as(owner, 1, "a.example", 2, now_ns + 10 * SECOND), 0);
	add(0, "other", 2, 100);
	cr_expect_str_eq(told, "2 *.example other;");

	/* An address that the one name had and the other has. */
	told[0] = '\0';
	cr_expect_eq(try_add_as(owner, 1, "a.example", 3, now_ns + 10 * SECOND), 0);
	pass(10);
	cr_expect_eq(try_add_as(owner, 1, "b.example", 3, now_ns + 10 * SECOND), 0);
	cr_expect_str_eq(told, "");
	pg_learned_book_free(book);
}

Test(learned, a_quota_leaves_room_to_others)
{
	struct pg_error err = {};
	const struct pg_learned_teacher teacher = {.name = "x.evil",
						   .lists = 1,
						   .owner = owner_of("*.evil")};
	struct pg_addr addr = addr_of(9);

	open_book_of(20, 3);
	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(try_add_as(teacher.owner, 1, "a.evil", i, now_ns + 10 * SECOND), 0);
	cr_expect_eq(pg_learned_book_add(book, &teacher, &addr, now_ns + 10 * SECOND, &err),
		     -EDQUOT);
	cr_expect(strstr(err.text, "*.evil"), "%s", err.text);
	cr_expect_not(is_there(0, 9));
	/* What it has it may prolong, by any name; others have room, for the same address too. */
	cr_expect_eq(try_add_as(teacher.owner, 1, "b.evil", 2, now_ns + 20 * SECOND), 0);
	add(1, "good", 9, 10);
	add(1, "good", 0, 10);
	/* Only what is swept does not count. */
	pass(10);
	cr_expect_eq(try_add_as(teacher.owner, 1, "x.evil", 10, now_ns + 10 * SECOND), -EDQUOT);
	in_use[0] = true;
	cr_expect_eq(sweep(true), 2);
	for (size_t i = 10; i < 12; i++)
		cr_expect_eq(try_add_as(teacher.owner, 1, "x.evil", i, now_ns + 9 * SECOND), 0);
	cr_expect_eq(try_add_as(teacher.owner, 1, "x.evil", 12, now_ns + 9 * SECOND), -EDQUOT);
	pg_learned_book_forget(book, teacher.owner);
	for (size_t i = 20; i < 23; i++)
		cr_expect_eq(try_add_as(teacher.owner, 1, "x.evil", i, now_ns + 9 * SECOND), 0);
	cr_expect_eq(try_add_as(OWNERS, 1, "nobody", 1, now_ns + SECOND), -EINVAL);
	cr_expect_eq(try_add_as(OWNERS, 0, "nobody", 1, now_ns + SECOND), 0);
	pg_learned_book_free(book);
}

/* An address that has changed hands is not shared. */
Test(learned, shared_is_not_told_of_what_has_expired)
{
	open_book(20);
	add(1, "a", 1, 10);
	add(0, "b", 2, 10);
	pass(10);
	add(0, "c", 1, 10);
	add(1, "c", 2, 10);
	cr_expect_str_eq(told, "");
	pg_learned_book_free(book);
}

Test(learned, what_is_only_seen_makes_room)
{
	open_book(4);
	for (size_t i = 0; i < 10; i++)
		add(0, "seen", i, 100);
	cr_expect_eq(pg_learned_book_count(book), 4);
	add(0, "seen", 6, 100);
	for (size_t i = 20; i < 23; i++)
		add(1, "real", i, 100);
	cr_expect_eq(pg_learned_book_count(book), 4);
	/* The latest is still there. */
	add(1, "real", 6, 100);
	cr_expect_str_eq(told, "6 real seen;");
	add(0, "seen", 30, 100);
	cr_expect_eq(pg_learned_book_count(book), 4);
	cr_expect_eq(count_in(&tables[0]), 4);
	cr_expect_eq(try_add(1, "real", 24, now_ns + SECOND), -ENOSPC);
	pg_learned_book_free(book);
}

Test(learned, what_is_only_seen_expires_without_a_question)
{
	open_book(10);
	add(0, "a", 1, 10);
	add(0, "b", 1, 20);
	add(0, "a", 2, 10);
	pass(10);
	cr_expect_eq(sweep(false), 0);
	pass(10);
	cr_expect_eq(sweep(false), 2);
	add(0, "a", 3, 10);
	pass(10);
	cr_expect_eq(sweep(false), 1);
	cr_expect_eq(pg_learned_book_count(book), 0);
	cr_expect_eq(book->store.names.live, 0);
	cr_expect_eq(count_in(&tables[0]), 0);
	pg_learned_book_free(book);
}

Test(learned, lists_without_names)
{
	struct pg_learned_book *none = NULL;
	const struct pg_learned_options options = {.list_count = PG_NAME_LISTS_MAX + 1,
						   .capacity = 1};

	open_book(10);
	cr_expect_eq(try_add(16 | 1, "a", 1, now_ns + SECOND), -EINVAL);
	cr_expect_eq(pg_learned_book_count(book), 0);
	add(8, "a", 1, 10);
	add(8 | 1, "a", 2, 10);
	cr_expect_not(is_there(0, 1));
	cr_expect_eq(in_kernel(0, 2), 10);
	pg_learned_book_free(book);
	cr_expect_eq(pg_learned_book_new_in(&world, &options, &none, NULL), -EINVAL);
	pg_learned_book_free(NULL);
}
