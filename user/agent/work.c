/* SPDX-License-Identifier: Apache-2.0 */
#include "work.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent.h"
#include "server.h"

static void end(struct pg_works *works, struct pg_work *work)
{
	pthread_join(work->thread, NULL);
	LIST_REMOVE(work, link);
	works->count--;
	work->free_task(work->task);
	free(work);
}

/* Some are over: who waits goes on, and what nobody waits for goes. */
static int on_over(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct pg_agent *agent = userdata;
	struct pg_work *work = LIST_FIRST(&agent->works.list), *next;
	uint64_t count;

	(void)!read(fd, &count, sizeof(count));
	for (; work; work = next) {
		next = LIST_NEXT(work, link);
		if (work->left && pg_work_is_over(work))
			end(&agent->works, work);
	}
	if (agent->server)
		pg_server_works_over(agent->server);
	return 0;
}

int pg_works_init(struct pg_agent *agent, struct pg_error *err)
{
	struct pg_works *works = &agent->works;
	int r;

	LIST_INIT(&works->list);
	works->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (works->event_fd < 0)
		return pg_fail_errno(err, -errno, "cannot make an event descriptor");
	r = sd_event_add_io(agent->loop, &works->source, works->event_fd, EPOLLIN, on_over, agent);
	return r < 0 ? pg_fail_errno(err, r, "cannot wait for threads") : 0;
}

void pg_works_clear(struct pg_agent *agent)
{
	struct pg_works *works = &agent->works;
	struct pg_work *work;

	LIST_FOREACH (work, &works->list, link)
		atomic_store(&work->cancelled, true);
	while ((work = LIST_FIRST(&works->list)))
		end(works, work);
	sd_event_source_disable_unref(works->source);
	pg_close_fd(&works->event_fd);
}

static void *run(void *userdata)
{
	struct pg_work *work = userdata;
	const int event_fd = work->event_fd;
	const uint64_t one = 1;

	work->run(work);
	atomic_store(&work->over, true);
	/* The loop may have freed it by now, but not without having joined this thread. */
	(void)!write(event_fd, &one, sizeof(one));
	return NULL;
}

int pg_work_start(struct pg_agent *agent, void (*function)(struct pg_work *work),
		  void (*free_task)(void *task), void *task, struct pg_work **ret_work,
		  struct pg_error *err)
{
	struct pg_works *works = &agent->works;
	struct pg_work *work;
	int number;

	if (works->count >= PG_WORKS_MAX)
		return pg_fail(err, -EBUSY, "too many requests wait for a container runtime");
	work = malloc(sizeof(*work));
	if (!work)
		return pg_fail(err, -ENOMEM, "no memory for a thread");
	*work = (struct pg_work){.run = function,
				 .free_task = free_task,
				 .task = task,
				 .event_fd = works->event_fd};
	number = pthread_create(&work->thread, NULL, run, work);
	if (number) {
		free(work);
		return pg_fail_errno(err, -number, "cannot start a thread");
	}
	LIST_INSERT_HEAD(&works->list, work, link);
	works->count++;
	*ret_work = work;
	return 0;
}

void pg_work_leave(struct pg_agent *agent, struct pg_work *work)
{
	atomic_store(&work->cancelled, true);
	work->left = true;
	if (pg_work_is_over(work))
		end(&agent->works, work);
}
