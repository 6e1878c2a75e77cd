// SPDX-License-Identifier: Apache-2.0
/*
 * Pinned maps: a process makes an Environment's kernel state and ends, and another goes on with it;
 * meanwhile what is attached stays in force. Maps of another shape or version are refused.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "check.h"
#include "kernel/attach.h"
#include "kernel/set.h"
#include "lab.h"
#include "place.h"

#define DISCARD	   9
#define GENERATION 41
/* Documentation addresses (RFC 5737). */
#define LISTED	   0xc0000201U
#define LEARNED	   0xc0000202U
#define NEITHER	   0xc0000203U

/* What the first process tells the second, as the record of an Environment would. */
struct told {
	struct pg_header header;
	struct pg_kernel_set set;
	uint32_t learned_slot, learned_id;
	struct pg_kernel_set lost; /* a set that no header names */
	int error;
	struct pg_error err;
};

struct bench {
	struct check check;
	struct place place;
	char pins[64], maps[96];
	struct told told;
};

static int attach_all(struct bench *bench, struct pg_kernel *kernel, struct pg_error *err)
{
	pg_autoclose int fd = open(bench->place.outer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return pg_attach_all(kernel, fd, pg_hooks(false), err);
}

static int fill(struct pg_kernel *kernel, struct told *told, struct pg_error *err)
{
	const struct pg_addr addr = pg_addr_from_v4(htonl(LEARNED));
	struct pg_prefix listed = {.addr = pg_addr_from_v4(htonl(LISTED)),
				   .length = 32,
				   .v4 = true};
	const struct pg_address_set set = {.v4 = &listed, .v4_count = 1};
	struct pg_kernel_learned learned = {.fd = -1};
	int error = pg_set_create(kernel, &set, &told->set, err);

	listed.addr = pg_addr_from_v4(htonl(NEITHER));
	if (!error)
		error = pg_set_create(kernel, &set, &told->lost, err);
	if (!error)
		error = pg_learned_create(kernel, 16, &learned, err);
	if (!error)
		error = pg_learned_put(&learned, &addr, UINT64_MAX, err);
	told->learned_slot = learned.slot;
	told->learned_id = learned.id;
	pg_close_fd(&learned.fd);
	return error;
}

static int make(struct bench *bench, struct told *told)
{
	PG_CLEANUP(pg_kernel_freep) struct pg_kernel *kernel = NULL;
	struct pg_error *err = &told->err;
	struct pg_header *header = &told->header;
	const struct pg_state_value value = {.generation = GENERATION, .bank = 1, .phase = 2};
	int error = pg_kernel_open(bench->pins, &kernel, err);

	*header = (struct pg_header){
		.magic = PG_HEADER_MAGIC,
		.level = (__u8)bench->place.level,
		.env_id = bench->place.id,
		.cgroup_id = bench->place.id,
	};
	if (!error)
		error = fill(kernel, told, err);
	if (!error)
		error = attach_all(bench, kernel, err);
	if (!error)
		error = pg_state_take(kernel, &header->state, err);
	header->slots[1][2] = (struct pg_phase_slot){
		.mode = PG_MODE_ALLOWLIST,
		.set = told->set.slot,
		.tables = told->set.tables,
		.learned = told->learned_slot,
	};
	if (!error)
		error = pg_header_write(kernel, header, err);
	if (!error)
		error = pg_state_write(kernel, header->state, &value, err);
	return error;
}

/* In a process of its own, which tells by a pipe and is killed. */
static bool make_and_die(struct bench *bench)
{
	struct told told = {};
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return false;
	pid = fork();
	if (!pid) {
		told.error = make(bench, &told);
		if (write(ends[1], &told, sizeof(told)) == sizeof(told))
			kill(getpid(), SIGKILL);
		_exit(EXIT_FAILURE);
	}
	close(ends[1]);
	if (pid < 0 || read(ends[0], &bench->told, sizeof(told)) != sizeof(told) ||
	    waitpid(pid, &status, 0) != pid)
		return false;
	close(ends[0]);
	return CHECK(&bench->check, !bench->told.error, "the first process: %s",
		     bench->told.err.text);
}

/* errno of a UDP connect() from the cgroup. */
static int try(const struct bench *bench, uint32_t addr)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons(DISCARD),
				       .sin_addr.s_addr = htonl(addr)};
	int status;
	pid_t pid = fork();

	if (!pid) {
		int fd;

		if (!place_enter(bench->place.outer))
			_exit(EXIT_FAILURE);
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		_exit(connect(fd, (const struct sockaddr *)&to, sizeof(to)) ? errno : 0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : -1;
}

/* Without a route, what is allowed fails later than what is denied. */
static void check_in_force(struct bench *bench, bool neither, const char *when)
{
	struct check *check = &bench->check;

	CHECK(check, try(bench, LISTED) == ENETUNREACH, "%s: listed", when);
	CHECK(check, try(bench, LEARNED) == ENETUNREACH, "%s: learned", when);
	CHECK(check, try(bench, NEITHER) == (neither ? ENETUNREACH : EPERM), "%s: neither", when);
}

static int count(void *userdata, const struct pg_addr *addr, uint64_t expires)
{
	const struct pg_addr wanted = pg_addr_from_v4(htonl(LEARNED));

	*(size_t *)userdata += !pg_addr_compare(addr, &wanted) && expires == UINT64_MAX ? 1 : 100;
	return 0;
}

/* Named twice, it goes with the second one only; and a set of the same addresses is that one. */
static void share_again(struct bench *bench, struct pg_kernel *kernel)
{
	struct pg_prefix listed = {.addr = pg_addr_from_v4(htonl(LISTED)),
				   .length = 32,
				   .v4 = true};
	const struct pg_address_set set = {.v4 = &listed, .v4_count = 1};
	const uint32_t slot = bench->told.set.slot;
	struct pg_kernel_set named = bench->told.set, same = {};
	struct check *check = &bench->check;
	struct pg_error err = {};

	CHECK(check,
	      !pg_set_create(kernel, &set, &same, &err) && same.slot == slot &&
		      same.id == bench->told.set.id,
	      "slot %u instead of %u: %s", same.slot, slot, err.text);
	pg_set_destroy(kernel, &same);
	pg_set_destroy(kernel, &named);
	pg_kernel_sweep(kernel);
	named = bench->told.set;
	CHECK(check, !pg_set_occupy(kernel, &named, &err), "it went too early: %s", err.text);
}

static void take_over_sets(struct bench *bench, struct pg_kernel *kernel)
{
	const struct told *told = &bench->told;
	const struct pg_kernel_set missing = {.slot = told->set.slot + 100, .tables = 1};
	struct pg_kernel_learned learned = {.fd = -1};
	struct check *check = &bench->check;
	struct pg_kernel_set lost = told->lost, stale = told->set;
	struct pg_error err = {};
	size_t found = 0, swept;

	stale.id ^= 2;
	CHECK(check, pg_set_occupy(kernel, &stale, &err) == -ENOENT, "what was in the slot before");
	stale = told->set;
	stale.tables ^= (1U << PG_TABLE_COUNT) - 1;
	CHECK(check, pg_set_occupy(kernel, &stale, &err) == -ENOENT, "a table that is not there");
	CHECK(check, !pg_set_occupy(kernel, &told->set, &err), "%s", err.text);
	CHECK(check, !pg_set_occupy(kernel, &told->set, &err), "a set twice: %s", err.text);
	CHECK(check, pg_set_occupy(kernel, &missing, &err) == -ENOENT, "a missing set");
	CHECK(check,
	      pg_learned_occupy(kernel, told->learned_slot, told->learned_id + 1, &learned, &err) ==
		      -ENOENT,
	      "what was learned in the slot before");
	CHECK(check,
	      !pg_learned_occupy(kernel, told->learned_slot, told->learned_id, &learned, &err),
	      "%s", err.text);
	CHECK(check, !pg_learned_walk(&learned, count, &found, &err) && found == 1,
	      "learned addresses: %zu", found);
	pg_close_fd(&learned.fd);
	swept = pg_kernel_sweep(kernel);
	CHECK(check, swept == 1, "%zu of what was lost was swept", swept);
	swept = pg_kernel_sweep(kernel);
	CHECK(check, swept == 0, "%zu more was swept", swept);
	CHECK(check, pg_set_occupy(kernel, &lost, &err) == -ENOENT, "the lost set is still there");
	share_again(bench, kernel);
}

static void take_over_hooks(struct bench *bench, struct pg_kernel *kernel)
{
	pg_autoclose int fd = open(bench->place.outer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct check *check = &bench->check;
	struct pg_error err = {};
	pg_hook_set hooks = 0;

	CHECK(check, !pg_attached(kernel, fd, &hooks, &err) && hooks == pg_hooks(false),
	      "hooks %#x: %s", hooks, err.text);
	CHECK(check, !pg_attach_all(kernel, fd, hooks, &err), "%s", err.text);
}

static void take_over(struct bench *bench)
{
	PG_CLEANUP(pg_kernel_freep) struct pg_kernel *kernel = NULL;
	struct check *check = &bench->check;
	struct pg_state_value value;
	struct pg_error err = {};
	struct pg_header header;
	uint32_t state;

	if (!CHECK(check, !pg_kernel_open(bench->pins, &kernel, &err), "%s", err.text))
		return;
	CHECK(check,
	      !pg_header_read(kernel, bench->place.id, &header, &err) &&
		      !memcmp(&header, &bench->told.header, sizeof(header)),
	      "the header");
	CHECK(check,
	      !pg_state_read(kernel, header.state, &value, &err) &&
		      value.generation == GENERATION && value.bank == 1 && value.phase == 2,
	      "the state");
	CHECK(check, !pg_state_occupy(kernel, header.state, &err), "%s", err.text);
	CHECK(check, pg_state_occupy(kernel, header.state, &err) == -EEXIST, "a state twice");
	CHECK(check, !pg_state_take(kernel, &state, &err) && state != header.state,
	      "a state in use is given out");
	take_over_sets(bench, kernel);
	take_over_hooks(bench, kernel);
	check_in_force(bench, false, "renewed");
	header.slots[0][0].mode = PG_MODE_PUBLIC;
	value = (struct pg_state_value){.generation = GENERATION + 1};
	CHECK(check,
	      !pg_header_write(kernel, &header, &err) &&
		      !pg_state_write(kernel, header.state, &value, &err),
	      "%s", err.text);
	check_in_force(bench, true, "switched");
}

static void refuse(struct bench *bench, const char *what, const char *text)
{
	struct pg_kernel *kernel = NULL;
	struct pg_error err = {};
	int error = pg_kernel_open(bench->pins, &kernel, &err);

	CHECK(&bench->check, error == -EPROTO && !kernel && strstr(err.text, text), "%s: %d, %s",
	      what, error, err.text);
	pg_kernel_free(kernel);
}

/* Maps in the place of pg_own that differ from it in one thing. */
static void refuse_shapes(struct bench *bench, const char *own)
{
	static const struct {
		const char *what;
		enum bpf_map_type type;
		unsigned int key, value, max, flags;
	} shapes[] = {
		{"another type", BPF_MAP_TYPE_PERCPU_HASH, 24, 8, PG_OWN_MAX, BPF_F_NO_PREALLOC},
		{"another key", BPF_MAP_TYPE_HASH, 32, 8, PG_OWN_MAX, BPF_F_NO_PREALLOC},
		{"another value", BPF_MAP_TYPE_HASH, 24, 1, PG_OWN_MAX, BPF_F_NO_PREALLOC},
		{"another size", BPF_MAP_TYPE_HASH, 24, 8, PG_OWN_MAX / 2, BPF_F_NO_PREALLOC},
		{"other flags", BPF_MAP_TYPE_HASH, 24, 8, PG_OWN_MAX, 0},
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = shapes[i].flags);
		const int fd = bpf_map_create(shapes[i].type, "pg_own", shapes[i].key,
					      shapes[i].value, shapes[i].max, &options);

		CHECK(&bench->check, fd >= 0 && !bpf_obj_pin(fd, own), "%s: %s", shapes[i].what,
		      strerror(errno));
		refuse(bench, shapes[i].what, "pg_own is of another shape");
		close(fd);
		CHECK(&bench->check, !unlink(own), "%s", strerror(errno));
	}
}

static void refuse_others(struct bench *bench)
{
	char own[128], saved[128], other[128];

	snprintf(own, sizeof(own), "%s/pg_own", bench->maps);
	snprintf(saved, sizeof(saved), "%s/saved", bench->pins);
	CHECK(&bench->check, !rename(own, saved), "%s", strerror(errno));
	refuse(bench, "a missing map", "pg_own is missing");
	refuse_shapes(bench, own);
	CHECK(&bench->check, !rename(saved, own), "%s", strerror(errno));

	snprintf(other, sizeof(other), "%s/" PG_KERNEL_PINS_PREFIX "2", bench->pins);
	CHECK(&bench->check, !rename(bench->maps, other), "%s", strerror(errno));
	refuse(bench, "another version", "ABI version 2");
	CHECK(&bench->check, access(bench->maps, F_OK), "the refused one has made maps");
	CHECK(&bench->check, !rename(other, bench->maps), "%s", strerror(errno));
}

static void clean_up(struct bench *bench)
{
	struct pg_kernel *kernel = NULL;
	struct pg_error err = {};
	char half[96];

	CHECK(&bench->check,
	      !pg_kernel_unpin(bench->pins, &err) && !pg_kernel_unpin(bench->pins, &err), "%s",
	      err.text);
	/* Somebody was killed while pinning. */
	snprintf(half, sizeof(half), "%s/+new", bench->pins);
	CHECK(&bench->check, !mkdir(half, 0700), "%s", strerror(errno));
	CHECK(&bench->check, !pg_kernel_open(bench->pins, &kernel, &err) && access(half, F_OK),
	      "%s", err.text);
	pg_kernel_free(kernel);
	CHECK(&bench->check, !pg_kernel_unpin(bench->pins, &err) && !rmdir(bench->pins), "%s",
	      err.text);
}

int main(void)
{
	struct bench bench = {};
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	if (!place_make(&bench.place))
		return EXIT_FAILURE;
	snprintf(bench.pins, sizeof(bench.pins), "/sys/fs/bpf/phasegate-test-%d", getpid());
	snprintf(bench.maps, sizeof(bench.maps), "%s/" PG_KERNEL_PINS_PREFIX "%d", bench.pins,
		 PG_ABI_VERSION);
	if (CHECK(&bench.check, !system("ip link set lo up") && make_and_die(&bench),
		  "no first process")) {
		check_in_force(&bench, false, "nobody is there");
		check_group(&bench.check, "what is attached stays in force");
		take_over(&bench);
		check_group(&bench.check, "the next process goes on with it");
		refuse_others(&bench);
		check_group(&bench.check, "maps of another version are refused and left alone");
	}
	clean_up(&bench);
	place_remove(&bench.place);
	lab_close(&lab);
	check_group(&bench.check, "pins are made whole, and removed");
	return check_end(&bench.check);
}
