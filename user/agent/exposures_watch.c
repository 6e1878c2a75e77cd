/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is started in an Environment later: containers in a cgroup that was made for them, members
 * that are started anew. They run when they are seen, so they are told of and not refused, but for
 * rights, with which the kernel lets nothing be executed that is refused (exposures_exec.c). Looked
 * at is the first process of each cgroup, once it has executed the same for a second: before that a
 * runtime sets it up, with all rights.
 */
#include "exposures_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/vector.h"
#include "environment/cgroup.h"
#include "exposures.h"

/* Looks at one that always executes something else. */
#define PATIENCE     5
/* Environments that are looked at in one round, cgroups of one. */
#define ROUND_MAX    256
#define CGROUPS_MAX  256
/* Rounds after which one is looked at that seems not to have changed. */
#define ROUNDS_BLIND 16
#define FILE_OCTETS  4096

/* A cgroup that has a process; forgotten when it has none any more. */
struct candidate {
	uint64_t cgroup;
	uint64_t executes; /* a hash: the process, and its program */
	size_t member;
	unsigned int looks;
	bool seen, there;
};

struct pg_exposure_watch {
	struct candidate *items;
	size_t count, room;
	uint64_t told;		/* kinds that the Environment shows */
	unsigned long children; /* when it was looked at */
	unsigned int rounds;
	bool pending; /* one is to be looked at again in the next round */
	bool again;   /* one was to be in this one */
	bool adopted; /* what is there now was there before this agent */
};

static const struct pg_hash_key key = {.word = {0x6578706f73757265, 0x77617463682d6b65}};

/* One look at one member. */
struct look {
	struct pg_agent *agent;
	struct pg_managed *managed;
	size_t member;
	size_t cgroups;
	struct pg_host_places places;
	bool has_places;
};

static void forget_places(struct look *look)
{
	pg_host_places_clear(&look->places);
}

static struct candidate *find(struct pg_exposure_watch *watch, uint64_t cgroup)
{
	for (size_t i = 0; i < watch->count; i++)
		if (watch->items[i].cgroup == cgroup)
			return &watch->items[i];
	return NULL;
}

/* NULL: no memory. */
static struct candidate *add(struct pg_exposure_watch *watch, size_t member, uint64_t cgroup)
{
	struct candidate *item;

	if (pg_vector_grow(&watch->items, watch->count, &watch->room, sizeof(*watch->items)) < 0)
		return NULL;
	item = &watch->items[watch->count++];
	*item = (struct candidate){.cgroup = cgroup, .member = member};
	return item;
}

static void expect_all(struct pg_exposure_watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		watch->items[i].there = false;
}

static void forget_gone(struct pg_exposure_watch *watch, size_t member)
{
	size_t left = 0;

	for (size_t i = 0; i < watch->count; i++)
		if (watch->items[i].there || watch->items[i].member != member)
			watch->items[left++] = watch->items[i];
	watch->count = left;
}

void pg_exposures_seen(struct pg_managed *managed)
{
	struct pg_exposure_watch *watch = managed->exposure_watch;

	for (size_t i = 0; watch && i < pg_environment_member_count(managed->environment); i++) {
		struct candidate *item =
			add(watch, i, pg_environment_member_id(managed->environment, i));

		if (item)
			item->seen = true;
	}
}

static void remember_told(struct pg_managed *managed)
{
	for (size_t i = 0; i < PG_EXPOSURE_COUNT; i++) {
		char text[64];

		snprintf(text, sizeof(text), "\"id\":\"%s\"",
			 pg_exposure_name((enum pg_exposure_id)i));
		if (strstr(managed->note.exposures, text))
			managed->exposure_watch->told |= PG_EXPOSURE_BIT(i);
	}
}

void pg_exposures_watch(struct pg_managed *managed, bool adopted)
{
	/* Without memory nothing is watched; what was found at the creation was judged. */
	managed->exposure_watch = calloc(1, sizeof(*managed->exposure_watch));
	if (!managed->exposure_watch)
		return;
	managed->exposure_watch->adopted = adopted;
	managed->exposure_watch->children = ULONG_MAX;
	remember_told(managed);
}

