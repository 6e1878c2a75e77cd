/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the book of learned addresses (learned.h): arrays of addresses, names, and references
 * of one to the other, linked by their numbers. Nothing here knows the kernel's tables or rules.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "net/addr.h"

/* Items are numbered from 1 on, so that arrays of numbers begin as zeroed memory, which costs
 * nothing until it is used. */
#define PG_STORE_NONE 0

/* Items of one size; those let go are used again. */
struct pg_slab {
	char *items;
	size_t size;
	uint32_t room, used, live;
	uint32_t free; /* first of the free ones, whose first word is the number of the next */
};

struct pg_store_link {
	uint32_t next, prev; /* prev of the first is the last */
};

struct pg_store_address {
	struct pg_addr addr;
	uint32_t references; /* the first */
	uint32_t lists;	     /* in whose tables in the kernel it is */
	uint32_t next;	     /* of those that drain */
	uint8_t seen;	     /* references without lists */
	bool draining : 1;   /* is one of those */
	bool told : 1;	     /* that it is shared */
	bool used : 1;	     /* by an open socket */
	uint64_t expires[];  /* what the kernel's tables say, by list */
};

/* A name that was only seen. */
struct pg_store_name {
	char *text;
	uint32_t references; /* how many */
	uint32_t hash;
};

/* Lists that a reference is in. */
enum pg_store_order {
	PG_STORE_BY_ADDRESS,
	PG_STORE_BY_OWNER,
	PG_STORE_BY_TIME,
	PG_STORE_ORDERS
};

/*
 * Who says that an address is that of a name: an entry, whose names may have taught it any number
 * of times, or a name that was only seen.
 *
 * Packed: a quarter million of them in a megabyte less is worth two loads for one.
 */
struct __attribute__((packed, aligned(4))) pg_store_reference {
	uint64_t expires;
	uint32_t lists; /* of the names that taught the address; 0: only seen */
	uint32_t address;
	uint32_t owner; /* with lists: the entry */
	uint32_t name;	/* with lists: hash of one that taught it; without: the name's number */
	struct pg_store_link links[PG_STORE_ORDERS];
};

struct pg_store {
	struct pg_slab addresses, names, references;
	struct pg_hash_key key;
	struct pg_hash_table by_addr, by_text, by_holding;
};

void pg_store_init(struct pg_store *store, size_t list_count);
void pg_store_clear(struct pg_store *store);

static inline struct pg_store_address *pg_store_address(const struct pg_store *store, uint32_t i)
{
	return (void *)(store->addresses.items + i * store->addresses.size);
}

static inline struct pg_store_name *pg_store_name(const struct pg_store *store, uint32_t i)
{
	return (struct pg_store_name *)store->names.items + i;
}

static inline struct pg_store_reference *pg_store_reference(const struct pg_store *store,
							    uint32_t i)
{
	return (struct pg_store_reference *)store->references.items + i;
}

static inline uint32_t pg_store_next(const struct pg_store *store, enum pg_store_order order,
				     uint32_t reference)
{
	return pg_store_reference(store, reference)->links[order].next;
}

/* Makes room for one more of each; pointers into the store move. -ENOMEM changes nothing. */
int pg_store_reserve(struct pg_store *store) PG_MUST_CHECK;

/* PG_STORE_NONE: not there. */
uint32_t pg_store_find_address(const struct pg_store *store, const struct pg_addr *addr);
uint32_t pg_store_find_name(const struct pg_store *store, const char *text);
/* The reference of the entry with these lists; of the name that was only seen. */
uint32_t pg_store_find_taught(const struct pg_store *store, uint32_t address, uint32_t owner,
			      uint32_t lists);
uint32_t pg_store_find_seen(const struct pg_store *store, uint32_t address, uint32_t name);
uint32_t pg_store_hash_name(const struct pg_store *store, const char *text);

/* There must be room (pg_store_reserve()), and the item must not be there. */
uint32_t pg_store_add_address(struct pg_store *store, const struct pg_addr *addr);
uint32_t pg_store_add_name(struct pg_store *store, const char *text); /* NONE: no memory */
/* The first of its address's (and, without lists, one more of its name's), in no other order. */
uint32_t pg_store_add_reference(struct pg_store *store, const struct pg_store_reference *reference);

/* Also from the list of its address; neither from others, nor do address and name go. */
void pg_store_drop_reference(struct pg_store *store, uint32_t item);
/* Without references. */
void pg_store_drop_address(struct pg_store *store, uint32_t item);
void pg_store_drop_name(struct pg_store *store, uint32_t item);

void pg_store_push(struct pg_store *store, enum pg_store_order order, uint32_t *first,
		   uint32_t reference);
void pg_store_unlink(struct pg_store *store, enum pg_store_order order, uint32_t *first,
		     uint32_t reference);
