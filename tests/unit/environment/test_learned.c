/* SPDX-License-Identifier: Apache-2.0 */
#include "environment/learned.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "environment/learned_book.h"

#define SECOND PG_NSEC_PER_SEC
#define LISTS  3
#define ROOM   64
#define EVER   UINT64_MAX

/* The kernel's tables as they are here: the address is its last word. */
struct table {
	struct pg_kernel_learned handle; /* first: what the book holds */
	uint64_t expires[ROOM];		 /* 0: not there */
	size_t room;
};

static struct table tables[LISTS];
static uint64_t now_ns;
static unsigned int puts_left; /* until one fails */
static char told[256];
static struct pg_learned_book *book;
static bool in_use[ROOM];
static unsigned int collected;
static int collect_error;

static uint64_t now(void)
{
	return now_ns;
}

static size_t number_of(const struct pg_addr *addr)
{
	return ntohl(pg_addr_to_v4(addr)) & 0xffff;
}

static struct pg_addr addr_of(size_t number)
{
	return pg_addr_from_v4(htonl(0xc6120000U | (uint32_t)number));
}

static size_t count_in(const struct table *table)
{
	size_t count = 0;

	for (size_t i = 0; i < ROOM; i++)
		count += table->expires[i] != 0;
	return count;
}

static int put(const struct pg_kernel_learned *learned, const struct pg_addr *addr,
	       uint64_t expires, struct pg_error *err)
{
	struct table *table = &tables[learned->slot];
	const size_t number = number_of(addr);

	if (puts_left && !--puts_left)
		return pg_fail(err, -ENOMEM, "the put that fails");
	if (!table->expires[number] && count_in(table) == table->room)
		return pg_fail(err, -E2BIG, "table %u is full", learned->slot);
	table->expires[number] = expires;
	return 0;
}

static void take_out(const struct pg_kernel_learned *learned, const struct pg_addr *addr)
{
	tables[learned->slot].expires[number_of(addr)] = 0;
}

static void note_shared(void *userdata, const struct pg_addr *addr, const char *name,
			const char *other)
{
	size_t used = strlen(told);

	snprintf(told + used, sizeof(told) - used, "%zu %s %s;", number_of(addr), name, other);
}

static const struct pg_learned_world world = {.now = now, .put = put, .remove = take_out};

static void open_book(size_t capacity)
{
	static struct pg_kernel_learned *lists[LISTS + 1];
	const struct pg_learned_options options = {.lists = lists,
						   .list_count = LISTS + 1,
						   .capacity = capacity,
						   .shared = note_shared};

	now_ns = 1000 * SECOND + 7;
	for (uint32_t i = 0; i < LISTS; i++) {
		tables[i].handle.slot = i;
		tables[i].room = ROOM;
		lists[i] = &tables[i].handle;
	}
	cr_assert_eq(pg_learned_book_new_in(&world, &options, &book, NULL), 0);
}

static int try_add(unsigned int lists, const char *name, size_t number, uint64_t expires)
{
	const struct pg_addr addr = addr_of(number);
	struct pg_error err = {};
	int error = pg_learned_book_add(book, lists, name, &addr, expires, &err);

	cr_expect_eq(error, err.number);
	cr_expect_eq(error != 0, err.text[0] != '\0');
	return error;
}

/* in: seconds from now */
static void add(unsigned int lists, const char *name, size_t number, uint64_t in)
{
	cr_expect_eq(try_add(lists, name, number, now_ns + in * SECOND), 0);
}

static int collect(void *userdata, pg_learned_use use, void *context, struct pg_error *err)
{
	const struct pg_addr stranger = addr_of(0xffff);

	collected++;
	cr_expect_eq(use(context, &stranger), 0);
	for (size_t i = 0; i < ROOM; i++) {
		const struct pg_addr addr = addr_of(i);

		if (in_use[i])
			cr_expect_eq(use(context, &addr), 0);
	}
	return collect_error ? pg_fail(err, collect_error, "cannot tell") : 0;
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
	pg_learned_book_forget(book, "a");
	cr_expect_eq(in_kernel(0, 1), 50);
	cr_expect_eq(sweep(false), 0);
	pg_learned_book_forget(book, "nobody");
	pg_learned_book_forget(book, "b");
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
	pg_learned_book_forget(book, "b");
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
	pg_learned_book_forget(book, "a");
	cr_expect_eq(sweep(true), 1);
	pg_learned_book_free(book);
}

