/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing what is in the slots of outer maps. Private to user/kernel/.
 *
 * The kernel has a change in force at once, but returns from it only after an RCU period, 8 to 20
 * ms later. Threads wait for that: each of what is put, and one of all that is emptied since the
 * last time.
 *
 *   put       the inner map is whole before; a header that names the slot is written only when the
 *             kernel has been seen to have it there (pg_puts_settle())
 *   retired   nothing names it any more, but hook runs may know it: what is in it stays, and a set
 *             may be taken into use again
 *   emptying  a thread waits for those hook runs, puts an empty map there, and waits for those that
 *             have found what was there before
 *   free
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "kernel.h"

struct pg_put {
	LIST_ENTRY(pg_put) link;
	pthread_t thread;
	int outer, inner; /* descriptors */
	uint32_t slot;
	uint32_t id; /* of the inner map */
	int error;   /* the thread's until it is over */
	bool seen, joined;
	atomic_bool over;
};
LIST_HEAD(pg_put_list, pg_put);

/* Slots of one outer map. */
struct pg_emptied {
	int outer, empty;     /* descriptors; what they get: a map that has nothing */
	uint32_t *slots;      /* free() frees it and what follows */
	int *inner;	      /* .empty for each of them */
	uint32_t count, done; /* the latter the thread's until it is over */
};

struct pg_emptying {
	pthread_t thread;
	struct pg_kernel *kernel;
	struct pg_emptied sets, learned;
	bool running; /* it has a thread */
	atomic_bool over;
};

/* Takes the descriptor of the inner map over. */
int pg_outer_put(struct pg_kernel *kernel, int outer, uint32_t slot, int inner, uint32_t id,
		 struct pg_error *err) PG_MUST_CHECK;
/* What was put into slots that the header names is there, or an error: each time, until something
 * else is put there. */
int pg_puts_settle(struct pg_kernel *kernel, const struct pg_header *header,
		   struct pg_error *err) PG_MUST_CHECK;

/* Empties what is retired, and waits until it is free. */
void pg_outer_empty(struct pg_kernel *kernel);
/* Ends all threads. */
void pg_outer_end(struct pg_kernel *kernel);
