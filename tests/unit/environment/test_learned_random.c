/* SPDX-License-Identifier: Apache-2.0 */
/* The book against a model, and with a million addresses. */
#include "learned_lab.h"

/*
 * Against a model that keeps references in an array and looks at all of them. Only with lists:
 * what else there is has no effect on these, as long as the book is not full.
 */
struct model_reference {
	uint32_t owner;
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
	uint32_t count = 0;
	bool known = false;

	for (size_t i = 0; i < model_count; i++) {
		if (model[i].number == new.number &&
		    model[i].lists == new.lists &&model[i].owner == new.owner)
			same = &model[i];
		count += model[i].owner == new.owner;
	}
	for (size_t list = 0; list < LISTS; list++)
		known |= model_tables[list][new.number] != 0;
	if (!same && count >= quotas[new.owner])
		return -EDQUOT;
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

static void model_forget(uint32_t owner)
{
	struct model_reference gone[PG_ARRAY_SIZE(model)];
	size_t gone_count = 0, kept = 0;

	for (size_t i = 0; i < model_count; i++)
		if (model[i].owner == owner)
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
	const char name[] = {(char)('a' + random_below(16)), '\0'};
	struct model_reference new = {.owner = (uint32_t)(name[0] % 8),
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
		model_forget(new.owner);
		pg_learned_book_forget(book, new.owner);
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
		cr_assert_eq(try_add_as(new.owner, new.lists, name, new.number, new.expires),
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
		/* Some are over their quota before the book is full, some never. */
		open_book_of(capacity, (uint32_t)capacity / 4);
		book->owners[0].quota = quotas[0] = UINT32_MAX;
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

static void open_nowhere(size_t capacity)
{
	static struct pg_kernel_learned handle, *lists[] = {&handle};
	static const struct pg_learned_world nowhere = {.now = now,
							.put = put_nowhere,
							.remove = take_out_nowhere};
	static const uint32_t quota = UINT32_MAX;
	const struct pg_learned_options options = {.lists = lists,
						   .list_count = 1,
						   .capacity = capacity,
						   .quotas = &quota,
						   .owner_count = 1,
						   .owner_text = owner_text};

	now_ns = SECOND;
	cr_assert_eq(pg_learned_book_new_in(&nowhere, &options, &book, NULL), 0);
}

static int sweep_nothing(void)
{
	return pg_learned_book_sweep(book, collect_nothing, NULL, NULL);
}

Test(learned_random, a_million_addresses)
{
	enum {
		COUNT = 1 << 20
	};
	uint64_t start = cpu_ns(), adding, slowest = 0, longest = 0;
	struct pg_addr addr = addr_of(0);
	int sweeps = 0, removed = 0;

	open_nowhere(COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		char name[32];
		const struct pg_learned_teacher teacher = {.name = name, .lists = 1};

		addr.word[3] = htonl(i);
		snprintf(name, sizeof(name), "n%u.example.com", i % 1000);
		cr_assert_eq(pg_learned_book_add(book, &teacher, &addr,
						 now_ns + (1000 + i % 3600) * SECOND, NULL),
			     0);
	}
	adding = (cpu_ns() - start) / COUNT;
	for (size_t i = 0; i < 1000; i++) {
		now_ns += SECOND - 1;
		start = cpu_ns();
		cr_assert_eq(sweep_nothing(), 0);
		start = cpu_ns() - start;
		slowest = start > slowest ? start : slowest;
	}
	now_ns += 3600 * SECOND;
	/* All at once are removed in steps, of which none takes long. */
	for (; removed < COUNT; sweeps++) {
		int more;

		start = cpu_ns();
		more = sweep_nothing();
		start = cpu_ns() - start;
		longest = start > longest ? start : longest;
		cr_assert_gt(more, 0);
		cr_assert_leq(more, PG_LEARNED_SWEEP_MAX);
		removed += more;
		cr_assert_eq(pg_learned_book_is_behind(book), removed < COUNT);
	}
	cr_expect_eq(sweeps, COUNT / PG_LEARNED_SWEEP_MAX);
	printf("%d addresses: %llu ns to add one, a sweep at most %llu us, one that removes %d "
	       "%llu us\n",
	       COUNT, (unsigned long long)adding, (unsigned long long)(slowest / PG_NSEC_PER_USEC),
	       PG_LEARNED_SWEEP_MAX, (unsigned long long)(longest / PG_NSEC_PER_USEC));
	cr_expect_eq(pg_learned_book_count(book), 0);
	pg_learned_book_free(book);
}

/* What they cost may not depend on how many have the same. Ten times of what it takes here. */
Test(learned_random, many_names_of_the_same_addresses)
{
	enum {
		NAMES = 1000,
		ADDRESSES = 256,
		LIMIT_MS = 10000
	};
	uint64_t start;

	for (unsigned int lists = 0; lists < 2; lists++) {
		open_nowhere(1 << 20);
		start = cpu_ns();
		for (uint32_t i = 0; i < NAMES * ADDRESSES; i++) {
			const struct pg_addr addr = addr_of(i % ADDRESSES);
			char name[32];
			const struct pg_learned_teacher teacher = {.name = name, .lists = lists};

			snprintf(name, sizeof(name), "n%u.example.com", i / ADDRESSES);
			cr_assert_eq(pg_learned_book_add(book, &teacher, &addr,
							 now_ns + (1000 + i % 7) * SECOND, NULL),
				     0);
		}
		start = (cpu_ns() - start) / PG_NSEC_PER_MSEC;
		printf("%d names with the same %d addresses, %s: %llu ms\n", NAMES, ADDRESSES,
		       lists ? "taught" : "seen", (unsigned long long)start);
		cr_expect_lt(start, LIMIT_MS);
		cr_expect_eq(pg_learned_book_count(book), ADDRESSES);
		pg_learned_book_free(book);
	}
}

/* Whatever is asked in public. */
Test(learned_random, what_is_only_seen_is_bounded)
{
	open_nowhere(1 << 20);
	for (uint32_t i = 0; i < 3 * PG_BOOK_SEEN_MAX; i++) {
		struct pg_addr addr = addr_of(0);
		char name[256];
		const struct pg_learned_teacher teacher = {.name = name};

		addr.word[3] = htonl(i);
		snprintf(name, sizeof(name), "%0253u", i);
		cr_assert_eq(pg_learned_book_add(book, &teacher, &addr, now_ns + 1000 * SECOND,
						 NULL),
			     0);
	}
	cr_expect_eq(pg_learned_book_count(book), PG_BOOK_SEEN_MAX);
	cr_expect_eq(book->store.names.live, PG_BOOK_SEEN_MAX);
	pg_learned_book_free(book);
}
