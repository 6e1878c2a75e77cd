/* SPDX-License-Identifier: Apache-2.0 */
/* Private to learned*.c and its test: the book itself, and what may stand for time and kernel. */
#pragma once

#include "compile/name_index.h"
#include "learned.h"
#include "learned_store.h"

struct pg_learned_world {
	uint64_t (*now)(void);
	int (*put)(const struct pg_kernel_learned *learned, const struct pg_addr *addr,
		   uint64_t expires, struct pg_error *err);
	void (*remove)(const struct pg_kernel_learned *learned, const struct pg_addr *addr);
};

/*
 * References by the second in which they expire, modulo the number of places: a sweep looks at
 * those of the seconds since the last one, whatever else is in the book. A reference that expires
 * in a later round is looked at once each 68 minutes until then.
 */
#define PG_BOOK_WHEEL_PLACES 4096

struct pg_learned_book {
	struct pg_learned_options options;
	struct pg_kernel_learned *lists[PG_NAME_LISTS_MAX];
	uint32_t lists_there; /* those with a table */
	struct pg_learned_world world;
	struct pg_store store;
	uint32_t wheel[PG_BOOK_WHEEL_PLACES];
	uint64_t swept; /* up to this second */
	uint32_t seen;	/* references without lists: the first is the latest */
	uint32_t seen_count;
	uint32_t draining; /* addresses with a list whose names have all expired */
};

int pg_learned_book_new_in(const struct pg_learned_world *world,
			   const struct pg_learned_options *options,
			   struct pg_learned_book **ret_book, struct pg_error *err) PG_MUST_CHECK;

/* The address and the name stay, even with nothing left of them. */
void pg_book_drop_reference(struct pg_learned_book *book, uint32_t item);
/* Not in the book is an address that nobody has taught and the kernel does not have. */
void pg_book_drop_address_if_empty(struct pg_learned_book *book, uint32_t item);
void pg_book_drop_name_if_empty(struct pg_learned_book *book, uint32_t item);
/* With both. */
void pg_book_drop_reference_and_ends(struct pg_learned_book *book, uint32_t item);

/* The next sweep looks whether the address has expired in any list. */
void pg_book_drain(struct pg_learned_book *book, uint32_t item);

/* Walks the lists of a set: for (left = set; left; left &= left - 1) pg_book_lowest(left). */
static inline unsigned int pg_book_lowest(uint32_t left)
{
	return (unsigned int)__builtin_ctz(left);
}