void pg_exposures_unwatch(struct pg_managed *managed)
{
	if (managed->exposure_watch)
		free(managed->exposure_watch->items);
	free(PG_TAKE_PTR(managed->exposure_watch));
}

static void report(const struct look *look, const struct pg_exposure *one)
{
	const struct pg_environment *environment = look->managed->environment;
	const char *name = pg_environment_name(environment);
	struct pg_json_writer json;

	pg_log_warning("%s: %s", name, one->text);
	if (!pg_agent_open_event(look->agent, &json, "exposure", name))
		return;
	pg_json_write_string(&json, "exposure", pg_exposure_name(one->id));
	pg_json_write_string(&json, "message", one->text);
	pg_json_write_string(&json, "cgroup", pg_environment_member(environment, one->member));
	pg_agent_close_event(look->agent, &json, pg_environment_owner(environment), name);
}

/* Of each kind the first one is shown of the Environment, and everything is an event. */
static void tell(const struct look *look, const struct pg_exposure_list *found)
{
	struct pg_exposure_watch *watch = look->managed->exposure_watch;
	pg_autoexposures struct pg_exposure_list fresh = {0};

	for (size_t i = 0; i < found->count; i++) {
		const struct pg_exposure *one = &found->items[i];
		const bool told = watch->told & PG_EXPOSURE_BIT(one->id);

		if (!told)
			pg_exposures_add(&fresh, one->id, one->member, "%s", one->text);
		if (look->agent->config->exposures[one->id] != PG_EXPOSURE_LIST &&
		    !(told && watch->adopted))
			report(look, one);
	}
	for (size_t i = 0; i < fresh.count; i++)
		watch->told |= PG_EXPOSURE_BIT(fresh.items[i].id);
	if (fresh.count > 0)
		pg_exposures_keep(look->managed, &fresh);
}

/* The path of a cgroup by its descriptor; "" if it cannot be told. */
static void name_of(int cgroup_fd, const char *mount, char *name, size_t size)
{
	char link[32], path[PATH_MAX];
	const size_t length = strlen(mount);
	ssize_t got;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", cgroup_fd);
	got = readlink(link, path, sizeof(path) - 1);
	path[got > 0 ? got : 0] = '\0';
	snprintf(name, size, "the cgroup %.*s", (int)size - (int)sizeof("the cgroup "),
		 strncmp(path, mount, length) == 0 ? path + length : path);
}

static void inspect(struct look *look, int cgroup_fd, pid_t pid)
{
	const struct pg_environment *environment = look->managed->environment;
	pg_autoexposures struct pg_exposure_list found = {0};
	char name[512];
	struct pg_inspection inspection = {
		.name = name,
		.member = look->member,
		.cgroup = pg_environment_member(environment, look->member),
		.places = &look->places,
		.found = &found,
	};

	if (!look->has_places && pg_exposures_places(look->agent, &look->places) < 0)
		return;
	look->has_places = true;
	name_of(cgroup_fd, pg_host_cgroup_mount(look->agent->host), name, sizeof(name));
	(void)!pg_inspect_process(&inspection, pid);
	pg_inspect_vsock(&inspection);
	tell(look, &found);
}

/* What the process executes; 0: it has ended, or is one of the agent's own, which looks from
 * inside (verify.h). */
static uint64_t program_of(pid_t pid)
{
	char link[32], program[PATH_MAX + 32], own[PATH_MAX];
	const ssize_t own_size = readlink("/proc/self/exe", own, sizeof(own));
	ssize_t size;
	int start;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	start = snprintf(program, sizeof(program), "%d ", pid);
	size = readlink(link, program + start, sizeof(program) - (size_t)start);
	if (size == own_size && memcmp(program + start, own, (size_t)size) == 0)
		return 0;
	return size < 0 ? 0 : pg_hash(&key, program, (size_t)(start + size)) | 1;
}

static bool first_process(int cgroup_fd, pid_t *ret_pid)
{
	pg_autofree pid_t *pids = NULL;
	struct pg_error unused = {};
	size_t count = 0;

	if (pg_cgroup_pids(cgroup_fd, &pids, &count, &unused) < 0 || count == 0)
		return false;
	*ret_pid = pids[0];
	return true;
}

