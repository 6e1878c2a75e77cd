/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing: all of an Environment for a moment, or survivors until the next run. */
#include "survivors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/wait.h"
#include "steps.h"

#define FROZEN_STEM "frozen-"
#define FROZEN_SIZE (sizeof(FROZEN_STEM) + 8)
/* How long a process may take to freeze. */
#define FREEZE_MS   1000

static int write_freeze(int cgroup_fd, bool freeze)
{
	return pg_file_write_at(cgroup_fd, "cgroup.freeze", freeze ? "1" : "0", NULL);
}

/* Whether it is to be frozen by itself, whatever is above it. */
static bool is_to_be_frozen(int cgroup_fd)
{
	pg_autofree char *text = NULL;
	size_t size;

	return !pg_file_read_at(cgroup_fd, "cgroup.freeze", 16, &text, &size, NULL) &&
	       text[0] == '1';
}

static uint64_t freeze_deadline(void)
{
	return pg_monotonic_ns() + FREEZE_MS * PG_NSEC_PER_MSEC;
}

/* Until cgroup.events says so; -ETIMEDOUT. */
static int wait_frozen(int cgroup_fd, uint64_t deadline)
{
	bool frozen = false;
	int error;

	while (!(error = pg_cgroup_frozen(cgroup_fd, &frozen, NULL)) && !frozen) {
		if (pg_monotonic_ns() > deadline)
			return -ETIMEDOUT;
		(void)!pg_wait_readable(-1, -1, 1);
	}
	return error;
}

int pg_hold(struct pg_environment *environment, struct pg_error *err)
{
	const uint64_t deadline = freeze_deadline();
	int error;

	environment->held = 0;
	for (size_t i = 0; i < pg_place_count(environment); i++)
		if (!pg_place_is_gone(&environment->places[i]) &&
		    !is_to_be_frozen(environment->places[i].fd))
			environment->held |= 1ULL << i;
	error = pg_environment_save(environment, err);
	if (error) {
		environment->held = 0;
		return error;
	}
	for (size_t i = 0; i < pg_place_count(environment); i++)
		if (environment->held & 1ULL << i)
			(void)!write_freeze(environment->places[i].fd, true);
	for (size_t i = 0; i < pg_place_count(environment); i++)
		if (environment->held & 1ULL << i)
			(void)!wait_frozen(environment->places[i].fd, deadline);
	pg_step(PG_STEP_HELD);
	return 0;
}

void pg_hold_end(struct pg_environment *environment)
{
	struct pg_error err = {};

	if (!environment->held)
		return;
	for (size_t i = 0; i < pg_place_count(environment); i++)
		if (environment->held & 1ULL << i && environment->places[i].fd >= 0)
			(void)!write_freeze(environment->places[i].fd, false);
	environment->held = 0;
	/* The next owner would end it once more, which does no harm. */
	if (pg_environment_save(environment, &err))
		pg_host_warn(environment->host, "state", err.text);
}

