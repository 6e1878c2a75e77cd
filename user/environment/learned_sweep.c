/* SPDX-License-Identifier: Apache-2.0 */
/* What has expired leaves the book of learned addresses, and the kernel when it is not in use. */
#include "learned.h"

#include "base/clock.h"
#include "learned_book.h"

/* Whether all at the place was looked at. */
static bool drop_expired_at(struct pg_learned_book *book, uint64_t second, uint64_t now,
			    unsigned int *left)
{
	for (uint32_t i = book->wheel[second % PG_BOOK_WHEEL_PLACES], next; i != PG_STORE_NONE;
	     i = next) {
		const struct pg_store_reference *reference = pg_store_reference(&book->store, i);
		const uint32_t address = reference->address;

		next = reference->links[PG_STORE_BY_TIME].next;
		/* In another round. */
		if (reference->expires > now && reference->expires / PG_NSEC_PER_SEC != second)
			continue;
		if (!(*left)--) {
			*left = 0;
			return false;
		}
		if (reference->expires > now)
			continue;
		pg_book_drop_reference(book, i);
		pg_book_drain(book, address);
	}
	return true;
}

static void drop_expired(struct pg_learned_book *book, uint64_t now, unsigned int *left)
{
	const uint64_t second = now / PG_NSEC_PER_SEC;
	uint64_t at = book->swept;

	/* Once around is everything. */
	if (second - at >= PG_BOOK_WHEEL_PLACES)
		at = second - PG_BOOK_WHEEL_PLACES + 1;
	while (at <= second && drop_expired_at(book, at, now, left))
		at++;
	/* Not behind for what has not expired yet. */
	book->behind = at < second;
	book->swept = at < second ? at : second;
}

/* In order of the last time seen, not of expiry: an expired one may stay behind one that has not,
 * and is not asked for. */
static void drop_expired_seen(struct pg_learned_book *book, uint64_t now)
{
	while (book->seen != PG_STORE_NONE) {
		const struct pg_store_reference *latest =
			pg_store_reference(&book->store, book->seen);
		const uint32_t oldest = latest->links[PG_STORE_BY_TIME].prev;

		if (pg_store_reference(&book->store, oldest)->expires > now)
			return;
		pg_book_drop_reference_and_address(book, oldest);
	}
}

static uint32_t expired_lists(const struct pg_store_address *address, uint64_t now)
{
	uint32_t expired = 0;

	for (uint32_t left = address->lists; left; left &= left - 1)
		if (address->expires[pg_book_lowest(left)] <= now)
			expired |= 1U << pg_book_lowest(left);
	return expired;
}

/* Takes the address at *at out of those that drain. */
static void undrain(struct pg_learned_book *book, uint32_t *at)
{
	const uint32_t item = *at;
	struct pg_store_address *address = pg_store_address(&book->store, item);

	*at = address->next;
	address->draining = false;
	pg_book_drop_address_if_empty(book, item);
}

/* Leaves those that drain indeed; whether there are any. */
static bool find_draining(struct pg_learned_book *book, uint64_t now)
{
	for (uint32_t *at = &book->draining; *at != PG_STORE_NONE;) {
		struct pg_store_address *address = pg_store_address(&book->store, *at);

		address->used = false;
		if (expired_lists(address, now))
			at = &address->next;
		else
			undrain(book, at);
	}
	return book->draining != PG_STORE_NONE;
}

static int note_use(void *context, const struct pg_addr *remote)
{
	struct pg_learned_book *book = context;
	const uint32_t item = pg_store_find_address(&book->store, remote);

	if (item != PG_STORE_NONE)
		pg_store_address(&book->store, item)->used = true;
	return 0;
}

static void remove_unused(struct pg_learned_book *book, uint64_t now)
{
	for (uint32_t *at = &book->draining; *at != PG_STORE_NONE;) {
		struct pg_store_address *address = pg_store_address(&book->store, *at);
		const uint32_t expired = expired_lists(address, now);

		if (address->used) {
			at = &address->next;
			continue;
		}
		for (uint32_t left = expired; left; left &= left - 1)
			book->world.remove(book->lists[pg_book_lowest(left)], &address->addr);
		address->lists &= ~expired;
		undrain(book, at);
	}
}

int pg_learned_book_sweep(struct pg_learned_book *book, pg_learned_collect collect, void *userdata,
			  struct pg_error *err)
{
	const uint64_t now = book->world.now();
	const size_t before = pg_learned_book_count(book);
	unsigned int left = PG_LEARNED_SWEEP_MAX;
	int error;

	/* What drains would only become more, and be looked at each time. */
	if (!book->stuck)
		drop_expired(book, now, &left);
	if (find_draining(book, now)) {
		error = collect(userdata, note_use, book, err);
		book->stuck = error < 0;
		if (error)
			return error;
		remove_unused(book, now);
	}
	book->stuck = false;
	drop_expired_seen(book, now);
	return (int)(before - pg_learned_book_count(book));
}
