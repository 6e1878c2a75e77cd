/* SPDX-License-Identifier: Apache-2.0 */
/* Private to user/kernel/. */
#pragma once

#include <links.skel.h>
#include <phasegate.skel.h>

#include <phasegate/abi/set.h>
#include <phasegate/abi/state.h>

#include "kernel.h"
#include "outer.h"

struct pg_prefix;
struct ring_buffer;

/* A bit per slot of the outer maps, and per state. */
struct pg_slots {
	uint32_t max; /* a multiple of 64 */
	uint64_t used[PG_SLOT_MAX / 64];
	/* Of these, those that a hook run may know, but nothing names any more: outer.h. */
	uint64_t retired[PG_SLOT_MAX / 64];
};

/* What a slot of pg_sets has; all zero: nothing. */
struct pg_set_use {
	uint64_t digest;
	uint32_t id;   /* of the inner map */
	uint32_t refs; /* 0: it is retired */
	uint8_t tables;
};

/* What an Environment has in pg_own. */
struct pg_own_list {
	uint64_t env_id;
	struct pg_addr *items;
	size_t count, room;
};
/* By env_id; none is empty. */
struct pg_own_book {
	struct pg_own_list *lists;
	size_t count, room;
};

struct pg_kernel {
	struct phasegate_bpf *skeleton;
	struct links_bpf *links; /* link_load.c; NULL: not loaded */
	uint32_t link_new;	 /* handle of link_new.c's filters */
	struct ring_buffer *events;
	pg_event_sink sink;
	void *sink_userdata;
	bool pinned, adopted;
	/* pg_states, mapped; NULL if that is not possible. */
	uint64_t *states;
	struct pg_flow_count *flow_counts; /* pg_flow_counts, mapped */
	struct pg_slots set_slots, learned_slots, state_slots;
	struct pg_set_use sets[PG_SLOT_MAX];
	struct pg_put_list puts;
	size_t put_count; /* of them, with a thread that was not joined yet */
	struct pg_emptying emptying;
	struct pg_own_book own;
};

/* Lowest free slot, marked as used; 0 if there is none. Slot 0 is never given out. */
uint32_t pg_slot_take(struct pg_kernel *kernel, struct pg_slots *slots);
/* No hook run knows it. */
void pg_slot_release(struct pg_slots *slots, uint32_t slot);
/* Nothing names it any more. */
void pg_slot_retire(struct pg_slots *slots, uint32_t slot);
/* It is not retired any more, but in use. */
void pg_slot_revive(struct pg_slots *slots, uint32_t slot);
uint32_t pg_slots_retired(const struct pg_slots *slots);
/* All that are retired are free. */
void pg_slots_reclaim(struct pg_slots *slots);
/* Whether it was free; it is not any more. */
bool pg_slot_occupy(struct pg_slots *slots, uint32_t slot);
static inline bool pg_slot_is_used(const struct pg_slots *slots, uint32_t slot)
{
	return slots->used[slot / 64] >> slot % 64 & 1;
}
static inline bool pg_slot_is_retired(const struct pg_slots *slots, uint32_t slot)
{
	return slots->retired[slot / 64] >> slot % 64 & 1;
}

/* What pg_slots has of the slot. */
struct pg_slot_use pg_slot_use_read(const struct pg_kernel *kernel, uint32_t slot);
int pg_slot_use_write(struct pg_kernel *kernel, uint32_t slot, const struct pg_slot_use *use,
		      struct pg_error *err) PG_MUST_CHECK;
/* set.c, learned.c: pg_slots has nothing of it any more. */
void pg_set_forget(struct pg_kernel *kernel, uint32_t slot);
void pg_learned_forget(struct pg_kernel *kernel, uint32_t slot);

/* put.c: a thread that gets no signals. Returns a negative errno. */
int pg_thread_start(pthread_t *ret_thread, void *(*function)(void *userdata),
		    void *userdata) PG_MUST_CHECK;
/* What was put is there, or has failed, of which pg_puts_settle() tells. */
void pg_puts_see(struct pg_kernel *kernel);
/* Forgets those that are over, and did not fail. */
void pg_puts_reap(struct pg_kernel *kernel);
/* Whether one of them still has to be waited for. */
bool pg_puts_wait(const struct pg_kernel *kernel);
void pg_puts_end(struct pg_kernel *kernel);

/* load.c: an RCU period */
void pg_wait_for_hooks(const struct pg_kernel *kernel);

/* state.c: maps pg_states; without that the states are written by system calls. */
void pg_states_map(struct pg_kernel *kernel);
void pg_states_unmap(struct pg_kernel *kernel);
/* Sets every state to 0 that is not in use; returns how many were not 0. */
size_t pg_states_sweep(struct pg_kernel *kernel);

/* link_new.c: the same for all processes with the pins. */
uint32_t pg_link_new_handle(const char *pins);

/* flow.c: maps pg_flow_counts. */
int pg_flow_counts_map(struct pg_kernel *kernel, struct pg_error *err) PG_MUST_CHECK;
void pg_flow_counts_unmap(struct pg_kernel *kernel);

/* accepted.c: of states that are in use by nobody. */
void pg_accepted_sweep(struct pg_kernel *kernel);
/* Of a state whose Environment has ended, or that is about to be used: its hooks are off. */
void pg_accepted_forget(struct pg_kernel *kernel, uint32_t state);

/* own.c: of pinned maps, before anything else is done with pg_own. */
int pg_own_read(struct pg_kernel *kernel, struct pg_error *err) PG_MUST_CHECK;
/* ff02::1:ffXX:XXXX, RFC 4291, 2.7.1; none for IPv4. */
bool pg_own_group(const struct pg_own_key *address, struct pg_own_key *ret_group);

/* own_book.c; -ENOMEM. The list of an Environment stays where it is until another is added. */
struct pg_own_list *pg_own_book_find(const struct pg_own_book *book, uint64_t env_id);
int pg_own_book_add(struct pg_own_book *book, uint64_t env_id,
		    const struct pg_addr *addr) PG_MUST_CHECK;
void pg_own_book_remove(struct pg_own_book *book, uint64_t env_id, const struct pg_addr *addr);
void pg_own_book_clear(struct pg_own_book *book);
/* From the map; puts the counts of the groups right. */
int pg_own_book_read(struct pg_own_book *book, int own, int groups) PG_MUST_CHECK;

/* forget.c: deletes the keys of a hash of at most so many which begin with env_id. */
void pg_keys_forget(int map, size_t key_size, size_t most, uint64_t env_id);

/* pins.c: before the load, takes pinned maps for those of the object; after it, pins them. */
int pg_maps_adopt(struct pg_kernel *kernel, const char *pins, bool *ret_adopted,
		  struct pg_error *err) PG_MUST_CHECK;
int pg_maps_pin(struct pg_kernel *kernel, const char *pins, struct pg_error *err) PG_MUST_CHECK;

/* pg_fail_errno() with advice on locked memory where EPERM can mean that (before Linux 5.11). */
int pg_fail_map(struct pg_error *err, int number, const char *operation, const char *name,
		size_t bytes);
