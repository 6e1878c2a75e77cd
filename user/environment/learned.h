/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of an Environment's learned addresses: who has taught each, and until when. The kernel's
 * tables (kernel/set.h) hold what is in the book, in each list whose name taught it, with the
 * latest expiry of those names. An address that has expired is draining: it leaves the book and the
 * kernel when no open socket of the Environment uses it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/set.h"
#include "net/addr.h"

struct pg_learned_book;

struct pg_learned_options {
	/* The lists' tables, by number; NULL where a list has no names. */
	struct pg_kernel_learned *const *lists;
	size_t list_count;
	size_t capacity; /* addresses at most */
	/* An address of an allowed name is known under another one, too. Once per address. */
	void (*shared)(void *userdata, const struct pg_addr *addr, const char *name,
		       const char *other);
	void *userdata;
};

int pg_learned_book_new(const struct pg_learned_options *options, struct pg_learned_book **ret_book,
			struct pg_error *err) PG_MUST_CHECK;
void pg_learned_book_free(struct pg_learned_book *book);
static inline void pg_learned_book_freep(struct pg_learned_book **book)
{
	pg_learned_book_free(*book);
}

/*
 * The name has taught the address; it is in the kernel's tables of the lists (a bit mask) when this
 * returns 0. No expiry moves earlier. With no lists the name is only remembered, as far as there is
 * room for it, to tell that an address is shared. expires: CLOCK_BOOTTIME ns, UINT64_MAX: for ever.
 * -ENOSPC: the book or a table is full of what has not been swept or is in use, and nothing was
 * changed; the caller may pg_learned_book_sweep() and try again. There is room for four times as
 * many names of addresses as addresses.
 */
int pg_learned_book_add(struct pg_learned_book *book, unsigned int lists, const char *name,
			const struct pg_addr *addr, uint64_t expires,
			struct pg_error *err) PG_MUST_CHECK;

/* Lets go what the name has taught: each address leaves the lists that no other name holds it in,
 * by expiring now (so it drains). */
void pg_learned_book_forget(struct pg_learned_book *book, const char *name);

/* The kernel's table of the list says so, since before this book: by a name that is not known. */
int pg_learned_book_recall(struct pg_learned_book *book, unsigned int list,
			   const struct pg_addr *addr, uint64_t expires,
			   struct pg_error *err) PG_MUST_CHECK;

/* Calls back with each name and address that a list has, until its callback fails. */
typedef int (*pg_learned_book_visitor)(void *userdata, const char *name, const struct pg_addr *addr,
				       uint64_t expires);
int pg_learned_book_visit(const struct pg_learned_book *book, pg_learned_book_visitor visit,
			  void *userdata) PG_MUST_CHECK;

/*
 * Removes what has expired and is not in use. collect is called once, and only if something has
 * expired; it reports each remote address of an open socket of the Environment. Returns the number
 * of addresses removed, or the negative errno of collect, in which case nothing is removed.
 */
typedef int (*pg_learned_use)(void *context, const struct pg_addr *remote);
typedef int (*pg_learned_collect)(void *userdata, pg_learned_use use, void *context,
				  struct pg_error *err);
int pg_learned_book_sweep(struct pg_learned_book *book, pg_learned_collect collect, void *userdata,
			  struct pg_error *err) PG_MUST_CHECK;

/* Addresses in the book, draining ones included. */
size_t pg_learned_book_count(const struct pg_learned_book *book);
