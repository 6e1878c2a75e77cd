/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

struct job {
	void (*work)(void *userdata, size_t number);
	void *userdata;
	size_t number;
	pthread_t thread;
	bool started;
};

static void *run_job(void *argument)
{
	const struct job *job = argument;

	job->work(job->userdata, job->number);
	return NULL;
}

void pg_parallel(size_t count, void (*work)(void *userdata, size_t number), void *userdata)
{
	struct job jobs[PG_PARALLEL_MAX];
	sigset_t all, before;

	/* Of a system call that is denied a thread hears by SIGSYS, and could not go on without. */
	sigfillset(&all);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (size_t i = 0; i < count; i++) {
		jobs[i] = (struct job){.work = work, .userdata = userdata, .number = i};
		/* The first is for the caller itself. */
		jobs[i].started = i && !pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (size_t i = 0; i < count; i++)
		if (!jobs[i].started)
			run_job(&jobs[i]);
	for (size_t i = 0; i < count; i++)
		if (jobs[i].started)
			pthread_join(jobs[i].thread, NULL);
}