Test(learned, expired_and_then_forgotten)
{
	open_book(10);
	add(1, "a", 1, 10);
	pass(20);
	pg_learned_book_forget(book, "a");
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
	pg_learned_book_forget(book, "a");
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
	pg_learned_book_forget(book, "b");
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
	pg_learned_book_forget(book, "a");
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
	pg_learned_book_forget(book, "a");
	cr_expect_eq(pg_learned_book_count(book), 0);
	cr_expect_eq(count_in(&tables[0]), 0);
	pg_learned_book_free(book);
}

Test(learned, lists_without_names)
{
	struct pg_learned_book *none = NULL;
	const struct pg_learned_options options = {.list_count = PG_NAME_LISTS_MAX + 1,
						   .capacity = 1};

	open_book(10);
	cr_expect_eq(try_add(8, "a", 1, now_ns + SECOND), -EINVAL);
	cr_expect_eq(try_add(16 | 1, "a", 1, now_ns + SECOND), -EINVAL);
	cr_expect_eq(pg_learned_book_count(book), 0);
	pg_learned_book_free(book);
	cr_expect_eq(pg_learned_book_new_in(&world, &options, &none, NULL), -EINVAL);
	pg_learned_book_free(NULL);
}

/*
 * Against a model that keeps references in an array and looks at all of them. Only with lists:
 * what else there is has no effect on these, as long as the book is not full.
 */
struct model_reference {
	char name[2];
	unsigned int lists;
	size_t number;
	uint64_t expires;
};

static struct model_reference model[4 * ROOM];
static size_t model_count;
static uint64_t model_tables[LISTS][ROOM];

static uint32_t random_below(uint32_t limit)
{
	static uint32_t state = 5;

	state = state * 1664525 + 1013904223;
	return (state >> 8) % limit;
}

static size_t model_addresses(void)
{
	size_t count = 0;

	for (size_t i = 0; i < ROOM; i++)
		count += model_tables[0][i] || model_tables[1][i] || model_tables[2][i];
	return count;
}

static int model_add(struct model_reference new, size_t capacity)
{
	struct model_reference *same = NULL;
	bool known = false;

	for (size_t i = 0; i < model_count; i++)
		if (model[i].number == new.number && model[i].lists == new.lists &&
		    !strcmp(model[i].name, new.name))
			same = &model[i];
	for (size_t list = 0; list < LISTS; list++)
		known |= model_tables[list][new.number] != 0;
	if (!same && ((!known && model_addresses() == capacity) || model_count == 4 * capacity))
		return -ENOSPC;
	for (size_t list = 0; list < LISTS; list++)
		if (new.lists & 1U << list && model_tables[list][new.number] < new.expires)
			model_tables[list][new.number] = new.expires;
	if (!same)
		model[model_count++] = new;
	else if (same->expires < new.expires)
		same->expires = new.expires;
	return 0;
}

static void model_forget(const char *name)
{
	struct model_reference gone[PG_ARRAY_SIZE(model)];
	size_t gone_count = 0, kept = 0;

	for (size_t i = 0; i < model_count; i++)
		if (!strcmp(model[i].name, name))
			gone[gone_count++] = model[i];
		else
			model[kept++] = model[i];
	model_count = kept;
	for (size_t i = 0; i < gone_count; i++) {
		for (size_t list = 0; list < LISTS; list++) {
			uint64_t *expires = &model_tables[list][gone[i].number], held = now_ns;

			if (!(gone[i].lists & 1U << list) || *expires <= now_ns)
				continue;
			for (size_t j = 0; j < model_count; j++)
				if (model[j].number == gone[i].number &&
				    model[j].lists & 1U << list && model[j].expires > held)
					held = model[j].expires;
			*expires = held;
		}
	}
}

static int model_sweep(void)
{
	const size_t before = model_addresses();
	size_t kept = 0;

	for (size_t i = 0; i < model_count; i++)
		if (model[i].expires > now_ns)
			model[kept++] = model[i];
	model_count = kept;
	for (size_t list = 0; list < LISTS; list++)
		for (size_t i = 0; i < ROOM; i++)
			if (model_tables[list][i] <= now_ns && !in_use[i])
				model_tables[list][i] = 0;
	return (int)(before - model_addresses());
}

