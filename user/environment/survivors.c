/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that were started in a phase and are still alive: they could wait for a wider one. */
#include "host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/vector.h"
#include "base/wait.h"

/* The fields of /proc/PID/stat from the state on; that of the start time is the 22nd of all. */
#define START_TIME_FIELD 22
/* A process that forks all the time loses the race, but not at the first try. */
#define PASSES_MAX	 1000
/* How long a process may take to stop; one in a system call that cannot be interrupted. */
#define STOP_MS		 2000

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

/* Reads a file of the process whole; -ESRCH or -ENOENT if it is gone. */
static int read_process(pid_t pid, const char *file, char *buffer, size_t size)
{
	char path[64];
	pg_autoclose int fd = -1;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, buffer, size - 1);
	if (got < 0)
		return -errno;
	buffer[got] = '\0';
	return 0;
}

/* Start time in clock ticks since boot, and the state as proc(5) has it. */
static int read_start(pid_t pid, uint64_t *ret_ticks, char *ret_state)
{
	char text[1024], *at;
	int error = read_process(pid, "stat", text, sizeof(text));

	if (error)
		return error;
	/* The command may hold anything, also parentheses. */
	at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return -EIO;
	at += 2;
	*ret_state = *at;
	for (int field = 3; field < START_TIME_FIELD; field++) {
		at = strchr(at, ' ');
		if (!at)
			return -EIO;
		at++;
	}
	*ret_ticks = strtoull(at, NULL, 10);
	return 0;
}

static bool is_dead(char state)
{
	return state == 'Z' || state == 'X';
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
	if (!read_process(pid, "comm", command, sizeof(command)))
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
	for (size_t i = 0; i < count && !error; i++) {
		uint64_t ticks;
		char state;

		/* 0: a process that this pid namespace does not show. */
		if (pids[i] <= 0)
			return -EOPNOTSUPP;
		error = read_start(pids[i], &ticks, &state);
		if (pg_cgroup_is_gone(error))
			error = 0;
		else if (!error && !is_dead(state) && ticks >= listing->since_ticks)
			error = add_survivor(listing, cgroup_fd, pids[i]);
	}
	return error;
}

