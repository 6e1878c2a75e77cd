/* SPDX-License-Identifier: Apache-2.0 */
/* The first and last process of each member, by cgroup.events. */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "dns.h"
#include "host_internal.h"

static int process_events(void *userdata, struct pg_error *err)
{
	struct pg_place *place = userdata;
	struct pg_environment *environment = place->environment;
	char text[256];

	/* Reading is what makes it wait for the next change. */
	if (pread(place->events_fd, text, sizeof(text), 0) < 0) {
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
	char text[256];

	place->events_fd = openat(place->fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (place->events_fd < 0 || pread(place->events_fd, text, sizeof(text), 0) < 0)
		return pg_place_is_gone(place)
			       ? 0
			       : pg_fail_errno(err, -errno, "watching cgroup.events of %s",
					       environment->record.name);
	place->events = (struct pg_source){process_events, place};
	place->cgroups_watch = pg_homes_watch_cgroup(environment->host, place->fd);
	return pg_host_add_source(environment->host, place->events_fd, EPOLLPRI, &place->events,
				  err);
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
