/* SPDX-License-Identifier: Apache-2.0 */
/* A book that begins with what the kernel's tables say, or with what another book says. */
#include "learned.h"

#include "learned_book.h"

int pg_learned_book_recall(struct pg_learned_book *book, unsigned int list, uint32_t owner,
			   const struct pg_addr *addr, uint64_t expires, struct pg_error *err)
{
	/* Who taught it is not known any more. */
	const struct pg_learned_teacher teacher = {.name = "", .lists = 1U << list, .owner = owner};
	uint32_t item;
	int error = pg_learned_book_add(book, &teacher, addr, expires, err);

	if (error)
		return error;
	/* It may be the very name that teaches it again: that is no second one. */
	item = pg_store_find_address(&book->store, addr);
	if (item != PG_STORE_NONE)
		pg_store_address(&book->store, item)->told = true;
	return 0;
}

static int visit_owner(const struct pg_learned_book *book, uint32_t owner,
		       pg_learned_book_visitor visit, void *userdata)
{
	const uint64_t now = book->world.now();
	int error;

	for (uint32_t i = book->owners[owner].references; i != PG_STORE_NONE;
	     i = pg_store_next(&book->store, PG_STORE_BY_OWNER, i)) {
		const struct pg_store_reference *reference = pg_store_reference(&book->store, i);

		if (reference->expires <= now)
			continue;
		error = visit(userdata, owner, reference->lists,
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
	int error = 0;

	for (uint32_t i = 0; i < book->options.owner_count && !error; i++)
		error = visit_owner(book, i, visit, userdata);
	return error;
}
