/* SPDX-License-Identifier: Apache-2.0 */
#include "members.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "environment/cgroup.h"

/* Generations of processes that are followed up to the one that was named. */
#define ANCESTORS_MAX 4096

/* No "." or "..", no empty part, not the root. */
static bool is_plain(const char *path)
{
	if (*path != '/' || !path[1])
		return false;
	for (const char *part = path; *part; part += strcspn(part, "/")) {
		size_t length = strcspn(++part, "/");

		if (length == 0 || (length <= 2 && strspn(part, ".") >= length))
			return false;
	}
	return true;
}

static int check_not_ours(const struct pg_caller *caller, const char *path, const char *object,
			  struct pg_reply *reply)
{
	struct pg_caller self;
	pg_autofree char *own = NULL, *callers = NULL;
	struct pg_error err = {};
	int error = pg_caller_of_pid(getpid(), &self, &err);

	if (!error)
		error = pg_caller_cgroup(&self, &own, &err);
	pg_caller_clear(&self);
	if (!error)
		error = pg_caller_cgroup(caller, &callers, &err);
	if (error) {
		pg_reply_failure(reply, object, &err);
		return -EINVAL;
	}
	if (pg_path_is_within(own, path))
		return pg_reply_error(reply, PG_API_MEMBER_HOLDS_CALLER, object, NULL,
				      "the cgroup %s holds the agent", path);
	if (pg_path_is_within(callers, path))
		return pg_reply_error(reply, PG_API_MEMBER_HOLDS_CALLER, object, NULL,
				      "the cgroup %s holds the caller", path);
	return 0;
}

