/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of address sets: equal sets share one, the last one to go lets it go, and many go at once.
 * A slot that is used again is never judged by for an Environment that had it before.
 *
 * PHASEGATE_TEST_CASES: how often a slot is used again while hooks run, 30 without it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/wait.h"
#include "check.h"
#include "compile/set_image.h"
#include "kernel/attach.h"
#include "kernel/kernel_internal.h"
#include "kernel/set.h"
#include "lab.h"
#include "place.h"

#define CYCLES	30
#define MANY	600
#define OURS	0xc0000201U /* 192.0.2.1 (RFC 5737) */
#define OTHERS	0xcb007101U /* 203.0.113.1 */
#define DISCARD 9

struct bench {
	struct check check;
	struct place place;
	struct pg_kernel *kernel;
	struct pg_error err;
};

static int create(struct bench *bench, uint32_t first, size_t count, struct pg_kernel_set *ret_set)
{
	struct pg_prefix prefixes[4] = {};
	const struct pg_address_set set = {.v4 = prefixes, .v4_count = count};

	for (size_t i = 0; i < count; i++)
		prefixes[i] = (struct pg_prefix){
			.addr = pg_addr_from_v4(htonl(first + 2 * (uint32_t)i)),
			.length = 32,
			.v4 = true,
		};
	return pg_set_create(bench->kernel, &set, ret_set, &bench->err);
}

/* As the write of a header does that names it. */
static int settle(struct bench *bench, const struct pg_kernel_set *set)
{
	const struct pg_header header = {.slots[0][0] = {.set = set->slot, .tables = set->tables}};

	return pg_puts_settle(bench->kernel, &header, &bench->err);
}

static bool map_is_there(uint32_t id)
{
	pg_autoclose int fd = bpf_map_get_fd_by_id(id);

	return fd >= 0;
}

/* As a host does it, from time to time. Returns the longest time that a call took. */
static uint64_t tidy(struct bench *bench)
{
	const struct timespec pause = {.tv_nsec = PG_NSEC_PER_MSEC};
	uint64_t longest = 0;
	bool more = true;

	for (unsigned int i = 0; more && i < 5000; i++) {
		const uint64_t start = pg_monotonic_ns();

		more = pg_kernel_tidy(bench->kernel);
		if (pg_monotonic_ns() - start > longest)
			longest = pg_monotonic_ns() - start;
		nanosleep(&pause, NULL);
	}
	CHECK(&bench->check, !more, "it is never done");
	return longest;
}

static bool is_free(const struct bench *bench, uint32_t slot)
{
	return !pg_slot_is_used(&bench->kernel->set_slots, slot) &&
	       !pg_slot_use_read(bench->kernel, slot).set_id;
}

static void check_shared(struct bench *bench)
{
	struct check *check = &bench->check;
	struct pg_kernel_set one = {}, same = {}, other = {}, again = {};

	CHECK(check, !create(bench, OURS, 2, &one) && !create(bench, OURS, 2, &same), "%s",
	      bench->err.text);
	CHECK(check, one.slot && one.slot == same.slot && one.id == same.id, "slots %u and %u",
	      one.slot, same.slot);
	CHECK(check, !create(bench, OURS, 3, &other) && other.slot != one.slot, "one more address");
	again = one;
	pg_set_destroy(bench->kernel, &one);
	tidy(bench);
	CHECK(check, !is_free(bench, same.slot) && map_is_there(same.id), "one of two is gone");
	pg_set_destroy(bench->kernel, &same);
	/* Nothing has emptied it yet. */
	CHECK(check,
	      !create(bench, OURS, 2, &same) && same.slot == again.slot && same.id == again.id,
	      "it is not taken into use again");
	tidy(bench);
	CHECK(check, map_is_there(again.id), "it went while it was in use again");
	pg_set_destroy(bench->kernel, &same);
	pg_set_destroy(bench->kernel, &other);
	tidy(bench);
	CHECK(check, is_free(bench, again.slot), "it is still there");
	CHECK(check, bench->kernel->sets[again.slot].id == 0, "it is still known");
	check_group(check, "equal sets share a slot until the last one goes");
}