int pg_environment_survivors(const struct pg_environment *environment, uint64_t since_ns,
			     struct pg_survivors *ret_survivors, struct pg_error *err)
{
	const uint64_t tick_ns = PG_NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	struct listing listing = {
		.environment = environment,
		.since_ticks = since_ns / tick_ns,
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
static int send_signal(const struct pg_survivor *survivor, uint64_t since_ticks, int number)
{
	pg_autoclose int fd = (int)syscall(SYS_pidfd_open, survivor->pid, 0);
	uint64_t ticks;
	char state;
	int error;

	if (fd < 0)
		return errno == ESRCH ? 0 : -errno;
	error = read_start(survivor->pid, &ticks, &state);
	if (pg_cgroup_is_gone(error) || (!error && (is_dead(state) || ticks < since_ticks)))
		return 0;
	if (!error && syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) && errno != ESRCH)
		error = -errno;
	return error;
}

static struct pg_survivor *find(const struct pg_survivors *survivors, pid_t pid)
{
	for (size_t i = 0; i < survivors->count; i++)
		if (survivors->items[i].pid == pid)
			return &survivors->items[i];
	return NULL;
}

/* Those that are new go to the list of all; *ret_new counts them. */
static int merge(struct pg_survivors *all, size_t *room, struct pg_survivors *found,
		 size_t *ret_new)
{
	*ret_new = 0;
	for (size_t i = 0; i < found->count; i++) {
		if (find(all, found->items[i].pid))
			continue;
		if (pg_vector_grow(&all->items, all->count, room, sizeof(*all->items)))
			return -ENOMEM;
		all->items[all->count] = found->items[i];
		found->items[i].cgroup = NULL;
		all->count++;
		++*ret_new;
	}
	return 0;
}

/* Until cgroup.events says so. */
static int wait_frozen(int cgroup_fd)
{
	const uint64_t deadline = pg_monotonic_ns() + STOP_MS * PG_NSEC_PER_MSEC;
	bool frozen;
	int error;

	while (!(error = pg_cgroup_frozen(cgroup_fd, &frozen, NULL)) && !frozen) {
		if (pg_monotonic_ns() > deadline)
			return -ETIMEDOUT;
		(void)!pg_wait_readable(-1, -1, 1);
	}
	return error;
}

/* A cgroup in which nobody else is can be frozen whole, with those that it starts meanwhile. */
static int freeze_cgroup(void *userdata, int cgroup_fd)
{
	struct pg_survivors *survivors = userdata;
	pg_autofree pid_t *pids = NULL;
	size_t count = 0;
	int error = pg_cgroup_pids(cgroup_fd, &pids, &count, NULL);

	if (error)
		return pg_cgroup_is_gone(error) ? 0 : error;
	for (size_t i = 0; i < count; i++)
		if (!find(survivors, pids[i]))
			return 0;
	/* Freezing is for what is below as well: there nobody else may be either. */
	if (!count || pg_cgroup_has_children(cgroup_fd))
		return 0;
	error = pg_file_write_at(cgroup_fd, "cgroup.freeze", "1", NULL);
	if (!error)
		error = wait_frozen(cgroup_fd);
	for (size_t i = 0; i < count && !error; i++)
		find(survivors, pids[i])->frozen = true;
	return pg_cgroup_is_gone(error) ? 0 : error;
}

static int freeze_cgroups(struct pg_environment *environment, struct pg_survivors *survivors)
{
	for (size_t i = 0; i < pg_place_count(environment); i++) {
		const struct pg_place *place = &environment->places[i];
		int error = pg_place_is_gone(place)
				    ? 0
				    : pg_cgroup_walk(place->fd, freeze_cgroup, survivors);

		if (error && !pg_cgroup_is_gone(error))
			return error;
	}
	return 0;
}

/* Until it does not run any more: a signal takes its time to a process on another CPU. */
static int wait_stopped(const struct pg_survivor *survivor)
{
	const uint64_t deadline = pg_monotonic_ns() + STOP_MS * PG_NSEC_PER_MSEC;
	uint64_t ticks;
	char state;

	while (!read_start(survivor->pid, &ticks, &state) && !strchr("TtZX", state)) {
		if (pg_monotonic_ns() > deadline)
			return -ETIMEDOUT;
		(void)!pg_wait_readable(-1, -1, 1);
	}
	return 0;
}

static int stop_others(const struct pg_survivors *survivors, uint64_t since_ticks)
{
	int error = 0, failed;

	for (size_t i = 0; i < survivors->count; i++) {
		failed = survivors->items[i].frozen
				 ? 0
				 : send_signal(&survivors->items[i], since_ticks, SIGSTOP);
		error = error ? error : failed;
	}
	for (size_t i = 0; i < survivors->count && !error; i++)
		if (!survivors->items[i].frozen)
			error = wait_stopped(&survivors->items[i]);
	return error;
}

static int kill_all(const struct pg_survivors *survivors, uint64_t since_ticks)
{
	int error = 0, failed;

	for (size_t i = 0; i < survivors->count; i++) {
		failed = send_signal(&survivors->items[i], since_ticks, SIGKILL);
		error = error ? error : failed;
	}
	(void)!pg_wait_readable(-1, -1, 1);
	return error;
}

int pg_environment_end_survivors(struct pg_environment *environment, uint64_t since_ns,
				 enum pg_survivor_end how, struct pg_survivors *ret_survivors,
				 struct pg_error *err)
{
	const uint64_t tick_ns = PG_NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	const uint64_t ticks = since_ns / tick_ns;
	size_t room = 0, added;
	int error = 0;

	*ret_survivors = (struct pg_survivors){};
	for (int pass = 0; pass < PASSES_MAX; pass++) {
		PG_CLEANUP(pg_survivors_clear) struct pg_survivors found = {};

		error = pg_environment_survivors(environment, since_ns, &found, err);
		if (error)
			return error;
		error = merge(ret_survivors, &room, &found, &added);
		/* Killed ones must be gone, stopped ones stay: then none may be new. */
		if (!error && (how == PG_SURVIVORS_KILL ? !found.count : !added))
			return 0;
		if (!error && how == PG_SURVIVORS_KILL)
			error = kill_all(ret_survivors, ticks);
		else if (!error)
			error = freeze_cgroups(environment, ret_survivors);
		if (!error && how == PG_SURVIVORS_FREEZE)
			error = stop_others(ret_survivors, ticks);
		if (error)
			return pg_fail_errno(err, error, "ending the survivors in %s",
					     environment->record.name);
	}
	return pg_fail(err, -ETIMEDOUT, "processes of %s go on starting others",
		       environment->record.name);
}

static int thaw_cgroup(void *userdata, int cgroup_fd)
{
	pg_autofree pid_t *pids = NULL;
	size_t count = 0;
	int error = pg_file_write_at(cgroup_fd, "cgroup.freeze", "0", NULL);

	if (!error)
		error = pg_cgroup_pids(cgroup_fd, &pids, &count, NULL);
	for (size_t i = 0; i < count; i++)
		if (pids[i] > 0)
			kill(pids[i], SIGCONT);
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
