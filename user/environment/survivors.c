/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that were started in a phase and are still alive: they could wait for a wider one. */
#include "survivors.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/vector.h"
#include "base/wait.h"
#include "steps.h"

/* The fields of /proc/PID/stat; the state is the third. */
#define THREADS_FIELD	 20
#define START_TIME_FIELD 22

struct listing {
	const struct pg_environment *environment;
	size_t place;
	uint64_t since_ticks;
	struct pg_survivors *survivors;
	size_t room;
};

void pg_survivors_clear(struct pg_survivors *survivors)
{
	for (size_t i = 0; i < survivors->count; i++)
		free(survivors->items[i].cgroup);
	free(survivors->items);
	*survivors = (struct pg_survivors){};
}

/* -ESRCH or -ENOENT if it is gone. */
static ssize_t read_process(pid_t pid, const char *file, char *buffer, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return pg_file_read_small_at(AT_FDCWD, path, buffer, size);
}

struct process {
	uint64_t ticks; /* of its start, in clock ticks since boot */
	bool is_dead;
};

static int read_stat(pid_t pid, struct process *ret_process)
{
	char text[1024], *at, state;
	unsigned long threads = 0;
	const ssize_t got = read_process(pid, "stat", text, sizeof(text));

	if (got < 0)
		return (int)got;
	/* The command may hold anything, also parentheses. */
	at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return -EIO;
	at += 2;
	state = *at;
	for (int field = 3; field < START_TIME_FIELD; field++) {
		at = strchr(at, ' ');
		if (!at)
			return -EIO;
		at++;
		if (field + 1 == THREADS_FIELD)
			threads = strtoul(at, NULL, 10);
	}
	ret_process->ticks = strtoull(at, NULL, 10);
	/* Its first thread may have ended, and others live: that is a zombie in name only. */
	ret_process->is_dead = (state == 'Z' || state == 'X') && threads <= 1;
	return 0;
}

/* Whether it lives and was started then or later; else a negative errno, or 0. */
static int is_survivor(pid_t pid, uint64_t since_ticks)
{
	struct process process;
	int error = read_stat(pid, &process);

	if (error)
		return pg_cgroup_is_gone(error) ? 0 : error;
	return !process.is_dead && process.ticks >= since_ticks;
}

/* The path below the mount of the member's cgroup or one below it. */
static char *path_of(const struct listing *listing, int cgroup_fd)
{
	const char *mount = listing->environment->host->cgroup_mount;
	char link[64], target[PATH_MAX];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", cgroup_fd);
	length = readlink(link, target, sizeof(target) - 1);
	if (length < 0 || (size_t)length <= strlen(mount) ||
	    strncmp(target, mount, strlen(mount)) != 0)
		return strdup(pg_place_path(listing->environment, listing->place));
	target[length] = '\0';
	return strdup(target + strlen(mount));
}

static int add_survivor(struct listing *listing, int cgroup_fd, pid_t pid)
{
	struct pg_survivors *survivors = listing->survivors;
	struct pg_survivor *survivor;
	char command[32] = "";

	if (pg_vector_grow(&survivors->items, survivors->count, &listing->room,
			   sizeof(*survivors->items)))
		return -ENOMEM;
	survivor = &survivors->items[survivors->count];
	*survivor = (struct pg_survivor){.pid = pid, .cgroup = path_of(listing, cgroup_fd)};
	if (!survivor->cgroup)
		return -ENOMEM;
	if (read_process(pid, "comm", command, sizeof(command)) >= 0)
		command[strcspn(command, "\n")] = '\0';
	snprintf(survivor->command, sizeof(survivor->command), "%.15s", command);
	survivors->count++;
	return 0;
}

static int list_cgroup(void *userdata, int cgroup_fd)
{
	struct listing *listing = userdata;
	pg_autofree pid_t *pids = NULL;
	size_t count = 0;
	int error = pg_cgroup_pids(cgroup_fd, &pids, &count, NULL);

	if (error)
		return pg_cgroup_is_gone(error) ? 0 : error;
	for (size_t i = 0; i < count && error >= 0; i++) {
		/* 0: a process that this pid namespace does not show. */
		if (pids[i] <= 0)
			return -EOPNOTSUPP;
		error = is_survivor(pids[i], listing->since_ticks);
		if (error > 0)
			error = add_survivor(listing, cgroup_fd, pids[i]);
	}
	return error;
}

