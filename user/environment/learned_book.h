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
 * those of the seconds since the last one, whatever else is in the book. Three days: longer than
 * any TTL and grace, so that what is far off is not in the way. Of later ones, each is looked at
 * once in each round until its own.
 */
#define PG_BOOK_WHEEL_PLACES (1U << 18)

/* References without lists at most: they only serve a warning. */
#define PG_BOOK_SEEN_MAX 16384

/* Names of an address remembered only to tell that it is shared: one of two is another than any. */
#define PG_BOOK_SEEN_PER_ADDRESS 2

/* An entry of the policy. */
struct pg_book_owner {
	uint32_t quota;
	uint32_t count;	     /* references */
	uint32_t references; /* the first */
};

struct pg_learned_book {
	struct pg_learned_options options;
	struct pg_kernel_learned *lists[PG_NAME_LISTS_MAX];
	uint32_t lists_there; /* those with a table */
	struct pg_learned_world world;
	struct pg_store store;
	struct pg_book_owner *owners;
	uint32_t wheel[PG_BOOK_WHEEL_PLACES];
	uint64_t swept; /* up to this second, itself not included */
	uint32_t seen;	/* references without lists: the first is the latest */
	uint32_t seen_count;
	uint32_t draining; /* addresses with a list whose names have all expired */
	bool behind;	   /* what has expired was too much for the last sweep */
	bool stuck;	   /* it could not tell what is in use */
};

int pg_learned_book_new_in(const struct pg_learned_world *world,
			   const struct pg_learned_options *options,
			   struct pg_learned_book **ret_book, struct pg_error *err) PG_MUST_CHECK;

/* learned.c: in all places where it has to be. */
void pg_book_add_reference(struct pg_learned_book *book,
			   const struct pg_store_reference *reference);
/* Taught or seen again: the latest of those only seen, and never earlier. */
void pg_book_renew(struct pg_learned_book *book, uint32_t item, uint64_t expires);
/* With its name, if that was only seen; the address stays, even with nothing left of it. */
void pg_book_drop_reference(struct pg_learned_book *book, uint32_t item);
/* Not in the book is an address that nobody has taught and the kernel does not have. */
void pg_book_drop_address_if_empty(struct pg_learned_book *book, uint32_t item);
void pg_book_drop_reference_and_address(struct pg_learned_book *book, uint32_t item);
/* Room for one more reference, and for an address if that is new, too. */
bool pg_book_has_room(const struct pg_learned_book *book, bool for_address);

/* learned_seen.c */
/* Lets the name go that has been only seen for longest; false: there is none. */
bool pg_book_evict_seen(struct pg_learned_book *book);
/* An addition without lists. */
void pg_book_remember(struct pg_learned_book *book, const char *name, const struct pg_addr *addr,
		      uint64_t expires);
/* The name teaches the address: tells if another one has it. */
void pg_book_look_for_shared(struct pg_learned_book *book, uint32_t address, const char *name);
/* The address is one of an allowed name and of another; said once. */
void pg_book_tell_shared(struct pg_learned_book *book, uint32_t item, const char *name,
			 const char *other);

/* The next sweep looks whether the address has expired in any list. */
void pg_book_drain(struct pg_learned_book *book, uint32_t item);

/* Walks the lists of a set: for (left = set; left; left &= left - 1) pg_book_lowest(left). */
static inline unsigned int pg_book_lowest(uint32_t left)
{
	return (unsigned int)__builtin_ctz(left);
}
