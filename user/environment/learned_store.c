/* SPDX-License-Identifier: Apache-2.0 */
#include "learned_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLAB_MIN 64

static int slab_reserve(struct pg_slab *slab)
{
	const uint32_t room = slab->room ? 2 * slab->room : SLAB_MIN;
	char *items;

	if (slab->free != PG_STORE_NONE || slab->used < slab->room)
		return 0;
	/* What has not been used yet costs no memory: the kernel gives pages as they are touched.
	 */
	items = reallocarray(slab->items, room, slab->size);
	if (!items)
		return -ENOMEM;
	slab->items = items;
	slab->room = room;
	return 0;
}

static uint32_t slab_take(struct pg_slab *slab)
{
	uint32_t item = slab->free;

	if (item == PG_STORE_NONE)
		item = slab->used++;
	else
		memcpy(&slab->free, slab->items + item * slab->size, sizeof(slab->free));
	memset(slab->items + item * slab->size, 0, slab->size);
	slab->live++;
	return item;
}

static void slab_release(struct pg_slab *slab, uint32_t item)
{
	memcpy(slab->items + item * slab->size, &slab->free, sizeof(slab->free));
	slab->free = item;
	slab->live--;
}

void pg_store_init(struct pg_store *store, size_t list_count)
{
	*store = (struct pg_store){
		.addresses = {.size = sizeof(struct pg_store_address) +
				      list_count * sizeof(uint64_t)},
		.names = {.size = sizeof(struct pg_store_name)},
		.references = {.size = sizeof(struct pg_store_reference)},
	};
	/* The first is none. */
	store->addresses.used = store->names.used = store->references.used = 1;
	pg_hash_key_make(&store->key);
}

void pg_store_clear(struct pg_store *store)
{
	uint32_t name;

	for (size_t i = 0; i < store->by_text.size; i++) {
		name = store->by_text.places[i].item;
		if (name)
			free(pg_store_name(store, name - 1)->text);
	}
	pg_hash_table_clear(&store->by_addr);
	pg_hash_table_clear(&store->by_text);
	pg_hash_table_clear(&store->by_holding);
	free(store->addresses.items);
	free(store->names.items);
	free(store->references.items);
}

int pg_store_reserve(struct pg_store *store)
{
	if (slab_reserve(&store->addresses) < 0 || slab_reserve(&store->names) < 0 ||
	    slab_reserve(&store->references) < 0 || pg_hash_table_reserve(&store->by_addr, 1) < 0 ||
	    pg_hash_table_reserve(&store->by_text, 1) < 0 ||
	    pg_hash_table_reserve(&store->by_holding, 1) < 0)
		return -ENOMEM;
	return 0;
}

static uint64_t hash_addr(const struct pg_store *store, const struct pg_addr *addr)
{
	return pg_hash(&store->key, addr, sizeof(*addr));
}

static uint64_t hash_text(const struct pg_store *store, const char *text)
{
	return pg_hash(&store->key, text, strlen(text));
}

uint32_t pg_store_find_address(const struct pg_store *store, const struct pg_addr *addr)
{
	const uint64_t hash = hash_addr(store, addr);
	uint32_t item;

	for (size_t cursor = 0; pg_hash_table_next(&store->by_addr, hash, &cursor, &item);)
		if (!memcmp(&pg_store_address(store, item)->addr, addr, sizeof(*addr)))
			return item;
	return PG_STORE_NONE;
}

uint32_t pg_store_find_name(const struct pg_store *store, const char *text)
{
	const uint64_t hash = hash_text(store, text);
	uint32_t item;

	for (size_t cursor = 0; pg_hash_table_next(&store->by_text, hash, &cursor, &item);)
		if (!strcmp(pg_store_name(store, item)->text, text))
			return item;
	return PG_STORE_NONE;
}

uint32_t pg_store_hash_name(const struct pg_store *store, const char *text)
{
	return (uint32_t)hash_text(store, text);
}

/* What tells references apart. */
struct holding {
	uint32_t address, lists;
	uint32_t holder; /* the entry, or the name */
};

static struct holding holding_of(const struct pg_store_reference *reference)
{
	return (struct holding){
		.address = reference->address,
		.lists = reference->lists,
		.holder = reference->lists ? reference->owner : reference->name,
	};
}

static uint64_t hash_holding(const struct pg_store *store, const struct holding *holding)
{
	return pg_hash(&store->key, holding, sizeof(*holding));
}