uint64_t pg_survivor_ticks(uint64_t since_ns)
{
	return since_ns / (PG_NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
}

int pg_environment_survivors(const struct pg_environment *environment, uint64_t since_ns,
			     struct pg_survivors *ret_survivors, struct pg_error *err)
{
	struct listing listing = {
		.environment = environment,
		.since_ticks = pg_survivor_ticks(since_ns),
		.survivors = ret_survivors,
	};

	*ret_survivors = (struct pg_survivors){};
	for (; listing.place < pg_place_count(environment); listing.place++) {
		const struct pg_place *place = &environment->places[listing.place];
		int error;

		if (pg_place_is_gone(place))
			continue;
		error = pg_cgroup_walk(place->fd, list_cgroup, &listing);
		if (error && !pg_cgroup_is_gone(error))
			return pg_fail_errno(err, error, "listing the processes of %s",
					     pg_place_path(environment, listing.place));
	}
	return 0;
}

/* By descriptor, and looked at once more: the pid may be somebody else's by now. */
int pg_survivor_kill(pid_t pid, uint64_t since_ticks)
{
	pg_autoclose int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	int error;

	if (fd < 0)
		return errno == ESRCH ? 0 : -errno;
	error = is_survivor(pid, since_ticks);
	if (error > 0)
		error = syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) && errno != ESRCH
				? -errno
				: 0;
	return error;
}

static bool has(const struct pg_survivors *survivors, pid_t pid)
{
	for (size_t i = 0; i < survivors->count; i++)
		if (survivors->items[i].pid == pid)
			return true;
	return false;
}

/* Those that are new go to the list of all. */
static int merge(struct pg_survivors *all, size_t *room, struct pg_survivors *found)
{
	for (size_t i = 0; i < found->count; i++) {
		if (has(all, found->items[i].pid))
			continue;
		if (pg_vector_grow(&all->items, all->count, room, sizeof(*all->items)))
			return -ENOMEM;
		all->items[all->count++] = found->items[i];
		found->items[i].cgroup = NULL;
	}
	return 0;
}

/* Until none is there: those that could not be held may have started others. */
static int kill_all(const struct pg_environment *environment, uint64_t since_ns,
		    struct pg_survivors *all, struct pg_error *err)
{
	const uint64_t deadline = pg_monotonic_ns() + PG_CGROUP_KILL_MS * PG_NSEC_PER_MSEC;
	size_t room = 0;

	for (;;) {
		PG_CLEANUP(pg_survivors_clear) struct pg_survivors found = {};
		int error = pg_environment_survivors(environment, since_ns, &found, err);

		if (error || !found.count)
			return error;
		if (pg_monotonic_ns() > deadline)
			return pg_fail(err, -ETIMEDOUT,
				       "%zu processes of %s do not end; paused ones (as by `docker"
				       " pause`) do once they go on",
				       found.count, environment->record.name);
		for (size_t i = 0; i < found.count && !error; i++)
			error = pg_survivor_kill(found.items[i].pid, pg_survivor_ticks(since_ns));
		if (!error)
			error = merge(all, &room, &found);
		if (error)
			return pg_fail_errno(err, error, "ending the survivors in %s",
					     environment->record.name);
		(void)!pg_wait_readable(-1, -1, 1);
	}
}

int pg_environment_end_survivors(struct pg_environment *environment, uint64_t since_ns,
				 enum pg_survivor_end how, struct pg_survivors *ret_survivors,
				 struct pg_error *err)
{
	PG_CLEANUP(pg_survivors_clear) struct pg_survivors seen = {};
	int error = pg_environment_survivors(environment, since_ns, &seen, err);

	*ret_survivors = (struct pg_survivors){};
	if (error || !seen.count)
		return error;
	error = pg_hold(environment, err);
	if (error)
		return error;
	switch (how) {
	case PG_SURVIVORS_KILL:
		error = kill_all(environment, since_ns, ret_survivors, err);
		break;
	case PG_SURVIVORS_FREEZE:
		error = pg_survivors_freeze(environment, since_ns, ret_survivors, err);
		break;
	}
	pg_step(PG_STEP_SURVIVORS_ENDED);
	pg_hold_end(environment);
	return error;
}
