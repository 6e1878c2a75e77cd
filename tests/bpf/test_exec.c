// SPDX-License-Identifier: Apache-2.0
/*
 * What is executed in a member with rights that are refused there is ended before its first
 * instruction; everything else is executed: without them, elsewhere, in a user namespace of its
 * own, and by the host. What is pinned goes on without its process. The veths by which a namespace
 * leads to the agent's are noted when something is executed there.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "kernel/exec.h"
#include "kernel/host_end.h"
#include "lab.h"
#include "place.h"

#define ADMIN PG_EXEC_CAPABILITY(CAP_NET_ADMIN)
#define RAWIO PG_EXEC_CAPABILITY(CAP_SYS_RAWIO)
#define CHOWN PG_EXEC_CAPABILITY(CAP_CHOWN)
#define TRACE PG_EXEC_CAPABILITY(CAP_SYS_PTRACE)
#define RAW   PG_EXEC_CAPABILITY(CAP_NET_RAW)
#define ALL   UINT64_MAX

/* More than any machine does in a second. */
#define FLOOD_MAX 100000

/* As a container has them. */
#define OWN	 (CLONE_NEWUTS | CLONE_NEWNET)
#define OWN_PIDS (OWN | CLONE_NEWPID)

struct bench {
	struct check check;
	struct place place;
	struct pg_kernel *kernel;
	struct pg_exec_watch *watch;
	char pins[64], root[64], program[96], below[340];
	uint64_t bounding;
	struct pg_event_exec seen;
	size_t seen_count;
	bool replaced; /* the watch has been */
};

/* Something that is executed. */
struct attempt {
	const char *what;
	uint64_t capabilities, refused;
	int namespaces;
	bool host_root, ended;
	uint64_t rights; /* that are told, if it is ended */
};

static const struct attempt attempts[] = {
	{"nothing that is refused", CHOWN | RAW, ADMIN | RAWIO, OWN, .ended = false},
	{"a capability that is refused", CHOWN | ADMIN, ADMIN | RAWIO, OWN, false, true, ADMIN},
	{"two of them", ADMIN | RAWIO, ADMIN | RAWIO, OWN, false, true, ADMIN | RAWIO},
	{"one of them", ADMIN | RAWIO, RAWIO, OWN, false, true, RAWIO},
	{"nothing is refused", ADMIN | RAWIO, 0, OWN, .ended = false},
	{"the first of its processes", ADMIN, ADMIN, OWN_PIDS, false, true, ADMIN},
	{"a user namespace of its own", ADMIN, ADMIN, OWN | CLONE_NEWUSER, .ended = false},
	{"the host's root directory", ADMIN, ADMIN, OWN, .host_root = true},
	{"the host's namespaces", RAWIO, RAWIO, CLONE_NEWNET, .ended = false},
	{"the agent's network", ADMIN, PG_EXEC_HOST_NETWORK, CLONE_NEWUTS, false, true,
	 PG_EXEC_HOST_NETWORK},
	{"packet sockets there", RAW, PG_EXEC_HOST_NETWORK, CLONE_NEWUTS, false, true,
	 PG_EXEC_HOST_NETWORK},
	{"another network", ADMIN | RAW, PG_EXEC_HOST_NETWORK, OWN, .ended = false},
	{"the agent's network has an id of its own", ADMIN, ADMIN, CLONE_NEWUTS, .ended = false},
	{"the host's processes", TRACE, PG_EXEC_HOST_PIDS, OWN, false, true, PG_EXEC_HOST_PIDS},
	{"processes of its own", TRACE, PG_EXEC_HOST_PIDS, OWN_PIDS, .ended = false},
	{"all capabilities", ALL, PG_EXEC_PRIVILEGED, OWN_PIDS, false, true, PG_EXEC_PRIVILEGED},
	{"all, which has an id of its own", ALL, ADMIN, OWN_PIDS, .ended = false},
};

static int limit_capabilities(uint64_t capabilities)
{
	for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
		if (!(capabilities >> i & 1) && prctl(PR_CAPBSET_DROP, i))
			return -1;
	return 0;
}