/* The digest alone must not decide. */
static void check_collision(struct bench *bench)
{
	struct check *check = &bench->check;
	struct pg_kernel_set one = {}, other = {};
	struct pg_prefix prefix = {.addr = pg_addr_from_v4(htonl(OTHERS)),
				   .length = 32,
				   .v4 = true};
	const struct pg_address_set set = {.v4 = &prefix, .v4_count = 1};
	struct pg_set_image image;

	CHECK(check, !create(bench, OURS, 1, &one) && !pg_set_image_plan(&set, &image, &bench->err),
	      "%s", bench->err.text);
	bench->kernel->sets[one.slot].digest = image.digest;
	CHECK(check, !create(bench, OTHERS, 1, &other) && other.slot != one.slot,
	      "two sets with one digest share a slot");
	pg_set_destroy(bench->kernel, &one);
	pg_set_destroy(bench->kernel, &other);
	tidy(bench);
	check_group(check, "sets with the same digest are compared");
}

static void check_many(struct bench *bench)
{
	static struct pg_kernel_set sets[MANY];
	struct check *check = &bench->check;
	uint64_t start = pg_monotonic_ns(), longest;

	for (uint32_t i = 0; i < MANY; i++)
		if (!CHECK(check, !create(bench, OURS + i * 64, 2, &sets[i]), "%s",
			   bench->err.text))
			return;
	printf("# %d sets made in %llu ms\n", MANY,
	       (unsigned long long)((pg_monotonic_ns() - start) / PG_NSEC_PER_MSEC));
	pg_puts_see(bench->kernel);
	for (uint32_t i = 0; i < MANY; i++) {
		struct pg_kernel_set set = sets[i];

		CHECK(check, !settle(bench, &set), "%s", bench->err.text);
		pg_set_destroy(bench->kernel, &set);
	}
	start = pg_monotonic_ns();
	longest = tidy(bench);
	printf("# and let go in %llu ms, of which at most %llu us at once\n",
	       (unsigned long long)((pg_monotonic_ns() - start) / PG_NSEC_PER_MSEC),
	       (unsigned long long)(longest / PG_NSEC_PER_USEC));
	for (uint32_t i = 0; i < MANY; i++)
		CHECK(check, is_free(bench, sets[i].slot), "slot %u", sets[i].slot);
	check_group(check, "many sets go at once");
}

/* Fills all slots with maps that are there already. */
static void check_exhaustion(struct bench *bench)
{
	struct pg_slots *slots = &bench->kernel->set_slots;
	const struct pg_slots before = *slots;
	struct check *check = &bench->check;
	struct pg_kernel_set set = {}, last = {};

	CHECK(check, !create(bench, OURS, 1, &set), "%s", bench->err.text);
	for (uint32_t slot = 1; slot < PG_SLOT_MAX; slot++)
		pg_slot_occupy(slots, slot);
	CHECK(check, create(bench, OTHERS, 1, &last) == -ENOSPC && !last.slot, "%s",
	      bench->err.text);
	CHECK(check, !create(bench, OURS, 1, &last) && last.slot == set.slot,
	      "a set that is there needs no slot");
	pg_set_destroy(bench->kernel, &last);
	pg_set_destroy(bench->kernel, &set);
	/* Waits for what is on its way. */
	CHECK(check, !create(bench, OTHERS, 1, &last), "%s", bench->err.text);
	pg_set_destroy(bench->kernel, &last);
	*slots = before;
	pg_slot_occupy(slots, 1);
	pg_slot_retire(slots, 1);
	tidy(bench);
	check_group(check, "without a free slot a set is refused, until one goes");
}

/* The kernel refuses the map: whoever's header names the slot is told, each time, and nobody else.
 */
static void check_failed(struct bench *bench)
{
	const int outer = bpf_map__fd(bench->kernel->skeleton->maps.pg_sets);
	struct check *check = &bench->check;
	struct pg_kernel_set one = {}, other = {};

	CHECK(check, !create(bench, OURS, 1, &one) && !create(bench, OTHERS, 1, &other), "%s",
	      bench->err.text);
	pg_puts_see(bench->kernel);
	CHECK(check,
	      !pg_outer_put(bench->kernel, outer, one.slot,
			    bpf_map_create(BPF_MAP_TYPE_HASH, "wrong", 4, 4, 1, NULL), 1,
			    &bench->err),
	      "%s", bench->err.text);
	CHECK(check, !settle(bench, &other), "another one is told: %s", bench->err.text);
	for (int times = 0; times < 2; times++)
		CHECK(check, settle(bench, &one) == -EINVAL, "its own is not told");
	pg_set_destroy(bench->kernel, &one);
	tidy(bench);
	CHECK(check, !create(bench, OURS, 2, &one) && !settle(bench, &one),
	      "the slot does not work again: %s", bench->err.text);
	pg_set_destroy(bench->kernel, &one);
	pg_set_destroy(bench->kernel, &other);
	tidy(bench);
	check_group(check, "a set that the kernel refuses is told to those who have it");
}

