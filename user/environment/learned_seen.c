/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses known under several names, which only serves a warning: names without lists are
 * remembered for it, and none of them has to be.
 */
#include "learned.h"

#include "learned_book.h"

bool pg_book_evict_seen(struct pg_learned_book *book)
{
	if (book->seen == PG_STORE_NONE)
		return false;
	pg_book_drop_reference_and_address(
		book, pg_store_reference(&book->store, book->seen)->links[PG_STORE_BY_TIME].prev);
	return true;
}

/* What was only seen has told its tale. Once in the life of an address, so what it costs was paid
 * when the references were made. */
void pg_book_tell_shared(struct pg_learned_book *book, uint32_t item, const char *name,
			 const char *other)
{
	struct pg_store_address *address = pg_store_address(&book->store, item);

	if (address->told)
		return;
	address->told = true;
	if (book->options.shared)
		book->options.shared(book->options.userdata, &address->addr, name, other);
	for (uint32_t i = address->references, next; address->seen; i = next) {
		next = pg_store_next(&book->store, PG_STORE_BY_ADDRESS, i);
		if (!pg_store_reference(&book->store, i)->lists)
			pg_book_drop_reference(book, i);
	}
}

/* The text of the entry, or the name that was seen. */
static const char *text_of(const struct pg_learned_book *book,
			   const struct pg_store_reference *reference)
{
	return reference->lists ? book->options.owner_text(book->options.userdata, reference->owner)
				: pg_store_name(&book->store, reference->name)->text;
}

static bool is_of(const struct pg_learned_book *book, const struct pg_store_reference *reference,
		  uint32_t hash)
{
	return hash == (reference->lists ? reference->name
					 : pg_store_name(&book->store, reference->name)->hash);
}

/*
 * Who has the address now under another name; of names that were taught only, if those are wanted.
 * Two that live at once are told of, and then this is not asked any more: all that it passes over
 * has expired, or is the same name.
 */
static uint32_t find_other(const struct pg_learned_book *book, uint32_t address, const char *name,
			   bool taught)
{
	const uint32_t hash = pg_store_hash_name(&book->store, name);
	const uint64_t now = book->world.now();

	for (uint32_t i = pg_store_address(&book->store, address)->references; i != PG_STORE_NONE;
	     i = pg_store_next(&book->store, PG_STORE_BY_ADDRESS, i)) {
		const struct pg_store_reference *reference = pg_store_reference(&book->store, i);

		if (reference->expires > now && (reference->lists || !taught) &&
		    !is_of(book, reference, hash))
			return i;
	}
	return PG_STORE_NONE;
}

void pg_book_look_for_shared(struct pg_learned_book *book, uint32_t address, const char *name)
{
	uint32_t other;

	if (pg_store_address(&book->store, address)->told)
		return;
	other = find_other(book, address, name, false);
	if (other != PG_STORE_NONE)
		pg_book_tell_shared(book, address, name,
				    text_of(book, pg_store_reference(&book->store, other)));
}

/* Whether nothing is left to be done about the name at the address, which is in the book. */
static bool is_settled(struct pg_learned_book *book, uint32_t item, const char *name,
		       uint64_t expires)
{
	const struct pg_store_address *address = pg_store_address(&book->store, item);
	uint32_t other, known;

	if (address->told)
		return true;
	other = find_other(book, item, name, true);
	if (other != PG_STORE_NONE) {
		pg_book_tell_shared(book, item,
				    text_of(book, pg_store_reference(&book->store, other)), name);
		return true;
	}
	known = pg_store_find_name(&book->store, name);
	if (known != PG_STORE_NONE)
		known = pg_store_find_seen(&book->store, item, known);
	if (known != PG_STORE_NONE)
		pg_book_renew(book, known, expires);
	return known != PG_STORE_NONE || address->seen == PG_BOOK_SEEN_PER_ADDRESS;
}

void pg_book_remember(struct pg_learned_book *book, const char *name, const struct pg_addr *addr,
		      uint64_t expires)
{
	uint32_t address = pg_store_find_address(&book->store, addr), known;

	if (address != PG_STORE_NONE && is_settled(book, address, name, expires))
		return;
	while (book->seen_count >= PG_BOOK_SEEN_MAX ||
	       !pg_book_has_room(book, address == PG_STORE_NONE)) {
		if (!pg_book_evict_seen(book))
			return;
		address = pg_store_find_address(&book->store, addr);
	}
	if (pg_store_reserve(&book->store) < 0)
		return;
	known = pg_store_find_name(&book->store, name);
	if (known == PG_STORE_NONE)
		known = pg_store_add_name(&book->store, name);
	if (known == PG_STORE_NONE)
		return;
	if (address == PG_STORE_NONE)
		address = pg_store_add_address(&book->store, addr);
	pg_book_add_reference(book, &(struct pg_store_reference){.expires = expires,
								 .address = address,
								 .name = known});
}
