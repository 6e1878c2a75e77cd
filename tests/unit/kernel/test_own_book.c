/* SPDX-License-Identifier: Apache-2.0 */
/* What each Environment has in pg_own, where there is no memory for it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include <criterion/criterion.h>

#include "kernel/kernel_internal.h"
#include "net/addr.h"

#define FIRST 1000U
#define COUNT 70U /* the arrays grow at the 65th */

/* The linker has every call of reallocarray() come here. */
void *__wrap_reallocarray(void *array, size_t count, size_t size);
void *__real_reallocarray(void *array, size_t count, size_t size);

/* Calls that still succeed. */
static size_t left = SIZE_MAX;

void *__wrap_reallocarray(void *array, size_t count, size_t size)
{
	return left-- ? __real_reallocarray(array, count, size) : NULL;
}

static struct pg_addr address(uint32_t number)
{
	return pg_addr_from_v4(htonl(0xc0000200 + number));
}

static int add(struct pg_own_book *book, uint64_t env_id, uint32_t number, size_t calls)
{
	const struct pg_addr addr = address(number);
	int error;

	left = calls;
	error = pg_own_book_add(book, env_id, &addr);
	left = SIZE_MAX;
	return error;
}

/* An empty list would be found, and freed by nobody when it ends. */
static void expect_none_empty(const struct pg_own_book *book)
{
	for (size_t i = 0; i < book->count; i++)
		cr_assert_gt(book->lists[i].count, 0, "of %llu",
			     (unsigned long long)book->lists[i].env_id);
}

Test(own_book, leaves_nothing_without_memory)
{
	struct pg_own_book book = {};

	for (uint32_t id = 0; id < COUNT; id++) {
		for (size_t calls = 0; calls < 2; calls++) {
			int error = add(&book, FIRST + id, 1, calls);

			expect_none_empty(&book);
			cr_assert(!error || error == -ENOMEM);
			cr_assert_eq(pg_own_book_find(&book, FIRST + id) != NULL, !error);
		}
		cr_assert(!add(&book, FIRST + id, 1, SIZE_MAX));
	}
	cr_assert_eq(book.count, COUNT);
	pg_own_book_clear(&book);
}

Test(own_book, keeps_what_it_has)
{
	const struct pg_addr first = address(0);
	struct pg_own_book book = {};

	for (uint32_t i = 0; i < 64; i++)
		cr_assert(!add(&book, FIRST, i, SIZE_MAX));
	cr_assert_eq(add(&book, FIRST, 64, 0), -ENOMEM);
	cr_assert_eq(pg_own_book_find(&book, FIRST)->count, 64);
	for (uint32_t i = 1; i < 64; i++) {
		const struct pg_addr addr = address(i);

		pg_own_book_remove(&book, FIRST, &addr);
	}
	cr_assert_eq(pg_own_book_find(&book, FIRST)->count, 1);
	pg_own_book_remove(&book, FIRST, &first);
	cr_assert_null(pg_own_book_find(&book, FIRST));
	pg_own_book_clear(&book);
}
