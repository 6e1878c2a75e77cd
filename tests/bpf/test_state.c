// SPDX-License-Identifier: Apache-2.0
/*
 * Two members of an Environment that is switched, and whose policy is replaced, as fast as it goes,
 * while both send: judge_watch sees generations in order and each with its own policy, on whatever
 * member and CPU it runs.
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
#include <bpf/libbpf.h>

#include <phasegate/abi/counter.h>

#include "base/clock.h"
#include "check.h"
#include "judge.skel.h"
#include "kernel/kernel.h"
#include "lab.h"
#include "place.h"

#define DURATION_NS	   (2 * PG_NSEC_PER_SEC)
/* On a machine that is so busy that less has happened by then. */
#define DURATION_MAX_NS	   (60 * PG_NSEC_PER_SEC)
#define PACKETS_MIN	   1000
#define GENERATIONS_MIN	   (2 * JUDGE_WATCH_SWITCHES)
/* Of each member. */
#define SENDERS		   2
#define MEMBERS		   2
/* Of all members. */
#define PACKETS_PER_SWITCH 5
#define DISCARD		   9

struct bench {
	struct check check;
	struct place place;
	struct pg_kernel *kernel;
	struct judge_bpf *judge;
	char pins[64];
	struct pg_header headers[MEMBERS];
	pid_t senders[MEMBERS * SENDERS];
};

static const char *directory(const struct bench *bench, size_t member)
{
	return member ? bench->place.outer : bench->place.other;
}

/* The watching program reads the headers and states that the kernel layer writes. */
static bool load(struct bench *bench)
{
	struct pg_error err = {};
	struct bpf_program *program;
	struct bpf_map *map;

	snprintf(bench->pins, sizeof(bench->pins), "/sys/fs/bpf/phasegate-test-%d", getpid());
	if (pg_kernel_open(bench->pins, &bench->kernel, &err)) {
		printf("# %s\n", err.text);
		return false;
	}
	bench->judge = judge_bpf__open();
	if (!bench->judge)
		return false;
	/* The check of the others takes long where processors are emulated. */
	bpf_object__for_each_program(program, bench->judge->obj)
		bpf_program__set_autoload(program, program == bench->judge->progs.judge_watch);
	bpf_object__for_each_map(map, bench->judge->obj)
	{
		char path[256];
		int fd;

		snprintf(path, sizeof(path), "%s/" PG_KERNEL_PINS_PREFIX "%d/%s", bench->pins,
			 PG_ABI_VERSION, bpf_map__name(map));
		fd = bpf_obj_get(path);
		if (fd >= 0 && bpf_map__reuse_fd(map, fd))
			return false;
		if (fd >= 0)
			close(fd);
	}
	return !judge_bpf__load(bench->judge);
}

static bool attach(struct bench *bench)
{
	struct pg_error err = {};
	uint32_t state;

	if (pg_state_take(bench->kernel, &state, &err))
		return false;
	for (size_t i = 0; i < MEMBERS; i++) {
		const int fd = open(directory(bench, i), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct stat status;

		if (fd < 0 || fstat(fd, &status) ||
		    bpf_link_create(bpf_program__fd(bench->judge->progs.judge_watch), fd,
				    BPF_CGROUP_INET_EGRESS, NULL) < 0)
			return false;
		close(fd);
		bench->headers[i] = (struct pg_header){
			.magic = PG_HEADER_MAGIC,
			.state = state,
			.cgroup_id = status.st_ino,
			.env_id = bench->place.id,
		};
	}
	return true;
}

static void __attribute__((noreturn)) send_for_ever(const char *cgroup)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons(DISCARD),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd;

	if (!place_enter(cgroup))
		_exit(EXIT_FAILURE);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (;;)
		sendto(fd, "x", 1, 0, (const struct sockaddr *)&to, sizeof(to));
}

static bool start_senders(struct bench *bench)
{
	for (size_t i = 0; i < MEMBERS * SENDERS; i++) {
		bench->senders[i] = fork();
		if (bench->senders[i] < 0)
			return false;
		if (!bench->senders[i])
			send_for_ever(directory(bench, i % MEMBERS));
	}
	return true;
}

static void end_senders(const struct bench *bench)
{
	for (size_t i = 0; i < MEMBERS * SENDERS; i++) {
		kill(bench->senders[i], SIGKILL);
		waitpid(bench->senders[i], NULL, 0);
	}
}

/* What an update does: fills the idle bank of all members, and waits for who has read before. */
static int update(struct bench *bench, uint64_t generation, struct pg_error *err)
{
	const uint64_t policy = generation / JUDGE_WATCH_SWITCHES;
	int error = 0;

	for (size_t i = 0; i < MEMBERS && !error; i++) {
		for (uint32_t j = 0; j < PG_PHASE_COUNT; j++)
			bench->headers[i].slots[policy % PG_BANK_COUNT][j].set =
				(uint32_t)policy * PG_PHASE_COUNT + j;
		error = pg_header_write(bench->kernel, &bench->headers[i], err);
	}
	pg_kernel_synchronize(bench->kernel);
	return error;
}

/* Every generation is to be seen. */
static void await_packets(const struct bench *bench, uint64_t end)
{
	const volatile __u64 *runs = &bench->judge->bss->judge_runs;
	const uint64_t enough = *runs + PACKETS_PER_SWITCH;

	while (*runs < enough && pg_monotonic_ns() < end)
		;
}

