/* SPDX-License-Identifier: Apache-2.0 */
#include "children.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fork.h"

#include "bench.h"

void *child_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("memory for children: %s", strerror(errno));
	return memory;
}

void child_memory_free(void *memory, size_t size)
{
	munmap(memory, size);
}

static int open_cgroup(const char *path)
{
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		fail("opening the cgroup %s: %s", path, strerror(errno));
	return fd;
}

int child_cgroup_of(const struct machine *machine, const struct pg_environment *environment)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s%s", pg_host_cgroup_mount(machine->host),
		 pg_environment_member(environment, 0));
	return open_cgroup(path);
}

int child_cgroup_make(const struct machine *machine, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", machine->plain_path, name);
	if (mkdir(path, 0755) < 0)
		fail("making the cgroup %s: %s", path, strerror(errno));
	return open_cgroup(path);
}

void child_cgroup_remove(const struct machine *machine, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", machine->plain_path, name);
	rmdir(path);
}

static void pin(int cpu)
{
	cpu_set_t set;

	if (cpu == CHILD_ANY_CPU)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		fail("CPU %d: %s", cpu, strerror(errno));
}

pid_t child_start(int cgroup, int cpu, void (*function)(void *userdata), void *userdata)
{
	const pid_t parent = getpid(), pid = pg_fork_into(cgroup, -1);

	if (pid < 0)
		fail("starting a child: %s", strerror(-pid));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	pin(cpu);
	function(userdata);
	_exit(0);
}

void child_finish(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) < 0 || status)
		fail("a child failed");
}

void child_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* How a child makes a socket, and where it hands it over. */
struct asked {
	int (*make)(void *userdata);
	void *userdata;
	int channel;
};

union ancillary {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

static struct msghdr message_with(struct iovec *part, union ancillary *ancillary)
{
	return (struct msghdr){.msg_iov = part,
			       .msg_iovlen = 1,
			       .msg_control = ancillary,
			       .msg_controllen = sizeof(*ancillary)};
}

static void make_and_hand_over(void *userdata)
{
	const struct asked *asked = userdata;
	const int fd = asked->make(asked->userdata);
	char octet = 0;
	struct iovec part = {&octet, 1};
	union ancillary ancillary = {.header = {.cmsg_len = CMSG_LEN(sizeof(fd)),
						.cmsg_level = SOL_SOCKET,
						.cmsg_type = SCM_RIGHTS}};
	const struct msghdr message = message_with(&part, &ancillary);

	memcpy(CMSG_DATA(&ancillary.header), &fd, sizeof(fd));
	if (sendmsg(asked->channel, &message, 0) != 1)
		fail("handing over a socket: %s", strerror(errno));
}

int child_socket(int cgroup, int (*make)(void *userdata), void *userdata)
{
	pg_autoclose int here = -1, there = -1;
	struct asked asked = {.make = make, .userdata = userdata};
	char octet;
	struct iovec part = {&octet, 1};
	union ancillary ancillary;
	struct msghdr message = message_with(&part, &ancillary);
	int ends[2], fd;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		fail("a pair of sockets: %s", strerror(errno));
	here = ends[0];
	there = asked.channel = ends[1];
	child_finish(child_start(cgroup, CHILD_ANY_CPU, make_and_hand_over, &asked));
	if (recvmsg(here, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
		fail("receiving a socket: %s", strerror(errno));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}