static int look_at_cgroup(void *userdata, int cgroup_fd)
{
	struct look *look = userdata;
	struct pg_exposure_watch *watch = look->managed->exposure_watch;
	struct candidate *item;
	struct pg_error unused = {};
	uint64_t id, program;
	pid_t pid;

	if (look->cgroups++ == CGROUPS_MAX)
		return 1;
	if (pg_cgroup_id(cgroup_fd, &id, &unused) < 0 || !first_process(cgroup_fd, &pid))
		return 0;
	item = find(watch, id);
	item = item ? item : add(watch, look->member, id);
	if (!item)
		return 0;
	item->there = true;
	program = item->seen ? 0 : program_of(pid);
	if (program == 0)
		return 0;
	if (program != item->executes && ++item->looks < PATIENCE) {
		item->executes = program;
		watch->pending = true;
		return 0;
	}
	item->seen = true;
	inspect(look, cgroup_fd, pid);
	return 0;
}

/* Whether there may be anything new. */
static bool has_changed(struct pg_exposure_watch *watch, int cgroup_fd)
{
	char text[FILE_OCTETS];
	unsigned long children = 0;
	const char *field;
	bool changed;

	if (pg_file_read_small_at(cgroup_fd, "cgroup.events", text, sizeof(text)) < 0 ||
	    strstr(text, "populated 0")) {
		watch->children = ULONG_MAX;
		return false;
	}
	if (pg_file_read_small_at(cgroup_fd, "cgroup.stat", text, sizeof(text)) >= 0 &&
	    (field = strstr(text, "nr_descendants ")))
		children = strtoul(field + strlen("nr_descendants "), NULL, 10);
	changed =
		watch->again || children != watch->children || ++watch->rounds % ROUNDS_BLIND == 0;
	watch->children = children;
	return changed;
}

static void look_at_member(struct look *look, int mount_fd)
{
	const struct pg_environment *environment = look->managed->environment;
	const char *path = pg_environment_member(environment, look->member);
	struct pg_exposure_watch *watch = look->managed->exposure_watch;
	pg_autoclose int fd = -1;
	struct pg_error unused = {};

	if (pg_cgroup_open(mount_fd, path + 1, &fd, &unused) < 0 || !has_changed(watch, fd))
		return;
	look->cgroups = 0;
	expect_all(watch);
	if (pg_cgroup_walk(fd, look_at_cgroup, look) == 0)
		forget_gone(watch, look->member);
}

static void look_at(struct pg_agent *agent, struct pg_managed *managed, int mount_fd)
{
	PG_CLEANUP(forget_places) struct look look = {.agent = agent, .managed = managed};
	struct pg_exposure_watch *watch = managed->exposure_watch;
	const size_t count = pg_environment_member_count(managed->environment);

	if (!watch)
		return;
	watch->again = watch->pending;
	watch->pending = false;
	/* Of one that was attached to only what has been started anew is new. */
	for (; look.member < count; look.member++) {
		const uint64_t id = pg_environment_member_id(managed->environment, look.member);
		const struct candidate *item = find(watch, id);

		if (pg_environment_made(managed->environment) || !item || !item->seen)
			look_at_member(&look, mount_fd);
	}
	if (!watch->pending)
		watch->adopted = false;
}

/* Each round some of them: all in turn. */
void pg_exposures_watch_all(struct pg_agent *agent)
{
	pg_autoclose int mount_fd =
		open(pg_host_cgroup_mount(agent->host), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct pg_managed *managed;
	size_t place = 0;

	if (mount_fd < 0 || agent->environment_count == 0)
		return;
	LIST_FOREACH (managed, &agent->environments, link) {
		const size_t from = agent->exposures_from % agent->environment_count;
		const size_t ahead =
			(place++ + agent->environment_count - from) % agent->environment_count;

		if (ahead < ROUND_MAX)
			look_at(agent, managed, mount_fd);
	}
	agent->exposures_from += ROUND_MAX;
}
