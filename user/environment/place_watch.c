/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first and last process of each member, by cgroup.events: told of each change once (EPOLLET),
 * so that it need not be read, which takes the kernel a page for as long as it is open.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "dns.h"
#include "host_internal.h"

static int process_events(void *userdata, struct pg_error *err)
{
	struct pg_place *place = userdata;
	struct pg_environment *environment = place->environment;

	if (pg_place_is_gone(place)) {
		pg_host_remove_source(environment->host, place->events_fd, &place->events);
		return 0;
	}
	if (environment->dns)
		pg_sites_tend(environment->dns);
	pg_homes_follow(environment);
	return 0;
}

static int watch(struct pg_place *place, struct pg_error *err)
{
	struct pg_environment *environment = place->environment;

	place->events_fd = openat(place->fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (place->events_fd < 0)
		return pg_place_is_gone(place)
			       ? 0
			       : pg_fail_errno(err, -errno, "watching cgroup.events of %s",
					       environment->record.name);
	place->events = (struct pg_source){process_events, place};
	place->cgroups_watch = pg_homes_watch_cgroup(environment->host, place->fd);
	return pg_host_add_source(environment->host, place->events_fd, EPOLLPRI | EPOLLET,
				  &place->events, err);
}

int pg_places_watch(struct pg_environment *environment, struct pg_error *err)
{
	int error = 0;

	for (size_t i = 0; i < pg_place_count(environment) && !error; i++)
		if (environment->places[i].fd >= 0 && environment->places[i].events_fd < 0)
			error = watch(&environment->places[i], err);
	return error;
}

void pg_places_unwatch(struct pg_environment *environment)
{
	for (size_t i = 0; i < pg_place_count(environment); i++) {
		struct pg_place *place = &environment->places[i];

		if (place->events_fd >= 0) {
			pg_host_remove_source(environment->host, place->events_fd, &place->events);
			pg_homes_unwatch_cgroup(environment->host, place->cgroups_watch);
			place->cgroups_watch = -1;
		}
		pg_close_fd(&place->events_fd);
	}
}
