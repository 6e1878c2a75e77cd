/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request has to wait for elsewhere, as for a container runtime's answer: done in a thread
 * of its own while the loop serves others. The request waits, and is handled again when the work is
 * over.
 *
 * A thread reads of the agent only what does not change while it runs: the settings, and where
 * cgroup2 is mounted. Children that begin inside an Environment (clone3()) must not allocate memory
 * before they execute something: a thread may have held malloc's locks.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "base/error.h"

struct pg_agent;

struct pg_work {
	LIST_ENTRY(pg_work) link;
	pthread_t thread;
	void (*run)(struct pg_work *work);
	void (*free_task)(void *task);
	void *task; /* the thread's while it runs */
	int event_fd;
	bool left; /* nobody waits for it */
	atomic_bool over;
	/* The thread shall end soon. */
	atomic_bool cancelled;
};
LIST_HEAD(pg_work_list, pg_work);

struct pg_works {
	struct pg_work_list list;
	size_t count;
	int event_fd;
	sd_event_source *source;
};

/* One a connection, and those whose client has left, for the second until they notice. */
#define PG_WORKS_MAX 512

int pg_works_init(struct pg_agent *agent, struct pg_error *err) PG_MUST_CHECK;
/* Cancels what is left, and waits for it. */
void pg_works_clear(struct pg_agent *agent);

/* Takes the task over, unless it fails. -EBUSY: there are too many. */
int pg_work_start(struct pg_agent *agent, void (*function)(struct pg_work *work),
		  void (*free_task)(void *task), void *task, struct pg_work **ret_work,
		  struct pg_error *err) PG_MUST_CHECK;
static inline bool pg_work_is_over(const struct pg_work *work)
{
	return atomic_load(&work->over);
}
/* Nobody waits for it any more. It goes with its task, if it is not over a little later. */
void pg_work_leave(struct pg_agent *agent, struct pg_work *work);
