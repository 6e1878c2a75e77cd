/* SPDX-License-Identifier: Apache-2.0 */
#include "learned.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "learned_book.h"

/* References (names of an address) at most, for each address that there is room for. */
#define REFERENCES_PER_ADDRESS 4
/* Names of an address remembered only to tell that it is shared: one of two is another than any. */
#define SEEN_NAMES_MAX	       2
/* All is numbered with 32 bits. */
#define CAPACITY_MAX	       (1U << 28)

static const struct pg_learned_world real_world = {
	.now = pg_boottime_ns,
	.put = pg_learned_put,
	.remove = pg_learned_remove,
};

int pg_learned_book_new_in(const struct pg_learned_world *world,
			   const struct pg_learned_options *options,
			   struct pg_learned_book **ret_book, struct pg_error *err)
{
	struct pg_learned_book *book;

	if (!options->capacity || options->capacity > CAPACITY_MAX ||
	    options->list_count > PG_NAME_LISTS_MAX)
		return pg_fail(err, -EINVAL, "no book of %zu learned addresses in %zu lists",
			       options->capacity, options->list_count);
	book = calloc(1, sizeof(*book));
	if (!book)
		return pg_fail(err, -ENOMEM, "not enough memory for the book of addresses");
	book->options = *options;
	for (size_t i = 0; i < options->list_count; i++) {
		book->lists[i] = options->lists[i];
		if (book->lists[i])
			book->lists_there |= 1U << i;
	}
	book->world = *world;
	book->swept = world->now() / PG_NSEC_PER_SEC;
	book->seen = book->draining = PG_STORE_NONE;
	for (size_t i = 0; i < PG_BOOK_WHEEL_PLACES; i++)
		book->wheel[i] = PG_STORE_NONE;
	pg_store_init(&book->store, options->list_count);
	*ret_book = book;
	return 0;
}

int pg_learned_book_new(const struct pg_learned_options *options, struct pg_learned_book **ret_book,
			struct pg_error *err)
{
	return pg_learned_book_new_in(&real_world, options, ret_book, err);
}

void pg_learned_book_free(struct pg_learned_book *book)
{
	if (!book)
		return;
	pg_store_clear(&book->store);
	free(book);
}

size_t pg_learned_book_count(const struct pg_learned_book *book)
{
	return book->store.addresses.live;
}

/* Where a reference is by time; NULL: it never expires. */
static uint32_t *place_of(struct pg_learned_book *book, const struct pg_store_reference *reference)
{
	if (!reference->lists)
		return &book->seen;
	if (reference->expires == UINT64_MAX)
		return NULL;
	return &book->wheel[reference->expires / PG_NSEC_PER_SEC % PG_BOOK_WHEEL_PLACES];
}

static void link_by_time(struct pg_learned_book *book, uint32_t item)
{
	uint32_t *place = place_of(book, pg_store_reference(&book->store, item));

	if (place)
		pg_store_push(&book->store, PG_STORE_BY_TIME, place, item);
}

static void unlink_by_time(struct pg_learned_book *book, uint32_t item)
{
	uint32_t *place = place_of(book, pg_store_reference(&book->store, item));

	if (place)
		pg_store_unlink(&book->store, PG_STORE_BY_TIME, place, item);
}

/* Taught again: the latest of those only seen, and never earlier. */
static void renew(struct pg_learned_book *book, uint32_t item, uint64_t expires)
{
	struct pg_store_reference *reference = pg_store_reference(&book->store, item);

	unlink_by_time(book, item);
	if (expires > reference->expires)
		reference->expires = expires;
	link_by_time(book, item);
}

static void add_reference(struct pg_learned_book *book, uint32_t address, uint32_t name,
			  uint32_t lists, uint64_t expires)
{
	link_by_time(book, pg_store_add_reference(&book->store, address, name, lists, expires));
	if (!lists)
		book->seen_count++;
}

void pg_book_drop_reference(struct pg_learned_book *book, uint32_t item)
{
	unlink_by_time(book, item);
	if (!pg_store_reference(&book->store, item)->lists)
		book->seen_count--;
	pg_store_drop_reference(&book->store, item);
}

void pg_book_drop_address_if_empty(struct pg_learned_book *book, uint32_t item)
{
	const struct pg_store_address *address = pg_store_address(&book->store, item);

	if (address->references == PG_STORE_NONE && !address->lists && !address->draining)
		pg_store_drop_address(&book->store, item);
}

