/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that a member had before it was confined, which the hooks have not marked when they were
 * made. UDP ones are marked with their namespace, or what they answer would not be known. Raw IPv6
 * ones without a mark would pass for the kernel's, whose neighbour discovery is always allowed; so
 * the kernel says which raw ICMPv6 sockets there are in the member's network namespaces: one that
 * was not found in its processes is looked for in all, each thread's own table of descriptors too,
 * and one that is in none (it is on its way between two of them, SCM_RIGHTS, or io_uring has it)
 * must come into one, or the member is not confined.
 */
#include "host_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/file.h"
#include "base/netns.h"
#include "base/process.h"
#include "base/vector.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14 */
#endif
/* One that is handed over takes microseconds to come out of the queue, if its receiver wants it. */
#define TRIES	 6
#define PAUSE_NS (50L * 1000 * 1000)
/* A workload may make any number of them; with more than some thousands it is not confined. */
#define LIST_MAX (1024UL * 1024)

struct inodes {
	ino_t *inode;
	size_t count, room;
};

struct marking {
	const struct pg_environment *environment;
	struct pg_mark datagram; /* of a UDP socket, without its namespace */
	struct inodes marked;
	/* Those that are looked for; all if it is NULL. */
	const struct inodes *wanted;
};

static bool has(const struct inodes *inodes, ino_t inode)
{
	for (size_t i = 0; i < inodes->count; i++)
		if (inodes->inode[i] == inode)
			return true;
	return false;
}

static int add(struct inodes *inodes, ino_t inode)
{
	int error;

	if (has(inodes, inode))
		return 0;
	error = pg_vector_grow(&inodes->inode, inodes->count, &inodes->room,
			       sizeof(*inodes->inode));
	if (!error)
		inodes->inode[inodes->count++] = inode;
	return error;
}

static void clear(struct inodes *inodes)
{
	free(inodes->inode);
}

static int option(int fd, int name)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &size) ? -1 : value;
}

static int mark_raw(struct marking *marking, int fd)
{
	struct stat status;
	int error = pg_socket_mark(marking->environment->host->kernel, fd,
				   &(const struct pg_mark){.kind = PG_MARK_RAW});

	if (!error && fstat(fd, &status))
		error = -errno;
	return error ? error : add(&marking->marked, status.st_ino);
}

/* Before Linux 5.14 the namespace is not told, and stays 0. */
static int mark_datagram(const struct marking *marking, int fd)
{
	struct pg_mark mark = marking->datagram;
	uint64_t cookie;
	socklen_t size = sizeof(cookie);

	if (!getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size))
		mark.netns = cookie;
	return pg_socket_mark(marking->environment->host->kernel, fd, &mark);
}

/* The descriptor of the other process, by its number; what is closed meanwhile needs no mark. */
static int mark_descriptor(struct marking *marking, int pid_fd, int number)
{
	pg_autoclose int fd = (int)syscall(SYS_pidfd_getfd, pid_fd, number, 0);
	int family, type;

	if (fd < 0)
		return errno == EBADF || errno == ESRCH ? 0 : -errno;
	family = option(fd, SO_DOMAIN);
	type = option(fd, SO_TYPE);
	if (family == AF_INET6 && type == SOCK_RAW)
		return mark_raw(marking, fd);
	/* Somebody else's, where only raw ones are looked for. */
	if (marking->wanted || type != SOCK_DGRAM || option(fd, SO_PROTOCOL) != IPPROTO_UDP)
		return 0;
	return family == AF_INET || family == AF_INET6 ? mark_datagram(marking, fd) : 0;
}

static int mark_listed(struct marking *marking, int pid_fd, DIR *dir)
{
	struct dirent *entry;
	int error = 0;

	while (!error && (entry = readdir(dir))) {
		char target[32] = "";
		uintmax_t inode;

		if (readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1) > 0 &&
		    sscanf(target, "socket:[%ju]", &inode) == 1 &&
		    (!marking->wanted || has(marking->wanted, (ino_t)inode)))
			error = mark_descriptor(marking, pid_fd, atoi(entry->d_name));
	}
	return error;
}

static int mark_process(struct marking *marking, pid_t pid)
{
	const pid_t living = pg_process_living(pid);
	pg_autoclose int pid_fd =
		(int)syscall(SYS_pidfd_open, living, living == pid ? 0U : PIDFD_THREAD);
	pg_autoclosedir DIR *dir = NULL;
	char path[64];

	/* Before Linux 6.9, see mark_threads(); what is not found may not answer. */
	if (pid_fd < 0 && errno == EINVAL && living != pid)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)living);
	if (pid_fd >= 0)
		dir = opendir(path);
	if (!dir)
		return pg_cgroup_is_gone(-errno) ? 0 : -errno;
	return mark_listed(marking, pid_fd, dir);
}

static int mark_cgroup(void *userdata, int cgroup_fd)
{
	pg_autofree pid_t *pids = NULL;
	size_t count = 0;
	int error = pg_cgroup_pids(cgroup_fd, &pids, &count, NULL);

	for (size_t i = 0; i < count && !error; i++)
		error = mark_process(userdata, pids[i]);
	return pg_cgroup_is_gone(error) ? 0 : error;
}