static bool has_seen_enough(const struct bench *bench)
{
	const volatile struct judge_bpf__bss *watched = bench->judge->bss;

	return watched->judge_runs > PACKETS_MIN && watched->judge_generation > GENERATIONS_MIN;
}

static uint64_t switch_all_the_time(struct bench *bench)
{
	const uint64_t begun = pg_monotonic_ns(), end = begun + DURATION_MAX_NS;
	struct pg_state_value read, value = {};
	struct pg_error err = {};
	int error = 0;

	while (!error && (pg_monotonic_ns() < begun + DURATION_NS ||
			  (pg_monotonic_ns() < end && !has_seen_enough(bench)))) {
		if (value.generation % JUDGE_WATCH_SWITCHES == 0)
			error = update(bench, value.generation, &err);
		value.bank = value.generation / JUDGE_WATCH_SWITCHES % PG_BANK_COUNT;
		value.phase = (int)(value.generation % PG_PHASE_COUNT);
		if (!error)
			error = pg_state_write(bench->kernel, bench->headers[0].state, &value,
					       &err);
		if (!error)
			error = pg_state_read(bench->kernel, bench->headers[0].state, &read, &err);
		CHECK(&bench->check,
		      read.generation == value.generation && read.bank == value.bank &&
			      read.phase == value.phase,
		      "generation %llu reads back as %llu", (unsigned long long)value.generation,
		      (unsigned long long)read.generation);
		value.generation++;
		await_packets(bench, end);
	}
	CHECK(&bench->check, !error, "%s", err.text);
	return value.generation;
}

static void check_bounds(struct bench *bench)
{
	struct pg_error err = {};
	const uint32_t state = bench->headers[0].state;
	const struct pg_state_value none = {.generation = 9, .phase = PG_PHASE_NONE},
				    wrong[] = {{.phase = PG_PHASE_COUNT},
					       {.bank = PG_BANK_COUNT},
					       {.phase = -2},
					       {.generation = 1ULL << 56}};
	struct pg_state_value read;
	uint32_t other;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK(&bench->check,
		      pg_state_write(bench->kernel, state, &wrong[i], &err) == -ERANGE,
		      "wrong state %zu is written", i);
	CHECK(&bench->check,
	      pg_state_write(bench->kernel, 0, &none, &err) == -ERANGE &&
		      pg_state_write(bench->kernel, PG_ENVIRONMENT_MAX, &none, &err) == -ERANGE,
	      "a state that is none is written");
	CHECK(&bench->check,
	      !pg_state_write(bench->kernel, state, &none, &err) &&
		      !pg_state_read(bench->kernel, state, &read, &err) &&
		      read.phase == PG_PHASE_NONE && read.generation == 9,
	      "no phase, but a generation");
	CHECK(&bench->check, !pg_state_take(bench->kernel, &other, &err) && other != state,
	      "a state is taken twice");
	pg_state_release(bench->kernel, state);
	CHECK(&bench->check, !pg_state_read(bench->kernel, state, &read, &err) && !read.generation,
	      "a released state is not 0");
	for (size_t i = 0; i < PG_ENVIRONMENT_MAX - 2; i++)
		CHECK(&bench->check, !pg_state_take(bench->kernel, &other, &err), "%s", err.text);
	CHECK(&bench->check, pg_state_take(bench->kernel, &other, &err) == -ENOSPC,
	      "more states than there are");
}

static void run(struct bench *bench)
{
	const struct judge_bpf__bss *watched = bench->judge->bss;
	uint64_t generations;

	if (!CHECK(&bench->check, start_senders(bench), "no senders"))
		return;
	generations = switch_all_the_time(bench);
	end_senders(bench);
	printf("# %llu switches, every %dth with a new policy; %llu packets\n",
	       (unsigned long long)generations, JUDGE_WATCH_SWITCHES,
	       (unsigned long long)watched->judge_runs);
	CHECK(&bench->check, has_seen_enough(bench), "%llu packets until generation %llu",
	      (unsigned long long)watched->judge_runs,
	      (unsigned long long)watched->judge_generation);
	CHECK(&bench->check, !watched->judge_backwards,
	      "%llu packets were judged by an older generation",
	      (unsigned long long)watched->judge_backwards);
	CHECK(&bench->check, !watched->judge_mixed, "%llu packets were judged by another policy",
	      (unsigned long long)watched->judge_mixed);
	check_group(&bench->check, "no member is behind, and no policy mixed");
	check_bounds(bench);
	check_group(&bench->check, "states are taken, bounded and released");
}

int main(void)
{
	struct bench bench = {};
	struct pg_error err = {};
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	if (!place_make(&bench.place))
		return EXIT_FAILURE;
	if (CHECK(&bench.check, !system("ip link set lo up") && load(&bench) && attach(&bench),
		  "the programs do not load: %s", strerror(errno)))
		run(&bench);
	judge_bpf__destroy(bench.judge);
	pg_kernel_free(bench.kernel);
	CHECK(&bench.check, !pg_kernel_unpin(bench.pins, &err) && !rmdir(bench.pins), "%s",
	      err.text);
	place_remove(&bench.place);
	lab_close(&lab);
	check_group(&bench.check, "nothing is left behind");
	return check_end(&bench.check);
}
