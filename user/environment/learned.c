/* SPDX-License-Identifier: Apache-2.0 */
#include "learned.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "learned_book.h"

/* References at most, for each address that there is room for. */
#define REFERENCES_PER_ADDRESS 4
/* All is numbered with 32 bits. */
#define CAPACITY_MAX	       (1U << 28)

static const struct pg_learned_world real_world = {
	.now = pg_boottime_ns,
	.put = pg_learned_put,
	.remove = pg_learned_remove,
};

static int copy_quotas(struct pg_learned_book *book)
{
	const size_t count = book->options.owner_count;

	book->owners = calloc(count ? count : 1, sizeof(*book->owners));
	if (!book->owners)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		book->owners[i].quota = book->options.quotas[i];
	return 0;
}

int pg_learned_book_new_in(const struct pg_learned_world *world,
			   const struct pg_learned_options *options,
			   struct pg_learned_book **ret_book, struct pg_error *err)
{
	PG_CLEANUP(pg_learned_book_freep) struct pg_learned_book *book = NULL;

	if (!options->capacity || options->capacity > CAPACITY_MAX ||
	    options->list_count > PG_NAME_LISTS_MAX)
		return pg_fail(err, -EINVAL, "no book of %zu learned addresses in %zu lists",
			       options->capacity, options->list_count);
	book = calloc(1, sizeof(*book));
	if (!book)
		return pg_fail(err, -ENOMEM, "not enough memory for the book of addresses");
	book->options = *options;
	if (copy_quotas(book) < 0)
		return pg_fail(err, -ENOMEM, "not enough memory for the quotas of %zu names",
			       options->owner_count);
	for (size_t i = 0; i < options->list_count; i++) {
		book->lists[i] = options->lists[i];
		if (book->lists[i])
			book->lists_there |= 1U << i;
	}
	book->world = *world;
	book->swept = world->now() / PG_NSEC_PER_SEC;
	pg_store_init(&book->store, options->list_count);
	*ret_book = PG_TAKE_PTR(book);
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
	free(book->owners);
	free(book);
}

size_t pg_learned_book_count(const struct pg_learned_book *book)
{
	return book->store.addresses.live;
}

