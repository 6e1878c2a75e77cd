/* SPDX-License-Identifier: Apache-2.0 */
/* A book of learned addresses with a clock and a kernel of the test's own. */
#pragma once

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
#define OWNERS 1024

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
static uint32_t quotas[OWNERS];
static char owner_texts[OWNERS][16];
static uint32_t owner_count;

static inline uint64_t now(void)
{
	return now_ns;
}

static inline size_t number_of(const struct pg_addr *addr)
{
	return ntohl(pg_addr_to_v4(addr)) & 0xffff;
}

static inline struct pg_addr addr_of(size_t number)
{
	return pg_addr_from_v4(htonl(0xc6120000U | (uint32_t)number));
}

static inline size_t count_in(const struct table *table)
{
	size_t count = 0;

	for (size_t i = 0; i < ROOM; i++)
		count += table->expires[i] != 0;
	return count;
}

static inline int put(const struct pg_kernel_learned *learned, const struct pg_addr *addr,
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

static inline void take_out(const struct pg_kernel_learned *learned, const struct pg_addr *addr)
{
	tables[learned->slot].expires[number_of(addr)] = 0;
}

static inline void note_shared(void *userdata, const struct pg_addr *addr, const char *name,
			       const char *other)
{
	size_t used = strlen(told);

	snprintf(told + used, sizeof(told) - used, "%zu %s %s;", number_of(addr), name, other);
}

static const struct pg_learned_world world = {.now = now, .put = put, .remove = take_out};

/* Each name is an entry of its own, unless try_add_as() says otherwise. */
static inline uint32_t owner_of(const char *name)
{
	for (uint32_t i = 0; i < owner_count; i++)
		if (!strcmp(owner_texts[i], name))
			return i;
	cr_assert_lt(owner_count, OWNERS);
	snprintf(owner_texts[owner_count], sizeof(owner_texts[0]), "%s", name);
	return owner_count++;
}

static inline const char *owner_text(void *userdata, uint32_t owner)
{
	return owner_texts[owner];
}

static inline void open_book_of(size_t capacity, uint32_t quota)
{
	static struct pg_kernel_learned *lists[LISTS + 1];
	const struct pg_learned_options options = {.lists = lists,
						   .list_count = LISTS + 1,
						   .capacity = capacity,
						   .quotas = quotas,
						   .owner_count = OWNERS,
						   .owner_text = owner_text,
						   .shared = note_shared};

	now_ns = 1000 * SECOND + 7;
	for (uint32_t i = 0; i < LISTS; i++) {
		tables[i].handle.slot = i;
		tables[i].room = ROOM;
		lists[i] = &tables[i].handle;
	}
	for (size_t i = 0; i < OWNERS; i++)
		quotas[i] = quota;
	cr_assert_eq(pg_learned_book_new_in(&world, &options, &book, NULL), 0);
}

static inline void open_book(size_t capacity)
{
	open_book_of(capacity, UINT32_MAX);
}

static inline int try_add_as(uint32_t owner, unsigned int lists, const char *name, size_t number,
			     uint64_t expires)
{
	const struct pg_learned_teacher teacher = {.name = name, .lists = lists, .owner = owner};
	const struct pg_addr addr = addr_of(number);
	struct pg_error err = {};
	int error = pg_learned_book_add(book, &teacher, &addr, expires, &err);

	cr_expect_eq(error, err.number);
	cr_expect_eq(error != 0, err.text[0] != '\0');
	return error;
}

static inline int try_add(unsigned int lists, const char *name, size_t number, uint64_t expires)
{
	return try_add_as(owner_of(name), lists, name, number, expires);
}

static inline int collect(void *userdata, pg_learned_use use, void *context, struct pg_error *err)
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