void pg_book_drop_name_if_empty(struct pg_learned_book *book, uint32_t item)
{
	if (pg_store_name(&book->store, item)->references == PG_STORE_NONE)
		pg_store_drop_name(&book->store, item);
}

void pg_book_drop_reference_and_ends(struct pg_learned_book *book, uint32_t item)
{
	const struct pg_store_reference *reference = pg_store_reference(&book->store, item);
	const uint32_t address = reference->address, name = reference->name;

	pg_book_drop_reference(book, item);
	pg_book_drop_address_if_empty(book, address);
	pg_book_drop_name_if_empty(book, name);
}

void pg_book_drain(struct pg_learned_book *book, uint32_t item)
{
	struct pg_store_address *address = pg_store_address(&book->store, item);

	if (address->draining)
		return;
	address->draining = true;
	address->next = book->draining;
	book->draining = item;
}

/* Lets the name go that has been only seen for longest. */
static void evict_seen(struct pg_learned_book *book)
{
	const struct pg_store_reference *latest = pg_store_reference(&book->store, book->seen);

	pg_book_drop_reference_and_ends(book, latest->links[PG_STORE_BY_TIME].prev);
}

static bool has_room(const struct pg_learned_book *book, bool for_address)
{
	const struct pg_store *store = &book->store;

	return (!for_address || store->addresses.live < book->options.capacity) &&
	       store->references.live < REFERENCES_PER_ADDRESS * book->options.capacity;
}

/* What is there already of an addition. */
struct found {
	uint32_t address, name, reference;
};

static struct found look_up(const struct pg_learned_book *book, uint32_t lists, const char *name,
			    const struct pg_addr *addr)
{
	struct found found = {
		.address = pg_store_find_address(&book->store, addr),
		.name = pg_store_find_name(&book->store, name),
		.reference = PG_STORE_NONE,
	};

	if (found.address != PG_STORE_NONE && found.name != PG_STORE_NONE)
		found.reference =
			pg_store_find_reference(&book->store, found.address, found.name, lists);
	return found;
}

/* What has not expired and links another name to the address; allowed: one that lists have. */
static uint32_t find_other(const struct pg_learned_book *book, uint32_t address, uint32_t name,
			   bool allowed)
{
	const uint64_t now = book->world.now();

	for (uint32_t i = pg_store_address(&book->store, address)->references; i != PG_STORE_NONE;
	     i = pg_store_next(&book->store, PG_STORE_BY_ADDRESS, i)) {
		const struct pg_store_reference *reference = pg_store_reference(&book->store, i);

		if (reference->name != name && reference->expires > now &&
		    (reference->lists || !allowed))
			return i;
	}
	return PG_STORE_NONE;
}

/* The address is one of an allowed name and of another. What was only seen has told its tale. */
static void tell_shared(struct pg_learned_book *book, uint32_t item, const char *name,
			const char *other)
{
	struct pg_store_address *address = pg_store_address(&book->store, item);

	address->told = true;
	if (book->options.shared)
		book->options.shared(book->options.userdata, &address->addr, name, other);
	for (uint32_t i = address->references, next; i != PG_STORE_NONE; i = next) {
		next = pg_store_next(&book->store, PG_STORE_BY_ADDRESS, i);
		if (!pg_store_reference(&book->store, i)->lists)
			pg_book_drop_reference_and_ends(book, i);
	}
}

static const char *name_of(const struct pg_learned_book *book, uint32_t reference)
{
	return pg_store_name(&book->store, pg_store_reference(&book->store, reference)->name)->text;
}

static unsigned int count_seen(const struct pg_learned_book *book, uint32_t address)
{
	unsigned int count = 0;

	for (uint32_t i = pg_store_address(&book->store, address)->references;
	     i != PG_STORE_NONE && count < SEEN_NAMES_MAX;
	     i = pg_store_next(&book->store, PG_STORE_BY_ADDRESS, i))
		count += !pg_store_reference(&book->store, i)->lists;
	return count;
}