bool pg_learned_book_is_behind(const struct pg_learned_book *book)
{
	return book->behind;
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

void pg_book_renew(struct pg_learned_book *book, uint32_t item, uint64_t expires)
{
	struct pg_store_reference *reference = pg_store_reference(&book->store, item);

	if (reference->lists && expires <= reference->expires)
		return;
	unlink_by_time(book, item);
	if (expires > reference->expires)
		reference->expires = expires;
	link_by_time(book, item);
}

void pg_book_add_reference(struct pg_learned_book *book, const struct pg_store_reference *reference)
{
	const uint32_t item = pg_store_add_reference(&book->store, reference);

	link_by_time(book, item);
	if (!reference->lists) {
		book->seen_count++;
		return;
	}
	book->owners[reference->owner].count++;
	pg_store_push(&book->store, PG_STORE_BY_OWNER, &book->owners[reference->owner].references,
		      item);
}

void pg_book_drop_reference(struct pg_learned_book *book, uint32_t item)
{
	const struct pg_store_reference reference = *pg_store_reference(&book->store, item);

	unlink_by_time(book, item);
	if (reference.lists) {
		book->owners[reference.owner].count--;
		pg_store_unlink(&book->store, PG_STORE_BY_OWNER,
				&book->owners[reference.owner].references, item);
	} else {
		book->seen_count--;
	}
	pg_store_drop_reference(&book->store, item);
	if (!reference.lists && !pg_store_name(&book->store, reference.name)->references)
		pg_store_drop_name(&book->store, reference.name);
}

void pg_book_drop_address_if_empty(struct pg_learned_book *book, uint32_t item)
{
	const struct pg_store_address *address = pg_store_address(&book->store, item);

	if (address->references == PG_STORE_NONE && !address->lists && !address->draining)
		pg_store_drop_address(&book->store, item);
}

void pg_book_drop_reference_and_address(struct pg_learned_book *book, uint32_t item)
{
	const uint32_t address = pg_store_reference(&book->store, item)->address;

	pg_book_drop_reference(book, item);
	pg_book_drop_address_if_empty(book, address);
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

bool pg_book_has_room(const struct pg_learned_book *book, bool for_address)
{
	const struct pg_store *store = &book->store;

	return (!for_address || store->addresses.live < book->options.capacity) &&
	       store->references.live < REFERENCES_PER_ADDRESS * book->options.capacity;
}

/* What is there already of an addition. */
struct found {
	uint32_t address, reference;
};

static struct found look_up(const struct pg_learned_book *book,
			    const struct pg_learned_teacher *teacher, const struct pg_addr *addr)
{
	struct found found = {.address = pg_store_find_address(&book->store, addr)};

	if (found.address != PG_STORE_NONE)
		found.reference = pg_store_find_taught(&book->store, found.address, teacher->owner,
						       teacher->lists);
	return found;
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

static int find_room(struct pg_learned_book *book, const struct pg_learned_teacher *teacher,
		     const struct pg_addr *addr, struct found *ret_found, struct pg_error *err)
{
	const struct pg_book_owner *owner = &book->owners[teacher->owner];
	struct found found = look_up(book, teacher, addr);

	if (found.reference == PG_STORE_NONE && owner->count >= owner->quota)
		return pg_fail(err, -EDQUOT,
			       "all room for addresses of %s is in use (%u of %zu for all names)",
			       book->options.owner_text(book->options.userdata, teacher->owner),
			       owner->quota, book->options.capacity);
	while (found.reference == PG_STORE_NONE &&
	       !pg_book_has_room(book, found.address == PG_STORE_NONE)) {
		if (!pg_book_evict_seen(book))
			return pg_fail(err, -ENOSPC,
				       "all room for learned addresses is in use (%u of %zu)",
				       book->store.addresses.live, book->options.capacity);
		found = look_up(book, teacher, addr);
	}
	if (pg_store_reserve(&book->store) < 0)
		return -ENOMEM;
	*ret_found = found;
	return 0;
}

/* The entry's names have taught the address before; is it the same name now? */
static void renew_taught(struct pg_learned_book *book, uint32_t item,
			 const struct pg_learned_teacher *teacher, uint64_t expires)
{
	const uint32_t name = pg_store_hash_name(&book->store, teacher->name);
	struct pg_store_reference *reference = pg_store_reference(&book->store, item);

	if (reference->name != name && reference->expires > book->world.now() &&
	    !pg_store_address(&book->store, reference->address)->told)
		pg_book_tell_shared(book, reference->address, teacher->name,
				    book->options.owner_text(book->options.userdata,
							     teacher->owner));
	reference->name = name;
	pg_book_renew(book, item, expires);
}

/* An addition with lists. */
static int learn(struct pg_learned_book *book, const struct pg_learned_teacher *teacher,
		 const struct pg_addr *addr, uint64_t expires, struct pg_error *err)
{
	struct pg_store_address *address = NULL;
	struct found found = {};
	int error = find_room(book, teacher, addr, &found, err);

	if (error)
		return error;
	if (found.address != PG_STORE_NONE)
		address = pg_store_address(&book->store, found.address);
	error = put_all(book, address, addr, teacher->lists, expires, err);
	if (error)
		return error;
	if (!address) {
		found.address = pg_store_add_address(&book->store, addr);
		address = pg_store_address(&book->store, found.address);
	}
	note_expiry(address, teacher->lists, expires);
	if (found.reference != PG_STORE_NONE) {
		renew_taught(book, found.reference, teacher, expires);
		return 0;
	}
	pg_book_look_for_shared(book, found.address, teacher->name);
	pg_book_add_reference(book, &(struct pg_store_reference){
					    .expires = expires,
					    .lists = teacher->lists,
					    .address = found.address,
					    .owner = teacher->owner,
					    .name = pg_store_hash_name(&book->store, teacher->name),
				    });
	return 0;
}

int pg_learned_book_add(struct pg_learned_book *book, const struct pg_learned_teacher *teacher,
			const struct pg_addr *addr, uint64_t expires, struct pg_error *err)
{
	struct pg_learned_teacher known = *teacher;
	const uint64_t now = book->world.now();
	char text[PG_ADDR_TEXT];
	int error;

	if ((uint64_t)teacher->lists >> book->options.list_count ||
	    (teacher->lists && teacher->owner >= book->options.owner_count))
		return pg_fail(err, -EINVAL,
			       "no lists %#x of learned addresses, but %zu; no entry %u, but %zu",
			       teacher->lists, book->options.list_count, teacher->owner,
			       book->options.owner_count);
	/* A list that knows no name but localhost has no table, and learns nothing. */
	known.lists &= book->lists_there;
	/* The wheel has no past. */
	if (expires < now)
		expires = now;
	if (!known.lists) {
		pg_book_remember(book, known.name, addr, expires);
		return 0;
	}
	error = learn(book, &known, addr, expires, err);
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

void pg_learned_book_forget(struct pg_learned_book *book, uint32_t owner)
{
	const uint64_t now = book->world.now();

	for (uint32_t i = book->owners[owner].references, next; i != PG_STORE_NONE; i = next) {
		const struct pg_store_reference gone = *pg_store_reference(&book->store, i);

		next = gone.links[PG_STORE_BY_OWNER].next;
		pg_book_drop_reference(book, i);
		let_go(book, gone.address, gone.lists, gone.expires, now);
		pg_book_drop_address_if_empty(book, gone.address);
	}
}