static int attach_all(struct bench *bench)
{
	pg_autoclose int fd = open(bench->place.outer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return pg_attach_all(bench->kernel, fd, pg_hooks(false), &bench->err);
}

/* What the workload has seen. */
struct seen {
	volatile uint64_t denied, allowed, tries;
};

static int try(uint32_t addr)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons(DISCARD),
				       .sin_addr.s_addr = htonl(addr)};
	pg_autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return connect(fd, (const struct sockaddr *)&to, sizeof(to)) ? errno : 0;
}

/* Without a route, what is allowed fails later than what is denied. */
static pid_t start_workload(struct bench *bench, struct seen *seen)
{
	const pid_t pid = fork();

	if (pid)
		return pid;
	if (!place_enter(bench->place.outer))
		_exit(EXIT_FAILURE);
	for (;;) {
		if (try(OTHERS) != EPERM)
			seen->allowed++;
		if (try(OURS) == EPERM)
			seen->denied++;
		seen->tries++;
	}
}

/* Other addresses of ours each time, in the slot that was another's the time before. */
static int use_again(struct bench *bench, struct pg_header *header, struct pg_kernel_set *ours,
		     uint32_t number)
{
	struct pg_kernel_set new = {}, others = {};
	int error = create(bench, OURS, 2 + number % 2, &new);

	if (error)
		return error;
	header->slots[0][0].set = new.slot;
	header->slots[0][0].tables = new.tables;
	error = pg_header_write(bench->kernel, header, &bench->err);
	pg_set_destroy(bench->kernel, ours);
	*ours = new;
	/* Takes the slot at once if that is free, and it must not be. */
	if (!error)
		error = create(bench, OTHERS, 1 + number % 3, &others);
	if (!error)
		error = settle(bench, &others);
	tidy(bench);
	pg_set_destroy(bench->kernel, &others);
	return error;
}

static void check_stale(struct bench *bench)
{
	const struct pg_state_value setup = {.generation = 1};
	const unsigned long cycles = lab_case_count(CYCLES);
	struct pg_header header = {
		.magic = PG_HEADER_MAGIC,
		.level = (__u8)bench->place.level,
		.env_id = bench->place.id,
		.cgroup_id = bench->place.id,
		.slots[0][0].mode = PG_MODE_ALLOWLIST,
	};
	struct seen *seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct check *check = &bench->check;
	struct pg_kernel_set ours = {};
	int error = attach_all(bench);
	pid_t pid = -1;

	if (!error)
		error = pg_state_take(bench->kernel, &header.state, &bench->err);
	if (!error)
		error = pg_state_write(bench->kernel, header.state, &setup, &bench->err);
	if (!error)
		error = use_again(bench, &header, &ours, 0);
	if (!error)
		pid = start_workload(bench, seen);
	for (uint32_t i = 1; i < cycles && !error; i++)
		error = use_again(bench, &header, &ours, i);
	CHECK(check, !error, "%s", bench->err.text);
	for (unsigned int i = 0; pid > 0 && !seen->tries && i < 500; i++)
		usleep(10000);
	if (pid > 0)
		kill(pid, SIGKILL);
	CHECK(check, pid > 0 && waitpid(pid, NULL, 0) == pid, "%s", strerror(errno));
	printf("# %llu tries in %lu cycles\n", (unsigned long long)seen->tries, cycles);
	CHECK(check, seen->tries > 0, "the workload did nothing");
	CHECK(check, !seen->allowed, "%llu times another's set", (unsigned long long)seen->allowed);
	CHECK(check, !seen->denied, "%llu times not the own set", (unsigned long long)seen->denied);
	munmap(seen, sizeof(*seen));
	check_group(check, "a slot is used again while hooks run");
}

int main(void)
{
	struct bench bench = {};
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	if (!place_make(&bench.place))
		return EXIT_FAILURE;
	if (CHECK(&bench.check,
		  !system("ip link set lo up") && !pg_kernel_open(NULL, &bench.kernel, &bench.err),
		  "%s", bench.err.text)) {
		check_shared(&bench);
		check_collision(&bench);
		check_many(&bench);
		check_exhaustion(&bench);
		check_failed(&bench);
		check_stale(&bench);
	}
	pg_kernel_free(bench.kernel);
	place_remove(&bench.place);
	lab_close(&lab);
	return check_end(&bench.check);
}