/* An addition without lists. */
static void remember(struct pg_learned_book *book, const char *name, const struct pg_addr *addr,
		     uint64_t expires)
{
	struct found found = look_up(book, 0, name, addr);
	uint32_t allowed;

	if (found.address != PG_STORE_NONE) {
		if (pg_store_address(&book->store, found.address)->told)
			return;
		allowed = find_other(book, found.address, found.name, true);
		if (allowed != PG_STORE_NONE) {
			tell_shared(book, found.address, name_of(book, allowed), name);
			return;
		}
	}
	if (found.reference != PG_STORE_NONE) {
		renew(book, found.reference, expires);
		return;
	}
	if (found.address != PG_STORE_NONE && count_seen(book, found.address) == SEEN_NAMES_MAX)
		return;
	while (book->seen_count >= book->options.capacity ||
	       !has_room(book, found.address == PG_STORE_NONE)) {
		if (book->seen == PG_STORE_NONE)
			return;
		evict_seen(book);
		found = look_up(book, 0, name, addr);
	}
	if (pg_store_reserve(&book->store) < 0)
		return;
	if (found.name == PG_STORE_NONE)
		found.name = pg_store_add_name(&book->store, name);
	if (found.name == PG_STORE_NONE)
		return;
	if (found.address == PG_STORE_NONE)
		found.address = pg_store_add_address(&book->store, addr);
	add_reference(book, found.address, found.name, 0, expires);
}

/* Puts back into the kernel what the book says of the address (NULL: nothing) in the lists. */
static void put_back(struct pg_learned_book *book, struct pg_store_address *address,
		     const struct pg_addr *addr, uint32_t lists)
{
	for (uint32_t left = lists; left; left &= left - 1) {
		const unsigned int list = pg_book_lowest(left);

		if (address && address->lists & 1U << list) {
			if (!book->world.put(book->lists[list], addr, address->expires[list], NULL))
				continue;
			/* Closed rather than open for longer than anybody knows. */
			address->lists &= ~(1U << list);
		}
		book->world.remove(book->lists[list], addr);
	}
}

/* All or nothing. address: as it is in the book, or NULL. */
static int put_all(struct pg_learned_book *book, struct pg_store_address *address,
		   const struct pg_addr *addr, uint32_t lists, uint64_t expires,
		   struct pg_error *err)
{
	const uint32_t old = address ? lists & address->lists : 0;
	/* New ones first: only these can find no room, and to take them back cannot fail. */
	const uint32_t turns[] = {lists & ~old, old};
	uint32_t done = 0;
	int error;

	for (size_t i = 0; i < PG_ARRAY_SIZE(turns); i++) {
		for (uint32_t left = turns[i]; left; left &= left - 1) {
			const unsigned int list = pg_book_lowest(left);

			if (old & 1U << list && address->expires[list] >= expires)
				continue;
			error = book->world.put(book->lists[list], addr, expires, err);
			if (error) {
				put_back(book, address, addr, done);
				return error;
			}
			done |= 1U << list;
		}
	}
	return 0;
}

static void note_expiry(struct pg_store_address *address, uint32_t lists, uint64_t expires)
{
	for (uint32_t left = lists; left; left &= left - 1) {
		const unsigned int list = pg_book_lowest(left);

		if (!(address->lists & 1U << list) || address->expires[list] < expires)
			address->expires[list] = expires;
	}
	address->lists |= lists;
}

static int find_room(struct pg_learned_book *book, uint32_t lists, const char *name,
		     const struct pg_addr *addr, struct found *ret_found, struct pg_error *err)
{
	struct found found = look_up(book, lists, name, addr);

	while (found.reference == PG_STORE_NONE &&
	       !has_room(book, found.address == PG_STORE_NONE)) {
		if (book->seen == PG_STORE_NONE)
			return pg_fail(err, -ENOSPC,
				       "all room for learned addresses is in use (%u of %zu"
				       " addresses, known by %u names)",
				       book->store.addresses.live, book->options.capacity,
				       book->store.names.live);
		evict_seen(book);
		found = look_up(book, lists, name, addr);
	}
	if (pg_store_reserve(&book->store) < 0)
		return -ENOMEM;
	if (found.name == PG_STORE_NONE)
		found.name = pg_store_add_name(&book->store, name);
	if (found.name == PG_STORE_NONE)
		return -ENOMEM;
	*ret_found = found;
	return 0;
}