static uint32_t find_reference(const struct pg_store *store, const struct holding *wanted)
{
	const uint64_t hash = hash_holding(store, wanted);
	uint32_t item;

	for (size_t cursor = 0; pg_hash_table_next(&store->by_holding, hash, &cursor, &item);) {
		const struct holding found = holding_of(pg_store_reference(store, item));

		if (found.address == wanted->address && found.lists == wanted->lists &&
		    found.holder == wanted->holder)
			return item;
	}
	return PG_STORE_NONE;
}

uint32_t pg_store_find_taught(const struct pg_store *store, uint32_t address, uint32_t owner,
			      uint32_t lists)
{
	return find_reference(store, &(struct holding){address, lists, owner});
}

uint32_t pg_store_find_seen(const struct pg_store *store, uint32_t address, uint32_t name)
{
	return find_reference(store, &(struct holding){address, 0, name});
}

uint32_t pg_store_add_address(struct pg_store *store, const struct pg_addr *addr)
{
	const uint32_t item = slab_take(&store->addresses);
	struct pg_store_address *address = pg_store_address(store, item);

	address->addr = *addr;
	pg_hash_table_add(&store->by_addr, hash_addr(store, addr), item);
	return item;
}

uint32_t pg_store_add_name(struct pg_store *store, const char *text)
{
	const uint64_t hash = hash_text(store, text);
	char *copy = strdup(text);
	uint32_t item;

	if (!copy)
		return PG_STORE_NONE;
	item = slab_take(&store->names);
	*pg_store_name(store, item) = (struct pg_store_name){.text = copy, .hash = (uint32_t)hash};
	pg_hash_table_add(&store->by_text, hash, item);
	return item;
}

uint32_t pg_store_add_reference(struct pg_store *store, const struct pg_store_reference *reference)
{
	const struct holding holding = holding_of(reference);
	const uint32_t item = slab_take(&store->references);
	struct pg_store_address *address = pg_store_address(store, reference->address);

	*pg_store_reference(store, item) = *reference;
	pg_store_push(store, PG_STORE_BY_ADDRESS, &address->references, item);
	pg_hash_table_add(&store->by_holding, hash_holding(store, &holding), item);
	if (!reference->lists) {
		address->seen++;
		pg_store_name(store, reference->name)->references++;
	}
	return item;
}

void pg_store_drop_reference(struct pg_store *store, uint32_t item)
{
	const struct pg_store_reference *reference = pg_store_reference(store, item);
	const struct holding holding = holding_of(reference);
	struct pg_store_address *address = pg_store_address(store, reference->address);

	if (!reference->lists) {
		address->seen--;
		pg_store_name(store, reference->name)->references--;
	}
	pg_hash_table_remove(&store->by_holding, hash_holding(store, &holding), item);
	pg_store_unlink(store, PG_STORE_BY_ADDRESS, &address->references, item);
	slab_release(&store->references, item);
}

void pg_store_drop_address(struct pg_store *store, uint32_t item)
{
	pg_hash_table_remove(&store->by_addr,
			     hash_addr(store, &pg_store_address(store, item)->addr), item);
	slab_release(&store->addresses, item);
}

void pg_store_drop_name(struct pg_store *store, uint32_t item)
{
	struct pg_store_name *name = pg_store_name(store, item);

	pg_hash_table_remove(&store->by_text, name->hash, item);
	free(name->text);
	slab_release(&store->names, item);
}

void pg_store_push(struct pg_store *store, enum pg_store_order order, uint32_t *first,
		   uint32_t reference)
{
	struct pg_store_link *link = &pg_store_reference(store, reference)->links[order];

	*link = (struct pg_store_link){.next = *first, .prev = reference};
	if (*first != PG_STORE_NONE) {
		struct pg_store_link *second = &pg_store_reference(store, *first)->links[order];

		link->prev = second->prev;
		second->prev = reference;
	}
	*first = reference;
}

void pg_store_unlink(struct pg_store *store, enum pg_store_order order, uint32_t *first,
		     uint32_t reference)
{
	const struct pg_store_link link = pg_store_reference(store, reference)->links[order];

	if (*first == reference)
		*first = link.next;
	else
		pg_store_reference(store, link.prev)->links[order].next = link.next;
	/* Whose prev was this one: the next, or the first if this was the last. */
	if (link.next != PG_STORE_NONE)
		pg_store_reference(store, link.next)->links[order].prev = link.prev;
	else if (*first != PG_STORE_NONE)
		pg_store_reference(store, *first)->links[order].prev = link.prev;
}
