/* SPDX-License-Identifier: Apache-2.0 */
/* A book that begins with what the kernel's tables say, or with what another book says. */
#include "learned.h"

#include <errno.h>

#include "learned_book.h"

/* Who taught it is not known any more. No name that is asked for is empty. */
#define UNKNOWN ""

int pg_learned_book_recall(struct pg_learned_book *book, unsigned int list,
			   const struct pg_addr *addr, uint64_t expires, struct pg_error *err)
{
	uint32_t item;
	int error = pg_learned_book_add(book, 1U << list, UNKNOWN, addr, expires, err);

	if (error)
		return error;
	/* It may be the very name that teaches it again: that is no second one. */
	item = pg_store_find_address(&book->store, addr);
	if (item != PG_STORE_NONE)
		pg_store_address(&book->store, item)->told = true;
	return 0;
}

static int visit_name(const struct pg_learned_book *book, uint32_t item,
		      pg_learned_book_visitor visit, void *userdata)
{
	const struct pg_store_name *name = pg_store_name(&book->store, item);
	const uint64_t now = book->world.now();
	int error;

	for (uint32_t i = name->references; i != PG_STORE_NONE;
	     i = pg_store_next(&book->store, PG_STORE_BY_NAME, i)) {
		const struct pg_store_reference *reference = pg_store_reference(&book->store, i);

		if (!reference->lists || reference->expires <= now)
			continue;
		error = visit(userdata, name->text,
			      &pg_store_address(&book->store, reference->address)->addr,
			      reference->expires);
		if (error)
			return error;
	}
	return 0;
}

int pg_learned_book_visit(const struct pg_learned_book *book, pg_learned_book_visitor visit,
			  void *userdata)
{
	const struct pg_hash_table *names = &book->store.by_text;
	int error = 0;

	for (size_t i = 0; i < names->size && !error; i++)
		if (names->places[i].item)
			error = visit_name(book, names->places[i].item - 1, visit, userdata);
	return error;
}