/* What the threads of a process have. Before Linux 6.9 nobody can reach what only one that is not
 * the first has: such a one is not found. */
static void mark_threads(struct marking *marking, int proc_fd, const char *pid)
{
	pg_autoclosedir DIR *tasks = NULL;
	struct dirent *task;
	char path[sizeof(task->d_name) + 8];
	int fd;

	snprintf(path, sizeof(path), "%s/task", pid);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	tasks = fd >= 0 ? fdopendir(fd) : NULL;
	while (tasks && (task = readdir(tasks))) {
		const unsigned int flags = strcmp(task->d_name, pid) != 0 ? PIDFD_THREAD : 0;
		const int tid = atoi(task->d_name);
		pg_autoclosedir DIR *dir = NULL;
		pg_autoclose int pid_fd = -1;

		snprintf(path, sizeof(path), "%d/fd", tid);
		fd = tid <= 0 ? -1 : openat(dirfd(tasks), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		dir = fd >= 0 ? fdopendir(fd) : NULL;
		if (dir)
			pid_fd = (int)syscall(SYS_pidfd_open, tid, flags);
		if (pid_fd >= 0)
			(void)!mark_listed(marking, pid_fd, dir);
	}
}

static void mark_everywhere(struct marking *marking)
{
	pg_autoclosedir DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			mark_threads(marking, dirfd(proc), entry->d_name);
}

/* Adds those of the text of a namespace's /proc/net/raw6 that speak ICMPv6 and are not marked. */
static int add_unmarked(const struct marking *marking, char *text, struct inodes *unmarked)
{
	char *rest = text, *line = strsep(&rest, "\n"); /* the head */
	int error = 0;

	while (!error && (line = strsep(&rest, "\n"))) {
		unsigned int protocol;
		uintmax_t inode;

		if (sscanf(line, "%*u: %*32[0-9A-F]:%x %*s %*s %*s %*s %*s %*s %*s %ju", &protocol,
			   &inode) == 2 &&
		    protocol == IPPROTO_ICMPV6 && !has(&marking->marked, (ino_t)inode))
			error = add(unmarked, (ino_t)inode);
	}
	return error;
}

/* Without IPv6 there is no such file. */
static int look_into(const struct marking *marking, int netns_fd, struct inodes *unmarked)
{
	pg_autofree char *text = NULL;
	struct pg_error err = {};
	size_t size;
	int error;
	{
		PG_CLEANUP(pg_netns_leave) int back = -1;

		error = pg_netns_enter(netns_fd, &back, &err);
		if (!error)
			error = pg_file_read("/proc/thread-self/net/raw6", LIST_MAX, &text, &size,
					     &err);
	}
	if (error)
		return error == -ENOENT ? 0 : error;
	return add_unmarked(marking, text, unmarked);
}

static int find_unmarked(const struct marking *marking, size_t index, struct inodes *unmarked)
{
	const struct pg_environment *environment = marking->environment;
	pg_automembers struct pg_members members = {};
	int error = pg_members_add(&members, index, environment->places[index].fd);

	for (size_t i = 0; i < members.namespace_count && !error; i++)
		error = look_into(marking, members.namespaces[i].fd, unmarked);
	return error;
}

/* One look at all. */
static int mark_once(struct marking *marking, size_t index, struct inodes *unmarked)
{
	int error = pg_cgroup_walk(marking->environment->places[index].fd, mark_cgroup, marking);

	if (!error)
		error = find_unmarked(marking, index, unmarked);
	if (error || !unmarked->count)
		return error;
	marking->wanted = unmarked;
	mark_everywhere(marking);
	marking->wanted = NULL;
	unmarked->count = 0;
	return find_unmarked(marking, index, unmarked);
}

int pg_older_sockets_mark(struct pg_environment *environment, size_t index, struct pg_error *err)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct marking marking = {.environment = environment};
	PG_CLEANUP(clear) struct inodes unmarked = {};
	struct pg_header header;
	int error = 0;

	pg_place_header(environment, index, &header);
	marking.datagram = (struct pg_mark){
		.kind = PG_MARK_DATAGRAM,
		.owner = header.flags & PG_HEADER_MEMBERS ? header.env_id : header.cgroup_id,
	};
	for (int try = 0; try < TRIES && !error; try++) {
		if (try)
			(void)!nanosleep(&pause, NULL);
		unmarked.count = 0;
		error = mark_once(&marking, index, &unmarked);
		if (!unmarked.count)
			break;
	}
	clear(&marking.marked);
	if (error)
		return pg_fail_errno(err, error, "looking at the sockets of %s",
				     pg_place_path(environment, index));
	if (unmarked.count)
		return pg_fail(err, -EINVAL,
			       "a raw ICMPv6 socket (inode %ju) in a network namespace of %s is in"
			       " no process's table of descriptors, so what it sends could not be"
			       " told from the kernel's; end who has it, and try again",
			       (uintmax_t)unmarked.inode[0], pg_place_path(environment, index));
	return 0;
}
