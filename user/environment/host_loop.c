/* SPDX-License-Identifier: Apache-2.0 */
/* What the host's one descriptor waits for: the sources that everything in the background has, and
 * their turns. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "host_internal.h"

/* Events handled in one call, so that the caller's own events get their turn. */
#define EVENTS_MAX 16

int pg_host_add_source(struct pg_host *host, int fd, uint32_t events, struct pg_source *source,
		       struct pg_error *err)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	if (epoll_ctl(host->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return pg_fail_errno(err, -errno, "adding a descriptor to the event loop");
	return 0;
}

void pg_host_remove_source(struct pg_host *host, int fd, const struct pg_source *source)
{
	epoll_ctl(host->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	for (size_t i = 0; i < host->turn_count; i++)
		if (host->turn[i] == source)
			host->turn[i] = NULL;
}

int pg_timer_set(int fd, uint64_t after_ns, uint64_t period_ns, struct pg_error *err)
{
	const struct itimerspec setting = {
		.it_value = {.tv_sec = (time_t)(after_ns / PG_NSEC_PER_SEC),
			     .tv_nsec = (long)(after_ns % PG_NSEC_PER_SEC)},
		.it_interval = {.tv_sec = (time_t)(period_ns / PG_NSEC_PER_SEC),
				.tv_nsec = (long)(period_ns % PG_NSEC_PER_SEC)},
	};

	if (timerfd_settime(fd, 0, &setting, NULL))
		return pg_fail_errno(err, -errno, "setting a timer");
	return 0;
}

void pg_timer_acknowledge(int fd)
{
	uint64_t expirations;

	(void)!read(fd, &expirations, sizeof(expirations));
}

int pg_host_add_timer(struct pg_host *host, struct pg_source *source, int *ret_fd,
		      struct pg_error *err)
{
	*ret_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (*ret_fd < 0)
		return pg_fail_errno(err, -errno, "making a timer");
	return pg_host_add_source(host, *ret_fd, EPOLLIN, source, err);
}

int pg_host_fd(const struct pg_host *host)
{
	return host->epoll_fd;
}

int pg_host_process(struct pg_host *host, struct pg_error *err)
{
	struct epoll_event events[EVENTS_MAX];
	struct pg_source *turn[EVENTS_MAX];
	int count = epoll_wait(host->epoll_fd, events, EVENTS_MAX, 0), error = 0;

	if (count < 0 && errno != EINTR)
		return pg_fail_errno(err, -errno, "waiting for events");
	for (int i = 0; i < count; i++)
		turn[i] = events[i].data.ptr;
	host->turn = turn;
	host->turn_count = count > 0 ? (size_t)count : 0;
	/* All of them, since some are told once only. */
	for (size_t i = 0; i < host->turn_count; i++) {
		int failed = turn[i] ? turn[i]->process(turn[i]->userdata, error ? NULL : err) : 0;

		error = error ? error : failed;
	}
	host->turn = NULL;
	host->turn_count = 0;
	return error;
}