/* An addition with lists. */
static int learn(struct pg_learned_book *book, uint32_t lists, const char *name,
		 const struct pg_addr *addr, uint64_t expires, struct pg_error *err)
{
	struct pg_store_address *address = NULL;
	struct found found = {};
	uint32_t other;
	int error = find_room(book, lists, name, addr, &found, err);

	if (error)
		return error;
	if (found.address != PG_STORE_NONE)
		address = pg_store_address(&book->store, found.address);
	error = put_all(book, address, addr, lists, expires, err);
	if (error) {
		pg_book_drop_name_if_empty(book, found.name);
		return error;
	}
	if (!address) {
		found.address = pg_store_add_address(&book->store, addr);
		address = pg_store_address(&book->store, found.address);
	}
	note_expiry(address, lists, expires);
	if (found.reference != PG_STORE_NONE) {
		renew(book, found.reference, expires);
		return 0;
	}
	add_reference(book, found.address, found.name, lists, expires);
	if (address->told)
		return 0;
	other = find_other(book, found.address, found.name, false);
	if (other != PG_STORE_NONE)
		tell_shared(book, found.address, name, name_of(book, other));
	return 0;
}

int pg_learned_book_add(struct pg_learned_book *book, unsigned int lists, const char *name,
			const struct pg_addr *addr, uint64_t expires, struct pg_error *err)
{
	const uint64_t now = book->world.now();
	char text[PG_ADDR_TEXT];
	int error;

	if ((uint64_t)lists >> book->options.list_count)
		return pg_fail(err, -EINVAL, "no lists %#x of learned addresses, but %zu", lists,
			       book->options.list_count);
	/* A list that knows no name but localhost has no table, and learns nothing. */
	lists &= book->lists_there;
	/* The wheel has no past. */
	if (expires < now)
		expires = now;
	if (!lists) {
		remember(book, name, addr, expires);
		return 0;
	}
	error = learn(book, lists, name, addr, expires, err);
	if (error == -ENOMEM)
		return pg_fail(err, error, "not enough memory to learn %s",
			       pg_addr_format(addr, text));
	if (error == -E2BIG)
		return pg_fail(err, -ENOSPC, "all room for learned addresses of a list is in use");
	return error;
}

/* The latest expiry of those who hold the address in the list; at least the time given. */
static uint64_t held_until(const struct pg_learned_book *book,
			   const struct pg_store_address *address, unsigned int list, uint64_t time)
{
	for (uint32_t i = address->references; i != PG_STORE_NONE;
	     i = pg_store_next(&book->store, PG_STORE_BY_ADDRESS, i)) {
		const struct pg_store_reference *reference = pg_store_reference(&book->store, i);

		if (reference->lists & 1U << list && reference->expires > time)
			time = reference->expires;
		if (time >= address->expires[list])
			break;
	}
	return time;
}

/* What held the address in the lists until the given time is gone. */
static void let_go(struct pg_learned_book *book, uint32_t item, uint32_t lists, uint64_t expires,
		   uint64_t now)
{
	struct pg_store_address *address = pg_store_address(&book->store, item);

	for (uint32_t left = lists & address->lists; left; left &= left - 1) {
		const unsigned int list = pg_book_lowest(left);
		uint64_t held;

		if (address->expires[list] <= now) {
			pg_book_drain(book, item);
			continue;
		}
		if (address->expires[list] > expires)
			continue;
		held = held_until(book, address, list, now);
		if (held >= address->expires[list])
			continue;
		address->expires[list] = held;
		put_back(book, address, &address->addr, 1U << list);
		if (held == now)
			pg_book_drain(book, item);
	}
}

void pg_learned_book_forget(struct pg_learned_book *book, const char *name)
{
	const uint32_t owner = pg_store_find_name(&book->store, name);
	const uint64_t now = book->world.now();

	if (owner == PG_STORE_NONE)
		return;
	for (uint32_t i = pg_store_name(&book->store, owner)->references, next; i != PG_STORE_NONE;
	     i = next) {
		const struct pg_store_reference gone = *pg_store_reference(&book->store, i);

		next = gone.links[PG_STORE_BY_NAME].next;
		pg_book_drop_reference(book, i);
		let_go(book, gone.address, gone.lists, gone.expires, now);
		pg_book_drop_address_if_empty(book, gone.address);
	}
	pg_book_drop_name_if_empty(book, owner);
}
