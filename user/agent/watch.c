/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#include "base/clock.h"
#include "base/log.h"
#include "exposures_watch.h"

/* What inotify missed is seen then, also members of which the parent is not watched yet. */
#define LOOK_USEC (PG_NSEC_PER_SEC / PG_NSEC_PER_USEC)

/* A directory in which members are; containers of one runtime have the same as a rule. */
struct parent {
	LIST_ENTRY(parent) link;
	char *path;
	sd_event_source *source;
	bool used;
};

struct pg_watch {
	struct pg_agent *agent;
	LIST_HEAD(parents, parent) parents;
	sd_event_source *timer;
};

static void report(struct pg_agent *agent, const struct pg_managed *managed, size_t member,
		   const char *state)
{
	const struct pg_environment *environment = managed->environment;
	const char *name = pg_environment_name(environment);
	struct pg_json_writer json;

	pg_log_warning("%s: the cgroup %s was made anew: it is %s", name,
		       pg_environment_member(environment, member), state);
	if (!pg_agent_open_event(agent, &json, "member_anew", name))
		return;
	pg_json_write_string(&json, "cgroup", pg_environment_member(environment, member));
	pg_json_write_string(&json, "state", state);
	pg_agent_close_event(agent, &json, pg_environment_owner(environment), name);
}

static int confine(struct pg_agent *agent, const struct pg_managed *managed, size_t member,
		   struct pg_error *err)
{
	struct pg_closing closing;
	int error = pg_environment_reconfine(managed->environment, member, err);

	if (error)
		return error;
	report(agent, managed, member, "confined");
	return pg_environment_close_forbidden(managed->environment, &closing, err);
}

static int look_at(struct pg_agent *agent, struct pg_managed *managed, size_t member,
		   struct pg_error *err)
{
	int error;

	if (pg_environment_member_state(managed->environment, member) != PG_MEMBER_UNCONFINED)
		return 0;
	error = confine(agent, managed, member, err);
	if (error && !managed->told_unconfined) {
		pg_log_error("%s", err->text);
		report(agent, managed, member, "unconfined");
	}
	managed->told_unconfined = error;
	return error;
}

int pg_watch_look(struct pg_agent *agent, struct pg_managed *managed, struct pg_error *err)
{
	const size_t count = pg_environment_member_count(managed->environment);
	int error = 0;

	for (size_t i = 0; i < count; i++) {
		struct pg_error one = {};

		if (look_at(agent, managed, i, &one) < 0) {
			error = one.number;
			*err = one;
		}
	}
	return error;
}

static void look_at_all(struct pg_agent *agent)
{
	struct pg_managed *managed;

	LIST_FOREACH (managed, &agent->environments, link) {
		struct pg_error told = {};

		(void)!pg_watch_look(agent, managed, &told);
		pg_environment_find_addresses(managed->environment);
	}
}

static int on_made(sd_event_source *source, const struct inotify_event *event, void *userdata)
{
	struct pg_watch *watch = userdata;

	look_at_all(watch->agent);
	return 0;
}

static void free_parent(struct parent *parent)
{
	LIST_REMOVE(parent, link);
	sd_event_source_disable_unref(parent->source);
	free(parent->path);
	free(parent);
}

static void add_parent(struct pg_watch *watch, char *path)
{
	struct pg_agent *agent = watch->agent;
	struct parent *parent = calloc(1, sizeof(*parent));
	int r = -ENOMEM;

	if (parent)
		r = sd_event_add_inotify(agent->loop, &parent->source, path,
					 IN_CREATE | IN_MOVED_TO | IN_ONLYDIR, on_made, watch);
	if (r < 0) {
		/* Once a second it is looked at even so. */
		free(parent);
		free(path);
		return;
	}
	parent->path = path;
	parent->used = true;
	LIST_INSERT_HEAD(&watch->parents, parent, link);
}

/* Takes path over. */
static void use_parent(struct pg_watch *watch, char *path)
{
	struct parent *parent;

	LIST_FOREACH (parent, &watch->parents, link) {
		if (strcmp(parent->path, path) != 0)
			continue;
		parent->used = true;
		free(path);
		return;
	}
	add_parent(watch, path);
}

static void use_parents_of(struct pg_watch *watch, const struct pg_environment *environment)
{
	const char *mount = pg_host_cgroup_mount(watch->agent->host);

	for (size_t i = 0; i < pg_environment_member_count(environment); i++) {
		const char *member = pg_environment_member(environment, i);
		const char *end = strrchr(member, '/');
		char *path;

		if (asprintf(&path, "%s%.*s", mount, (int)(end - member), member) >= 0)
			use_parent(watch, path);
	}
}

static void update_parents(struct pg_watch *watch)
{
	const struct pg_managed *managed;
	struct parent *parent, *next;

	LIST_FOREACH (parent, &watch->parents, link)
		parent->used = false;
	LIST_FOREACH (managed, &watch->agent->environments, link)
		if (!pg_environment_made(managed->environment))
			use_parents_of(watch, managed->environment);
	for (parent = LIST_FIRST(&watch->parents); parent; parent = next) {
		next = LIST_NEXT(parent, link);
		if (!parent->used)
			free_parent(parent);
	}
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct pg_watch *watch = userdata;
	uint64_t now;

	update_parents(watch);
	look_at_all(watch->agent);
	pg_exposures_watch_all(watch->agent);
	if (sd_event_now(watch->agent->loop, CLOCK_MONOTONIC, &now) < 0)
		now = usec;
	sd_event_source_set_time(source, now + LOOK_USEC);
	sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

int pg_watch_start(struct pg_agent *agent, struct pg_watch **ret_watch, struct pg_error *err)
{
	struct pg_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return pg_fail(err, -ENOMEM, "no memory to watch members");
	watch->agent = agent;
	LIST_INIT(&watch->parents);
	r = sd_event_add_time(agent->loop, &watch->timer, CLOCK_MONOTONIC, 0, LOOK_USEC / 4,
			      on_timer, watch);
	if (r < 0) {
		free(watch);
		return pg_fail_errno(err, r, "cannot watch members");
	}
	*ret_watch = watch;
	return 0;
}

void pg_watch_stop(struct pg_watch *watch)
{
	struct parent *parent;

	if (!watch)
		return;
	while ((parent = LIST_FIRST(&watch->parents)))
		free_parent(parent);
	sd_event_source_disable_unref(watch->timer);
	free(watch);
}