/* The first process of new namespaces is a child of who has made them. */
static int execute(const struct bench *bench, const struct attempt *attempt)
{
	char name[] = "executed";
	char *const words[] = {name, NULL}, *const none[] = {NULL};
	int status;
	pid_t pid;

	if (unshare(attempt->namespaces))
		return 10;
	pid = attempt->namespaces & CLONE_NEWPID ? fork() : 0;
	if (pid)
		return waitpid(pid, &status, 0) != pid ? 11
		       : WIFSIGNALED(status)	       ? 128 + WTERMSIG(status)
						       : WEXITSTATUS(status);
	if (!attempt->host_root && (chroot(bench->root) || chdir("/")))
		return 12;
	if (limit_capabilities(attempt->capabilities))
		return 13;
	execve(attempt->host_root ? bench->program : "/executed", words, none);
	return 64 + errno;
}

static int run(const struct bench *bench, const char *cgroup, const struct attempt *attempt)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(place_enter(cgroup) ? execute(bench, attempt) : 15);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void note(void *userdata, const struct pg_event *event)
{
	struct bench *bench = userdata;

	if (event->kind != PG_EVENT_EXEC)
		return;
	bench->seen = *(const struct pg_event_exec *)event;
	bench->seen_count++;
}

static void try(struct bench *bench, const char *cgroup, const struct attempt *attempt)
{
	struct check *check = &bench->check;
	struct pg_error err = {};
	int status;

	bench->seen_count = 0;
	status = run(bench, cgroup, attempt);
	CHECK(check, status == (attempt->ended ? 128 + SIGKILL : 0), "%s: ended with %d",
	      attempt->what, status);
	CHECK(check, !pg_events_process(bench->kernel, &err), "%s", err.text);
	/* The watch before may be there for a moment: Linux detaches a while after a link has gone.
	 */
	if (!CHECK(check,
		   bench->seen_count == (attempt->ended ? 1 : 0) ||
			   (bench->replaced && attempt->ended && bench->seen_count == 2),
		   "%s: %zu events", attempt->what, bench->seen_count) ||
	    !attempt->ended)
		return;
	CHECK(check, bench->seen.rights == attempt->rights, "%s: rights %#llx", attempt->what,
	      (unsigned long long)bench->seen.rights);
	CHECK(check,
	      !bench->seen.error && bench->seen.pid &&
		      bench->seen.event.env_id == bench->place.id &&
		      bench->seen.event.cgroup_id == bench->place.id && bench->seen.event.time,
	      "%s: error %d, pid %u", attempt->what, bench->seen.error, bench->seen.pid);
	CHECK(check, !strcmp(bench->seen.cgroup, strrchr(cgroup, '/') + 1), "%s: cgroup \"%s\"",
	      attempt->what, bench->seen.cgroup);
}

static void refuse(struct bench *bench, uint64_t refused)
{
	const struct pg_member member = {.env_id = bench->place.id,
					 .level = bench->place.level,
					 .refused = refused};
	struct pg_error err = {};

	CHECK(&bench->check, !pg_member_add(bench->kernel, bench->place.id, &member, &err), "%s",
	      err.text);
}

static void try_all(struct bench *bench)
{
	struct attempt elsewhere = attempts[1];

	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		const struct attempt *attempt = &attempts[i];

		/* The machine may not give everything. */
		if (attempt->capabilities == ALL &&
		    (bench->bounding & PG_EXEC_EVERYTHING) != PG_EXEC_EVERYTHING)
			continue;
		refuse(bench, attempt->refused);
		try(bench, i % 2 ? bench->place.outer : bench->below, attempt);
	}
	refuse(bench, elsewhere.refused);
	try(bench, bench->below, &elsewhere);
	elsewhere.ended = false;
	try(bench, bench->place.other, &elsewhere);
	pg_members_forget(bench->kernel, bench->place.id);
	try(bench, bench->place.outer, &elsewhere);
	check_group(&bench->check, "what is refused is ended, and nothing else");
}

