/* SPDX-License-Identifier: Apache-2.0 */
#include "test_world.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include <phasegate/abi/flow.h>

static char place_path[PLACE_COUNT][256];
static char home_path[PATH_MAX]; /* the cgroup in which the test began */
static pid_t test_pid;

static void remove_cgroups(void)
{
	/* A test that was killed is still leaving its cgroup. */
	for (int try = 0; try < 500; try++) {
		/* PLACE_DEEP is below PLACE_OWN, so it goes first. */
		rmdir(place_path[PLACE_DEEP]);
		rmdir(place_path[PLACE_OWN]);
		rmdir(place_path[PLACE_OTHER]);
		if (access(place_path[PLACE_OWN], F_OK) < 0 &&
		    access(place_path[PLACE_OTHER], F_OK) < 0)
			return;
		usleep(10000);
	}
}

/* Lives in a session of its own until the last writer of the pipe is gone. */
static void start_janitor(void)
{
	int ends[2];
	pid_t pid;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		char byte;

		setsid();
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		close(ends[1]);
		/* So that whoever waits for the end of the test's output does not wait for us. */
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
		while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
			;
		remove_cgroups();
		_exit(0);
	}
	close(ends[0]);
}

static void make_cgroups(struct world *world, const char *cgroup2)
{
	static const char *const names[PLACE_COUNT] = {"own", "own/deep", "other"};
	const int pid = getpid();

	for (int i = 0; i < PLACE_COUNT; i++)
		snprintf(place_path[i], sizeof(place_path[i]), "%s/pg-test-sockets-%d-%s", cgroup2,
			 pid, names[i]);
	start_janitor();
	for (int i = 0; i < PLACE_COUNT; i++) {
		struct stat status;

		CHECK(mkdir(place_path[i], 0755) == 0);
		CHECK(stat(place_path[i], &status) == 0);
		world->cgroup_id[i] = status.st_ino;
	}
}

static void move_to(const char *cgroup)
{
	char path[PATH_MAX + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1) {
		perror(path);
		_exit(1);
	}
	close(fd);
}

void world_enter(enum place place)
{
	move_to(place_path[place]);
}

static void find_home(const char *cgroup2)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];

	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0::", 3) == 0)
			snprintf(home_path, sizeof(home_path), "%s%s", cgroup2, line + 3);
	}
	fclose(file);
	CHECK(home_path[0]);
}

/* The janitor is for tests that are killed; one that ends leaves nothing behind when it is gone. */
static void leave(void)
{
	if (getpid() != test_pid)
		return;
	move_to(home_path);
	remove_cgroups();
}

static void make_netns(struct world *world)
{
	world->home_netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	CHECK(world->home_netns >= 0);
	CHECK(unshare(CLONE_NEWNET) == 0);
	world->netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	CHECK(world->netns >= 0);
	CHECK(system("ip link set lo up && ip link add d0 type veth peer name d1 && "
		     "ip link set d0 up && ip link set d1 up && "
		     "ip addr add " LOCAL4 "/24 dev d0 && "
		     "ip -6 addr add " LOCAL6 "/64 dev d0 nodad") == 0);
}

/* sk_storage maps want BTF of key and value. */
static int make_mark_map(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	struct btf *btf = btf__new_empty();
	int key, word, value, map;

	CHECK(btf);
	key = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	word = btf__add_int(btf, "unsigned int", 4, 0);
	value = btf__add_array(btf, key, word, sizeof(struct pg_mark) / 4);
	CHECK(value > 0 && btf__load_into_kernel(btf) == 0);
	options.btf_fd = (uint32_t)btf__fd(btf);
	options.btf_key_type_id = (uint32_t)key;
	options.btf_value_type_id = (uint32_t)value;
	map = bpf_map_create(BPF_MAP_TYPE_SK_STORAGE, "pg_test_marks", sizeof(int),
			     sizeof(struct pg_mark), 0, &options);
	CHECK(map >= 0);
	btf__free(btf);
	return map;
}

void world_make(struct world *world, const char *cgroup2)
{
	if (geteuid() != 0) {
		puts("skipped: needs root for cgroups, a network namespace and SOCK_DESTROY");
		exit(77);
	}
	find_home(cgroup2);
	make_cgroups(world, cgroup2);
	test_pid = getpid();
	CHECK(atexit(leave) == 0);
	make_netns(world);
	world->mark_map = make_mark_map();
}