static void random_step(size_t capacity)
{
	struct model_reference new = {.name = {(char)('a' + random_below(8))},
				      .lists = 1 + random_below(7),
				      .number = random_below(ROOM),
				      .expires = now_ns + random_below(100) * SECOND / 3 + 1};
	struct pg_error err = {};

	switch (random_below(10)) {
	case 0:
		now_ns += random_below(40) * SECOND / 7;
		break;
	case 1:
		now_ns += random_below(20) ? 0 : PG_BOOK_WHEEL_PLACES * SECOND;
		model_forget(new.name);
		pg_learned_book_forget(book, new.name);
		break;
	case 2:
		in_use[new.number] = random_below(2);
		break;
	case 3:
		cr_assert_eq(pg_learned_book_sweep(book, collect, NULL, &err), model_sweep());
		break;
	default:
		if (!random_below(30))
			new.expires = EVER;
		cr_assert_eq(try_add(new.lists, new.name, new.number, new.expires),
			     model_add(new, capacity));
		break;
	}
}

Test(learned, random_against_a_model)
{
	for (size_t capacity = 8; capacity <= ROOM; capacity *= 2) {
		memset(tables, 0, sizeof(tables));
		memset(model_tables, 0, sizeof(model_tables));
		model_count = 0;
		open_book(capacity);
		for (size_t step = 0; step < 20000; step++) {
			random_step(capacity);
			for (size_t list = 0; list < LISTS; list++)
				cr_assert_arr_eq(tables[list].expires, model_tables[list],
						 sizeof(model_tables[list]), "step %zu", step);
			cr_assert_eq(pg_learned_book_count(book), model_addresses());
			cr_assert_eq(book->store.references.live, model_count);
		}
		pg_learned_book_free(book);
	}
}

static int put_nowhere(const struct pg_kernel_learned *learned, const struct pg_addr *addr,
		       uint64_t expires, struct pg_error *err)
{
	return 0;
}

static void take_out_nowhere(const struct pg_kernel_learned *learned, const struct pg_addr *addr)
{
}

static int collect_nothing(void *userdata, pg_learned_use use, void *context, struct pg_error *err)
{
	return 0;
}

Test(learned, a_million_addresses)
{
	enum {
		COUNT = 1 << 20
	};
	const struct pg_learned_world nowhere = {.now = now,
						 .put = put_nowhere,
						 .remove = take_out_nowhere};
	struct pg_kernel_learned handle = {}, *lists[] = {&handle};
	const struct pg_learned_options options = {.lists = lists,
						   .list_count = 1,
						   .capacity = COUNT};
	uint64_t start = pg_monotonic_ns(), adding, slowest = 0;
	struct pg_addr addr = addr_of(0);

	now_ns = SECOND;
	cr_assert_eq(pg_learned_book_new_in(&nowhere, &options, &book, NULL), 0);
	for (uint32_t i = 0; i < COUNT; i++) {
		char name[32];

		addr.word[3] = htonl(i);
		snprintf(name, sizeof(name), "n%u.example.com", i % 1000);
		cr_assert_eq(pg_learned_book_add(book, 1, name, &addr,
						 now_ns + (1000 + i % 3600) * SECOND, NULL),
			     0);
	}
	adding = (pg_monotonic_ns() - start) / COUNT;
	for (size_t i = 0; i < 1000; i++) {
		now_ns += SECOND - 1;
		start = pg_monotonic_ns();
		cr_assert_eq(pg_learned_book_sweep(book, collect_nothing, NULL, NULL), 0);
		start = pg_monotonic_ns() - start;
		slowest = start > slowest ? start : slowest;
	}
	now_ns += 3600 * SECOND;
	start = pg_monotonic_ns();
	cr_assert_eq(pg_learned_book_sweep(book, collect_nothing, NULL, NULL), COUNT);
	printf("%d addresses: %llu ns to add one, a sweep at most %llu us, one of them all %llu "
	       "ms\n",
	       COUNT, (unsigned long long)adding, (unsigned long long)(slowest / PG_NSEC_PER_USEC),
	       (unsigned long long)((pg_monotonic_ns() - start) / PG_NSEC_PER_MSEC));
	cr_expect_eq(pg_learned_book_count(book), 0);
	pg_learned_book_free(book);
}
