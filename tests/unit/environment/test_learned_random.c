/* SPDX-License-Identifier: Apache-2.0 */
/* The book against a model, and with a million addresses. */
#include "learned_lab.h"

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
		/* Now and then once around the wheel. */
		now_ns += random_below(40) ? random_below(40) * SECOND / 7
					   : PG_BOOK_WHEEL_PLACES * SECOND;
		break;
	case 1:
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

Test(learned_random, random_against_a_model)
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

/* Whatever else runs on the machine. */
static uint64_t cpu_ns(void)
{
	return pg_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

Test(learned_random, a_million_addresses)
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
	uint64_t start = cpu_ns(), adding, slowest = 0;
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
	adding = (cpu_ns() - start) / COUNT;
	for (size_t i = 0; i < 1000; i++) {
		now_ns += SECOND - 1;
		start = cpu_ns();
		cr_assert_eq(pg_learned_book_sweep(book, collect_nothing, NULL, NULL), 0);
		start = cpu_ns() - start;
		slowest = start > slowest ? start : slowest;
	}
	now_ns += 3600 * SECOND;
	start = cpu_ns();
	cr_assert_eq(pg_learned_book_sweep(book, collect_nothing, NULL, NULL), COUNT);
	printf("%d addresses: %llu ns to add one, a sweep at most %llu us, one of them all %llu "
	       "ms\n",
	       COUNT, (unsigned long long)adding, (unsigned long long)(slowest / PG_NSEC_PER_USEC),
	       (unsigned long long)((cpu_ns() - start) / PG_NSEC_PER_MSEC));
	cr_expect_eq(pg_learned_book_count(book), 0);
	pg_learned_book_free(book);
}