/* Beyond its budget it is ended and counted, whatever user space says of the member meanwhile. */
static void flood(struct bench *bench)
{
	const struct attempt fast = {"a flood", RAWIO, RAWIO, CLONE_NEWUTS, false, true, RAWIO};
	struct check *check = &bench->check;
	struct pg_error err = {};
	uint64_t suppressed = 0;
	size_t count = 0;

	refuse(bench, fast.refused);
	bench->seen_count = 0;
	for (; count < FLOOD_MAX && !suppressed; count++) {
		if (!CHECK(check, run(bench, bench->below, &fast) == 128 + SIGKILL, "%zu", count))
			break;
		suppressed = pg_member_suppressed(bench->kernel, bench->place.id);
	}
	refuse(bench, fast.refused);
	CHECK(check, !pg_events_process(bench->kernel, &err), "%s", err.text);
	CHECK(check,
	      suppressed && suppressed == pg_member_suppressed(bench->kernel, bench->place.id) &&
		      bench->seen_count >= PG_EVENT_EXEC_PER_S &&
		      bench->seen_count + suppressed == count,
	      "%zu were executed, %zu reported, %llu suppressed", count, bench->seen_count,
	      (unsigned long long)suppressed);
	pg_members_forget(bench->kernel, bench->place.id);
	check_group(check, "what is reported is bounded");
}

/* In namespaces to which the parent makes a veth; and one that leads nowhere. */
static int execute_behind(const struct bench *bench, const char *cgroup, int namespaces,
			  const int pipes[2][2])
{
	char name[] = "executed", byte = 0;
	char *const words[] = {name, NULL}, *const none[] = {NULL};

	if (!place_enter(cgroup) || unshare(namespaces) || write(pipes[0][1], &byte, 1) != 1 ||
	    read(pipes[1][0], &byte, 1) != 1)
		return 10;
	if (chroot(bench->root) || chdir("/"))
		return 12;
	execve("/executed", words, none);
	return 64 + errno;
}

static bool make_veths(pid_t pid)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "ip link add pgtest4 type veth peer name pgtest5 && "
		 "ip link set pgtest4 netns %d && ip link set pgtest5 netns %d && "
		 "ip link add pgtest2 type veth peer name pgtest3 netns %d",
		 pid, pid, pid);
	return !system(command);
}

static void try_behind(struct bench *bench, const char *what, const char *cgroup, int namespaces,
		       bool noted)
{
	struct check *check = &bench->check;
	struct pg_host_end_key key = {.env_id = bench->place.id};
	struct pg_host_end end = {};
	int pipes[2][2], status = -1;
	struct stat own = {}, host = {};
	unsigned int ifindex = 0;
	char path[64], byte;
	bool found;
	pid_t pid;

	if (!CHECK(check, !pipe(pipes[0]) && !pipe(pipes[1]) && !stat("/proc/self/ns/net", &host),
		   "%s", strerror(errno)))
		return;
	key.host = (uint32_t)host.st_ino;
	pid = fork();
	if (!pid)
		_exit(execute_behind(bench, cgroup, namespaces, pipes));
	close(pipes[0][1]);
	close(pipes[1][0]);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	CHECK(check,
	      read(pipes[0][0], &byte, 1) == 1 && make_veths(pid) && !stat(path, &own) &&
		      (ifindex = if_nametoindex("pgtest2")) && write(pipes[1][1], &byte, 1) == 1,
	      "%s: %s", what, strerror(errno));
	CHECK(check, waitpid(pid, &status, 0) == pid && !status, "%s: ended with %d", what, status);
	key.ifindex = ifindex;
	found = pg_host_end_read(bench->kernel, &key, &end);
	CHECK(check, ifindex && found == noted && (!noted || end.inode == (uint32_t)own.st_ino),
	      "%s: noted %d, inode %u", what, found, end.inode);
	close(pipes[0][0]);
	close(pipes[1][1]);
}

static bool keep_none(void *userdata, const struct pg_host_end_key *key)
{
	(*(size_t *)userdata)++;
	return false;
}

static void behind(struct bench *bench)
{
	size_t count = 0;

	refuse(bench, 0);
	pg_host_ends_sweep(bench->kernel, keep_none, &count);
	count = 0;
	try_behind(bench, "a namespace", bench->below, CLONE_NEWNET, true);
	try_behind(bench, "one of a user namespace", bench->below, CLONE_NEWNET | CLONE_NEWUSER,
		   true);
	try_behind(bench, "of no member", bench->place.other, CLONE_NEWNET, false);
	pg_host_ends_sweep(bench->kernel, keep_none, &count);
	CHECK(&bench->check, count == 2, "%zu are noted", count);
	pg_members_forget(bench->kernel, bench->place.id);
	check_group(&bench->check, "links to where something is executed are noted");
}

