/* SPDX-License-Identifier: Apache-2.0 */
/* Putting maps into the slots of outer maps. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kernel_internal.h"

/* Threads at once; another put waits for one of them. */
#define PUTS_MAX 64

static void *put(void *userdata)
{
	struct pg_put *put = userdata;

	if (bpf_map_update_elem(put->outer, &put->slot, &put->inner, BPF_ANY))
		put->error = -errno;
	pg_close_fd(&put->inner);
	atomic_store(&put->over, true);
	return NULL;
}

int pg_thread_start(pthread_t *ret_thread, void *(*function)(void *userdata), void *userdata)
{
	sigset_t all, before;
	int number;

	/* Signals are for the threads that expect them. */
	sigfillset(&all);
	number = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (number)
		return -number;
	number = pthread_create(ret_thread, NULL, function, userdata);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -number;
}

static void join(struct pg_kernel *kernel, struct pg_put *put)
{
	if (put->joined)
		return;
	pthread_join(put->thread, NULL);
	put->joined = put->seen = true;
	kernel->put_count--;
}

static void forget(struct pg_kernel *kernel, struct pg_put *put)
{
	join(kernel, put);
	LIST_REMOVE(put, link);
	free(put);
}

/* One that has failed is kept: a set may have more than one who is to be told. */
static void reap(struct pg_kernel *kernel)
{
	struct pg_put *put, *next;

	for (put = LIST_FIRST(&kernel->puts); put; put = next) {
		next = LIST_NEXT(put, link);
		if (!atomic_load(&put->over))
			continue;
		join(kernel, put);
		if (!put->error)
			forget(kernel, put);
	}
}

/* Any will do: all wait for the same period. */
static void make_room(struct pg_kernel *kernel)
{
	struct pg_put *put;

	reap(kernel);
	LIST_FOREACH (put, &kernel->puts, link)
		if (kernel->put_count >= PUTS_MAX)
			join(kernel, put);
	reap(kernel);
}

/* What was put there before is nobody's any more. */
static void forget_earlier(struct pg_kernel *kernel, int outer, uint32_t slot)
{
	struct pg_put *put, *next;

	for (put = LIST_FIRST(&kernel->puts); put; put = next) {
		next = LIST_NEXT(put, link);
		if (put->outer == outer && put->slot == slot)
			forget(kernel, put);
	}
}

int pg_outer_put(struct pg_kernel *kernel, int outer, uint32_t slot, int inner, uint32_t id,
		 struct pg_error *err)
{
	struct pg_put *new = malloc(sizeof(*new));

	if (!new) {
		close(inner);
		return pg_fail(err, -ENOMEM, "not enough memory to fill slot %u", slot);
	}
	make_room(kernel);
	forget_earlier(kernel, outer, slot);
	*new = (struct pg_put){.outer = outer, .inner = inner, .slot = slot, .id = id};
	LIST_INSERT_HEAD(&kernel->puts, new, link);
	if (pg_thread_start(&new->thread, put, new)) {
		put(new);
		new->joined = true;
	} else {
		kernel->put_count++;
	}
	return 0;
}

static void see(struct pg_kernel *kernel, struct pg_put *put)
{
	uint32_t id;

	if (put->seen)
		return;
	if (!atomic_load(&put->over) && !bpf_map_lookup_elem(put->outer, &put->slot, &id) &&
	    id == put->id)
		put->seen = true;
	else
		join(kernel, put);
}

void pg_puts_see(struct pg_kernel *kernel)
{
	struct pg_put *put;

	LIST_FOREACH (put, &kernel->puts, link)
		see(kernel, put);
}

static bool is_named(const struct pg_kernel *kernel, const struct pg_put *put,
		     const struct pg_header *header)
{
	const struct pg_phase_slot *slots = &header->slots[0][0];
	const bool learned = put->outer == bpf_map__fd(kernel->skeleton->maps.pg_learned_sets);

	for (size_t i = 0; i < PG_BANK_COUNT * PG_PHASE_COUNT; i++)
		if (learned ? slots[i].learned == put->slot
			    : slots[i].tables && slots[i].set == put->slot)
			return true;
	return !learned && header->ceiling_tables && header->ceiling == put->slot;
}

int pg_puts_settle(struct pg_kernel *kernel, const struct pg_header *header, struct pg_error *err)
{
	struct pg_put *put;

	LIST_FOREACH (put, &kernel->puts, link) {
		if (!is_named(kernel, put, header))
			continue;
		see(kernel, put);
		if (put->joined && put->error)
			return pg_fail_errno(err, put->error, "putting a map into slot %u",
					     put->slot);
	}
	return 0;
}

bool pg_puts_wait(const struct pg_kernel *kernel)
{
	return kernel->put_count;
}

void pg_puts_end(struct pg_kernel *kernel)
{
	struct pg_put *put;

	while ((put = LIST_FIRST(&kernel->puts)))
		forget(kernel, put);
}

void pg_puts_reap(struct pg_kernel *kernel)
{
	reap(kernel);
}
