/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of an Environment's learned addresses: which entries' names have taught each, and until
 * when. The kernel's tables (kernel/set.h) hold what is in the book, in each list whose name taught
 * it, with the latest expiry of those names. An address that has expired is draining: it leaves the
 * book and the kernel when no open socket of the Environment uses it.
 *
 * Whoever runs the zone of an entry chooses names, addresses and times. Each entry has a quota of
 * addresses, so the others find room; nothing here costs more the more names have an address.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/set.h"
#include "net/addr.h"

struct pg_learned_book;

/* Removals of one sweep, so that one does not take long. */
#define PG_LEARNED_SWEEP_MAX 16384

struct pg_learned_options {
	/* The lists' tables, by number; NULL where a list has no names. */
	struct pg_kernel_learned *const *lists;
	size_t list_count;
	size_t capacity; /* addresses at most */
	/* Addresses of each owner at most. An owner is an entry of the policy, with all names that
	 * are counted as its own. */
	const uint32_t *quotas;
	size_t owner_count;
	/* The text of the owner's entry; valid until the next call. */
	const char *(*owner_text)(void *userdata, uint32_t owner);
	/* An address of an allowed name is known under another one, too. Once per address. Either
	 * may be the text of an entry that has the name. */
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

struct pg_learned_teacher {
	const char *name;
	unsigned int lists; /* that have the name, a bit mask */
	uint32_t owner;	    /* with lists: whose quota it is */
};

/*
 * The name has taught the address; it is in the kernel's tables of the lists when this returns 0.
 * No expiry moves earlier. With no lists the name is only remembered, as far as there is room for
 * it, to tell that an address is shared. expires: CLOCK_BOOTTIME ns, UINT64_MAX: for ever.
 * -EDQUOT: the owner has as many addresses as it may; -ENOSPC: the book or a table is full. Both
 * count what has not been swept, nothing was changed, and the caller may pg_learned_book_sweep()
 * and try again.
 */
int pg_learned_book_add(struct pg_learned_book *book, const struct pg_learned_teacher *teacher,
			const struct pg_addr *addr, uint64_t expires,
			struct pg_error *err) PG_MUST_CHECK;

/*
 * Lets go what the owner's names have taught: each address leaves the lists that no other owner
 * holds it in, by expiring now (so it drains). Costs for each address the number of its owners.
 */
void pg_learned_book_forget(struct pg_learned_book *book, uint32_t owner);

/* The kernel's table of the list says so, since before this book: by a name that is not known,
 * which counts as the owner's. */
int pg_learned_book_recall(struct pg_learned_book *book, unsigned int list, uint32_t owner,
			   const struct pg_addr *addr, uint64_t expires,
			   struct pg_error *err) PG_MUST_CHECK;

/* Calls back with each address that an owner has taught, and to which lists (a bit mask), until its
 * callback fails. */
typedef int (*pg_learned_book_visitor)(void *userdata, uint32_t owner, uint32_t lists,
				       const struct pg_addr *addr, uint64_t expires);
int pg_learned_book_visit(const struct pg_learned_book *book, pg_learned_book_visitor visit,
			  void *userdata) PG_MUST_CHECK;

/*
 * Removes what has expired and is not in use. collect is called once, and only if something has
 * expired; it reports each remote address of an open socket of the Environment. Returns the number
 * of addresses removed, or the negative errno of collect, in which case nothing is removed. At most
 * PG_LEARNED_SWEEP_MAX go at once.
 */
typedef int (*pg_learned_use)(void *context, const struct pg_addr *remote);
typedef int (*pg_learned_collect)(void *userdata, pg_learned_use use, void *context,
				  struct pg_error *err);
int pg_learned_book_sweep(struct pg_learned_book *book, pg_learned_collect collect, void *userdata,
			  struct pg_error *err) PG_MUST_CHECK;

/* Whether the last sweep has left for the next what had expired. */
bool pg_learned_book_is_behind(const struct pg_learned_book *book);

/* Addresses in the book, draining ones included. */
size_t pg_learned_book_count(const struct pg_learned_book *book);