static void outlive(struct bench *bench)
{
	struct attempt refused = attempts[1], free = attempts[1];
	struct check *check = &bench->check;
	struct pg_error err = {};

	free.ended = false;
	free.what = "without a watch";
	refuse(bench, refused.refused);
	bench->replaced = true;
	for (int i = 0; i < 3; i++) {
		pg_exec_watch_free(bench->watch);
		bench->watch = NULL;
		refused.what = "only pinned";
		try(bench, bench->below, &refused);
		CHECK(check, !pg_exec_watch_start(bench->kernel, bench->pins, &bench->watch, &err),
		      "%s", err.text);
		refused.what = "started anew";
		try(bench, bench->below, &refused);
	}
	pg_exec_watch_free(bench->watch);
	bench->watch = NULL;
	CHECK(check, !pg_exec_watch_unpin(bench->pins, &err), "%s", err.text);
	CHECK(check, !pg_exec_watch_unpin(bench->pins, &err), "%s", err.text);
	/* Linux detaches a while after the last reference to a link has gone. */
	for (int i = 0; i < 100 && run(bench, bench->below, &free); i++)
		usleep(20000);
	CHECK(check, !pg_events_process(bench->kernel, &err), "%s", err.text);
	bench->replaced = false;
	try(bench, bench->below, &free);
	check_group(check, "it outlives its process, and is replaced");
}

static uint64_t read_bounding(void)
{
	uint64_t bounding = 0;

	for (int i = 0; i < 64; i++)
		bounding |= (uint64_t)(prctl(PR_CAPBSET_READ, i) == 1) << i;
	return bounding;
}

static bool copy(const char *from, const char *to)
{
	pg_autoclose int in = open(from, O_RDONLY | O_CLOEXEC);
	pg_autoclose int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	ssize_t copied;

	do
		copied = sendfile(out, in, NULL, 1 << 20);
	while (copied > 0);
	return copied == 0;
}

static bool prepare(struct bench *bench)
{
	char path[512];
	const ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 32);
	struct pg_error err = {};

	path[size > 0 ? size : 0] = '\0';
	strcpy(strrchr(path, '/') + 1, "bpf_executed");
	bench->bounding = read_bounding();
	snprintf(bench->pins, sizeof(bench->pins), "/sys/fs/bpf/phasegate-test-%d", getpid());
	snprintf(bench->root, sizeof(bench->root), "/tmp/phasegate-test-%d", getpid());
	snprintf(bench->below, sizeof(bench->below), "%s/below", bench->place.inner);
	snprintf(bench->program, sizeof(bench->program), "%s/executed", bench->root);
	if (!CHECK(&bench->check,
		   !mkdir(bench->root, 0755) && !mkdir(bench->below, 0755) &&
			   copy(path, bench->program),
		   "%s", strerror(errno)) ||
	    !CHECK(&bench->check, !pg_kernel_open(bench->pins, &bench->kernel, &err), "%s",
		   err.text))
		return false;
	pg_events_set_sink(bench->kernel, note, bench);
	return CHECK(&bench->check,
		     !pg_exec_watch_start(bench->kernel, bench->pins, &bench->watch, &err), "%s",
		     err.text);
}

int main(void)
{
	struct bench bench = {};
	struct pg_error err = {};
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	if (!place_make(&bench.place))
		return EXIT_FAILURE;
	if (prepare(&bench)) {
		try_all(&bench);
		flood(&bench);
		behind(&bench);
		outlive(&bench);
	}
	pg_exec_watch_free(bench.watch);
	CHECK(&bench.check, !pg_exec_watch_unpin(bench.pins, &err), "%s", err.text);
	CHECK(&bench.check, !pg_kernel_unpin(bench.pins, &err), "%s", err.text);
	pg_kernel_free(bench.kernel);
	CHECK(&bench.check,
	      !rmdir(bench.pins) && !unlink(bench.program) && !rmdir(bench.root) &&
		      !rmdir(bench.below),
	      "%s", strerror(errno));
	place_remove(&bench.place);
	lab_close(&lab);
	check_group(&bench.check, "nothing stays behind");
	return check_end(&bench.check);
}