static int open_cgroup(const struct pg_agent *agent, const char *path, int *ret_fd,
		       struct pg_error *err)
{
	pg_autoclose int mount =
		open(pg_host_cgroup_mount(agent->host), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int error;

	if (mount < 0)
		return pg_fail_errno(err, -errno, "cannot open %s",
				     pg_host_cgroup_mount(agent->host));
	error = pg_cgroup_open(mount, path + 1, ret_fd, err);
	return error == -ENOENT ? pg_fail(err, error, "there is no cgroup %s", path) : error;
}

int pg_member_check(const struct pg_agent *agent, const struct pg_caller *caller, const char *path,
		    bool attach, bool vouched, const char *object, struct pg_reply *reply)
{
	pg_autoclose int fd = -1;
	struct pg_error err = {};
	bool populated = true;
	struct stat owner;

	if (strcmp(path, "/") == 0)
		return pg_reply_error(
			reply, PG_API_MEMBER_IS_ROOT, object, NULL,
			"/ is the root cgroup, which holds every process of the host");
	if (!is_plain(path))
		return pg_reply_error(
			reply, PG_API_REQUEST_INVALID, object, NULL,
			"a cgroup is an absolute path below the mount of cgroup2, without"
			" empty parts, \".\" and \"..\"");
	if (open_cgroup(agent, path, &fd, &err) < 0 || fstat(fd, &owner))
		return pg_reply_error(reply, PG_API_MEMBER_NOT_FOUND, object, NULL, "%s", err.text);
	if (!vouched && caller->uid != 0 && caller->uid != owner.st_uid)
		return pg_reply_error(reply, PG_API_MEMBER_NOT_YOURS, object, NULL,
				      "the cgroup %s belongs to another user", path);
	if (check_not_ours(caller, path, object, reply) < 0)
		return -EINVAL;
	if (pg_cgroup_refuse_unfit(fd, path, &err) < 0)
		return pg_reply_error(reply, PG_API_MEMBER_UNFIT, object, NULL, "%s", err.text);
	if (pg_cgroup_populated(fd, &populated, &err) < 0)
		return pg_reply_error(reply, PG_API_MEMBER_NOT_FOUND, object, NULL, "%s", err.text);
	if (populated && !attach)
		return pg_reply_error(reply, PG_API_MEMBER_POPULATED, object, NULL,
				      "the cgroup %s holds processes that run already", path);
	return 0;
}

/* The parent of a process; 0: it has ended, or has none. */
static pid_t parent_of(pid_t pid)
{
	char path[32], text[512];
	pid_t parent = 0;
	const char *after;
	ssize_t size;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[size > 0 ? size : 0] = '\0';
	/* The command's name may have anything in it, also a parenthesis. */
	after = strrchr(text, ')');
	if (!after || sscanf(after, ") %*c %d", &parent) != 1)
		return 0;
	return parent;
}

struct target {
	pid_t pid;
	bool has_namespace; /* a pid namespace that is not the agent's */
	struct stat namespace;
	pid_t stranger;
};

static bool in_namespace(const struct target *target, pid_t pid)
{
	struct stat namespace;
	char path[32];

	if (!target->has_namespace)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return stat(path, &namespace) == 0 && namespace.st_ino == target->namespace.st_ino &&
	       namespace.st_dev == target->namespace.st_dev;
}

static bool is_targets(const struct target *target, pid_t pid)
{
	for (unsigned int i = 0; pid > 0 && i < ANCESTORS_MAX; i++) {
		if (pid == target->pid || in_namespace(target, pid))
			return true;
		pid = parent_of(pid);
	}
	return false;
}

static bool is_alive(pid_t pid)
{
	return parent_of(pid) > 0;
}

static int find_stranger(void *userdata, int cgroup_fd)
{
	struct target *target = userdata;
	pg_autofree pid_t *pids = NULL;
	struct pg_error err = {};
	size_t count;
	int error = pg_cgroup_pids(cgroup_fd, &pids, &count, &err);

	if (error)
		return pg_cgroup_is_gone(error) ? 0 : error;
	for (size_t i = 0; i < count; i++) {
		if (is_targets(target, pids[i]) || !is_alive(pids[i]))
			continue;
		target->stranger = pids[i];
		return 1;
	}
	return 0;
}

static int describe(const struct pg_caller *process, struct target *target, struct pg_error *err)
{
	struct stat own;

	target->pid = process->pid;
	if (fstatat(process->proc_fd, "ns/pid", &target->namespace, 0) ||
	    stat("/proc/self/ns/pid", &own))
		return pg_fail(err, -ESRCH, "the pid namespace of process %d cannot be told: %s",
			       process->pid, strerror(errno));
	target->has_namespace = target->namespace.st_ino != own.st_ino;
	return 0;
}

int pg_member_check_alone(const struct pg_agent *agent, const struct pg_caller *process,
			  const char *path, bool named, const char *object, struct pg_reply *reply)
{
	struct target target = {0};
	pg_autoclose int fd = -1;
	struct pg_error err = {};
	int error = describe(process, &target, &err);

	if (!error && named && !target.has_namespace)
		return 0;
	if (!error)
		error = open_cgroup(agent, path, &fd, &err);
	if (!error)
		error = pg_cgroup_walk(fd, find_stranger, &target);
	if (error < 0)
		return pg_reply_error(reply, PG_API_MEMBER_NOT_FOUND, object, NULL, "%s",
				      *err.text ? err.text
						: "the cgroup of the process cannot be read");
	if (error == 0)
		return 0;
	pg_reply_error(reply, PG_API_MEMBER_HOLDS_OTHERS, object, NULL,
		       "the cgroup %s of process %d also holds process %d, which it has not"
		       " started",
		       path, process->pid, target.stranger);
	return -EINVAL;
}

int pg_member_of_pid(const struct pg_agent *agent, const struct pg_caller *caller, pid_t pid,
		     const char *object, char **ret_path, struct pg_reply *reply)
{
	PG_CLEANUP(pg_caller_clear) struct pg_caller process;
	pg_autofree char *path = NULL;
	struct pg_error err = {};
	int error = pg_caller_of_pid(pid, &process, &err);

	if (!error)
		error = pg_caller_cgroup(&process, &path, &err);
	if (error)
		return pg_reply_error(reply, PG_API_MEMBER_NOT_FOUND, object, NULL, "%s", err.text);
	if (caller->uid != 0 && caller->uid != process.uid)
		return pg_reply_error(reply, PG_API_MEMBER_NOT_YOURS, object, NULL,
				      "the process belongs to another user");
	if (strcmp(path, "/") == 0)
		return pg_reply_error(reply, PG_API_MEMBER_IS_ROOT, object, NULL,
				      "process %d is in the root cgroup, which holds every process"
				      " of the host",
				      (int)pid);
	if (check_not_ours(caller, path, object, reply) < 0 ||
	    pg_member_check_alone(agent, &process, path, false, object, reply) < 0)
		return -EINVAL;
	*ret_path = PG_TAKE_PTR(path);
	return 0;
}
