/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first and last process of each member, and new cgroups in it, by one inotify of the host: for
 * each file that it watches the kernel keeps the inode, which is half of what an open one takes.
 * Who is root in a container of the same user namespace can use up all watches of that user. Then
 * cgroup.events is held open, and what is below a member is heard of by its first packet.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>

#include "base/vector.h"
#include "dns.h"
#include "host_internal.h"

static void change(struct pg_place *place)
{
	if (place->environment->ending) {
		pg_ending_look(place->environment);
		return;
	}
	if (pg_place_is_gone(place))
		return;
	if (place->environment->dns)
		pg_sites_tend(place->environment->dns);
	pg_homes_follow(place->environment);
}

/* Where it is, or would be. The kernel counts up, so a new one is the last as a rule. */
static size_t find_watch(const struct pg_place_watches *watches, int number)
{
	size_t from = 0, to = watches->count;

	while (from < to) {
		const size_t middle = from + (to - from) / 2;

		if (watches->items[middle].number < number)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static int insert_watch(struct pg_place_watches *watches, int number, struct pg_place *place)
{
	struct pg_place_watch *at;

	if (pg_vector_grow(&watches->items, watches->count, &watches->room, sizeof(*at)))
		return -ENOMEM;
	at = &watches->items[find_watch(watches, number)];
	memmove(at + 1, at, (size_t)(watches->items + watches->count - at) * sizeof(*at));
	*at = (struct pg_place_watch){number, place};
	watches->count++;
	return 0;
}

static void drop_watch(struct pg_place_watches *watches, int number)
{
	struct pg_place_watch *at = &watches->items[find_watch(watches, number)];

	watches->count--;
	memmove(at, at + 1, (size_t)(watches->items + watches->count - at) * sizeof(*at));
}

static void hear_one(struct pg_place *place, const struct inotify_event *event)
{
	if (event->mask & IN_MODIFY && event->wd == place->events_watch)
		change(place);
	else if (event->mask & IN_CREATE && event->wd == place->cgroups_watch &&
		 !place->environment->ending)
		pg_homes_follow(place->environment);
}

/* Something was lost, and nobody says of which of them. */
static void hear_all(const struct pg_host *host)
{
	struct pg_environment *environment;

	LIST_FOREACH (environment, &host->environments, link)
		for (size_t i = 0; i < pg_place_count(environment); i++)
			change(&environment->places[i]);
}

static void hear(const struct pg_host *host, const struct inotify_event *event)
{
	const struct pg_place_watches *watches = &host->watches;
	const size_t at = find_watch(watches, event->wd);

	if (event->mask & IN_Q_OVERFLOW)
		hear_all(host);
	else if (at < watches->count && watches->items[at].number == event->wd)
		hear_one(watches->items[at].place, event);
}

static int process_inotify(void *userdata, struct pg_error *err)
{
	const struct pg_host *host = userdata;
	union {
		struct inotify_event event;
		char bytes[4096];
	} buffer;
	const ssize_t got = read(host->inotify_fd, &buffer, sizeof(buffer));
	const struct inotify_event *event;

	for (ssize_t at = 0; at < got; at += (ssize_t)(sizeof(*event) + event->len)) {
		event = (const struct inotify_event *)&buffer.bytes[at];
		hear(host, event);
	}
	return 0;
}

/* Told of each change once (EPOLLET), so that it need not be read, which takes the kernel a page
 * for as long as it is open. */
static int process_events(void *userdata, struct pg_error *err)
{
	struct pg_place *place = userdata;

	if (pg_place_is_gone(place))
		pg_host_remove_source(place->environment->host, place->events_fd, &place->events);
	change(place);
	return 0;
}

/* file: of the cgroup, "" for itself. -1: it is not watched. */
static int add_watch(struct pg_place *place, const char *file, uint32_t mask)
{
	struct pg_host *host = place->environment->host;
	char path[64];
	int number;

	if (host->inotify_fd < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", place->fd, file);
	number = inotify_add_watch(host->inotify_fd, path, mask);
	if (number < 0 || !insert_watch(&host->watches, number, place))
		return number;
	inotify_rm_watch(host->inotify_fd, number);
	return -1;
}

static int hold_open(struct pg_place *place, struct pg_error *err)
{
	struct pg_environment *environment = place->environment;

	place->events_fd = openat(place->fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (place->events_fd < 0)
		return pg_place_is_gone(place)
			       ? 0
			       : pg_fail_errno(err, -errno, "watching cgroup.events of %s",
					       environment->record.name);
	place->events = (struct pg_source){process_events, place};
	return pg_host_add_source(environment->host, place->events_fd, EPOLLPRI | EPOLLET,
				  &place->events, err);
}

static int watch(struct pg_place *place, struct pg_error *err)
{
	place->cgroups_watch = add_watch(place, "", IN_CREATE | IN_ONLYDIR);
	place->events_watch = add_watch(place, "cgroup.events", IN_MODIFY);
	/* Who has come before is not told of. */
	pg_homes_follow(place->environment);
	return place->events_watch < 0 ? hold_open(place, err) : 0;
}

int pg_places_watch(struct pg_environment *environment, struct pg_error *err)
{
	int error = 0;

	for (size_t i = 0; i < pg_place_count(environment) && !error; i++) {
		struct pg_place *place = &environment->places[i];

		if (place->fd >= 0 && place->events_fd < 0 && place->events_watch < 0)
			error = watch(place, err);
	}
	return error;
}

static void remove_watch(struct pg_host *host, int *watch)
{
	if (*watch >= 0) {
		inotify_rm_watch(host->inotify_fd, *watch);
		drop_watch(&host->watches, *watch);
	}
	*watch = -1;
}

void pg_place_unwatch(struct pg_place *place)
{
	struct pg_host *host = place->environment->host;

	remove_watch(host, &place->cgroups_watch);
	remove_watch(host, &place->events_watch);
	if (place->events_fd >= 0)
		pg_host_remove_source(host, place->events_fd, &place->events);
	pg_close_fd(&place->events_fd);
}

int pg_place_watch_open(struct pg_host *host, struct pg_error *err)
{
	host->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	host->inotify = (struct pg_source){process_inotify, host};
	return host->inotify_fd < 0
		       ? 0
		       : pg_host_add_source(host, host->inotify_fd, EPOLLIN, &host->inotify, err);
}
