/* SPDX-License-Identifier: Apache-2.0 */
/* Putting maps into the slots of outer maps. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>

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

static void join(struct pg_put *put)
{
	if (!put->joined)
		pthread_join(put->thread, NULL);
	put->joined = put->seen = true;
}

static void forget(struct pg_kernel *kernel, struct pg_put *put)
{
	join(put);
	LIST_REMOVE(put, link);
	kernel->put_count--;
	free(put);
}

/* One that has failed is kept for whoever is to be told. */
static void reap(struct pg_kernel *kernel)
{
	struct pg_put *put, *next;

	for (put = LIST_FIRST(&kernel->puts); put; put = next) {
		next = LIST_NEXT(put, link);
		if (!atomic_load(&put->over))
			continue;
		join(put);
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
			join(put);
	reap(kernel);
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
	*new = (struct pg_put){.outer = outer, .inner = inner, .slot = slot, .id = id};
	LIST_INSERT_HEAD(&kernel->puts, new, link);
	kernel->put_count++;
	if (pg_thread_start(&new->thread, put, new)) {
		put(new);
		new->joined = true;
	}
	return 0;
}

static void see(struct pg_put *put)
{
	uint32_t id;

	if (put->seen)
		return;
	if (!atomic_load(&put->over) && !bpf_map_lookup_elem(put->outer, &put->slot, &id) &&
	    id == put->id)
		put->seen = true;
	else
		join(put);
}

void pg_puts_see(struct pg_kernel *kernel)
{
	struct pg_put *put;

	LIST_FOREACH (put, &kernel->puts, link)
		see(put);
}

int pg_puts_settle(struct pg_kernel *kernel, struct pg_error *err)
{
	struct pg_put *put, *next;
	int error = 0;

	for (put = LIST_FIRST(&kernel->puts); put; put = next) {
		next = LIST_NEXT(put, link);
		see(put);
		if (!put->joined || !put->error)
			continue;
		error = pg_fail_errno(err, put->error, "putting a map into slot %u", put->slot);
		forget(kernel, put);
	}
	return error;
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