/* The last component of the path of an open cgroup. */
static void name_of(int cgroup_fd, char name[static NAME_MAX + 1])
{
	char link[64], path[PATH_MAX];
	const char *last;
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", cgroup_fd);
	length = readlink(link, path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = '\0';
	last = strrchr(path, '/');
	snprintf(name, NAME_MAX + 1, "%.*s", NAME_MAX, last ? last + 1 : "");
}

/* By its name; who can make one of that name can thaw any, too. */
static bool is_ours(int cgroup_fd, char name[static NAME_MAX + 1])
{
	name_of(cgroup_fd, name);
	return strlen(name) == FROZEN_SIZE - 1 &&
	       !strncmp(name, FROZEN_STEM, sizeof(FROZEN_STEM) - 1) &&
	       strspn(name + sizeof(FROZEN_STEM) - 1, "0123456789abcdef") == 8;
}

static int make_frozen(int cgroup_fd, int *ret_fd)
{
	char name[FROZEN_SIZE];
	uint32_t random;
	int error;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -errno;
	snprintf(name, sizeof(name), FROZEN_STEM "%08" PRIx32, random);
	if (mkdirat(cgroup_fd, name, 0755))
		return -errno;
	error = pg_cgroup_open(cgroup_fd, name, ret_fd, NULL);
	return error ? error : write_freeze(*ret_fd, true);
}

static int move(int cgroup_fd, const char *file, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	return pg_file_write_at(cgroup_fd, file, text, NULL);
}

struct freezing {
	struct pg_environment *environment;
	const struct pg_survivors *survivors;
	uint64_t since_ticks;
	size_t killed;
};

static bool is_listed(const struct freezing *freezing, pid_t pid)
{
	for (size_t i = 0; i < freezing->survivors->count; i++)
		if (freezing->survivors->items[i].pid == pid)
			return true;
	return false;
}

/* Children come before their parents, so that none is met again where it has been moved to. */
static int freeze_in_cgroup(void *userdata, int cgroup_fd)
{
	struct freezing *freezing = userdata;
	pg_autofree pid_t *pids = NULL;
	pg_autoclose int frozen_fd = -1;
	char name[NAME_MAX + 1];
	size_t count = 0;
	int error;

	if (is_ours(cgroup_fd, name) && is_to_be_frozen(cgroup_fd))
		return 0;
	error = pg_cgroup_pids(cgroup_fd, &pids, &count, NULL);
	for (size_t i = 0; i < count && !error; i++) {
		if (!is_listed(freezing, pids[i]))
			continue;
		error = frozen_fd < 0 ? make_frozen(cgroup_fd, &frozen_fd) : 0;
		if (!error)
			error = move(frozen_fd, "cgroup.procs", pids[i]);
		if (!error || error == -ESRCH) {
			error = 0;
			continue;
		}
		error = pg_survivor_kill(pids[i], freezing->since_ticks);
		freezing->killed++;
	}
	if (!error && frozen_fd >= 0)
		error = wait_frozen(frozen_fd, freeze_deadline());
	return pg_cgroup_is_gone(error) ? 0 : error;
}

static void report_killed(const struct freezing *freezing)
{
	char text[128];

	if (!freezing->killed)
		return;
	snprintf(text, sizeof(text), "%zu survivors could not be frozen and were killed",
		 freezing->killed);
	pg_host_warn(freezing->environment->host, "survivors_killed", text);
}

int pg_survivors_freeze(struct pg_environment *environment, uint64_t since_ns,
			struct pg_survivors *ret_survivors, struct pg_error *err)
{
	struct freezing freezing = {
		.environment = environment,
		.survivors = ret_survivors,
		.since_ticks = pg_survivor_ticks(since_ns),
	};
	int error = pg_environment_survivors(environment, since_ns, ret_survivors, err);

	if (error)
		return error;
	for (size_t i = 0; i < pg_place_count(environment) && !error; i++) {
		const struct pg_place *place = &environment->places[i];

		if (!pg_place_is_gone(place))
			error = pg_cgroup_walk(place->fd, freeze_in_cgroup, &freezing);
		error = pg_cgroup_is_gone(error) ? 0 : error;
	}
	report_killed(&freezing);
	return error ? pg_fail_errno(err, error, "freezing the survivors in %s",
				     environment->record.name)
		     : 0;
}

/* Where they were, unless that has become the parent of cgroups with controllers. */
static int thaw_cgroup(void *userdata, int cgroup_fd)
{
	pg_autofree pid_t *pids = NULL;
	char name[NAME_MAX + 1], path[NAME_MAX + 8];
	size_t count = 0;
	int error;

	if (!is_ours(cgroup_fd, name))
		return 0;
	error = pg_cgroup_pids(cgroup_fd, &pids, &count, NULL);
	for (size_t i = 0; i < count && !error; i++)
		if (pids[i] > 0)
			(void)!move(cgroup_fd, "../cgroup.procs", pids[i]);
	if (!error)
		error = write_freeze(cgroup_fd, false);
	snprintf(path, sizeof(path), "../%s", name);
	(void)!unlinkat(cgroup_fd, path, AT_REMOVEDIR);
	return pg_cgroup_is_gone(error) ? 0 : error;
}

int pg_environment_thaw(struct pg_environment *environment, struct pg_error *err)
{
	for (size_t i = 0; i < pg_place_count(environment); i++) {
		const struct pg_place *place = &environment->places[i];
		int error =
			pg_place_is_gone(place) ? 0 : pg_cgroup_walk(place->fd, thaw_cgroup, NULL);

		if (error && !pg_cgroup_is_gone(error))
			return pg_fail_errno(err, error, "thawing %s",
					     pg_place_path(environment, i));
	}
	return 0;
}
