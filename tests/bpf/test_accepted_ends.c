// SPDX-License-Identifier: Apache-2.0
/* User space and accepted connections (struct pg_accepted): it finds them, and nothing of an
 * Environment that has ended stays, whoever has been killed meanwhile. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <bpf/bpf.h>

#include <phasegate/abi/flow.h>

#include "check.h"
#include "kernel/kernel.h"
#include "kernel/set.h"
#include "lab.h"

#define ENDING	300
#define OTHERS	50
/* Where their cookies begin. */
#define OWN	1
#define FOREIGN ((1ULL << 32) + ENDING + OWN)

struct bench {
	struct check check;
	struct pg_kernel *kernel;
	char pins[64];
	int places, counts;
	uint32_t ending, other; /* states */
};

static const struct pg_endpoint from = {.addr = {.word = {0, 0, 0xffff0000, 1}}, .port = 2};

static int open_map(struct bench *bench, const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/" PG_KERNEL_PINS_PREFIX "%d/%s", bench->pins,
		 PG_ABI_VERSION, name);
	fd = bpf_obj_get(path);
	CHECK(&bench->check, fd >= 0, "no map at %s", path);
	return fd;
}

static void start(struct bench *bench)
{
	struct pg_error err = {};

	if (pg_kernel_open(bench->pins, &bench->kernel, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(EXIT_FAILURE);
	}
	bench->places = open_map(bench, "pg_accepted");
	bench->counts = open_map(bench, "pg_flow_counts");
}

static void stop(struct bench *bench)
{
	close(bench->places);
	close(bench->counts);
	pg_kernel_free(bench->kernel);
}

static bool has_accepted(struct bench *bench, uint32_t state)
{
	struct pg_flow_count count = {};

	return !bpf_map_lookup_elem(bench->counts, &state, &count) && count.has_accepted;
}

static void put(struct bench *bench, uint32_t state, uint64_t cookies, size_t count)
{
	struct pg_flow_count has_accepted = {.has_accepted = 1};
	struct pg_accepted place = {
		.remote = from.addr,
		.remote_port = from.port,
		.owner = (__u16)(state | PG_ACCEPTED_CONFIRMED),
	};

	bpf_map_update_elem(bench->counts, &state, &has_accepted, BPF_EXIST);
	for (size_t i = 0; i < count; i++) {
		const uint32_t index = pg_accepted_index(cookies + i);

		place.cookie = cookies + i;
		bpf_map_update_elem(bench->places, &index, &place, BPF_F_LOCK);
	}
}

static void expect(struct bench *bench, const char *what, size_t ending, size_t others)
{
	size_t taken = 0;

	for (uint32_t i = 0; i < PG_ACCEPTED_MAX; i++) {
		struct pg_accepted place;

		taken += !bpf_map_lookup_elem(bench->places, &i, &place) && place.cookie;
	}
	CHECK(&bench->check, taken == ending + others, "%s: %zu places, not %zu", what, taken,
	      ending + others);
	CHECK(&bench->check, has_accepted(bench, bench->ending) == (ending > 0), "%s: own", what);
	CHECK(&bench->check, has_accepted(bench, bench->other), "%s: the other's", what);
}

static void take_states(struct bench *bench)
{
	struct pg_error err = {};

	CHECK(&bench->check,
	      !pg_state_take(bench->kernel, &bench->ending, &err) &&
		      !pg_state_take(bench->kernel, &bench->other, &err),
	      "%s", err.text);
}

static void try_find(struct bench *bench)
{
	struct pg_endpoint other = from;

	other.port ^= 1;
	CHECK(&bench->check, pg_accepted_has(bench->kernel, bench->ending, OWN + 1, &from),
	      "it is not found");
	CHECK(&bench->check, pg_accepted_has(bench->kernel, bench->other, FOREIGN, &from),
	      "the other's is not found");
	CHECK(&bench->check, !pg_accepted_has(bench->kernel, bench->ending, OWN + 1, &other),
	      "it is found by another port");
	other = from;
	other.addr.word[3] ^= 1;
	CHECK(&bench->check, !pg_accepted_has(bench->kernel, bench->ending, OWN + 1, &other),
	      "it is found by another address");
	CHECK(&bench->check, !pg_accepted_has(bench->kernel, bench->other, OWN + 1, &from),
	      "it is found for another Environment");
	CHECK(&bench->check,
	      !pg_accepted_has(bench->kernel, bench->ending, OWN + PG_ACCEPTED_MAX, &from),
	      "it is found by another cookie");
	CHECK(&bench->check, !pg_accepted_has(bench->kernel, PG_FLOW_ALL, 0, &from),
	      "a free place is found");
	check_group(&bench->check, "who is found");
}

static void try_ends(struct bench *bench)
{
	const uint32_t ending = bench->ending;
	struct pg_error err = {};

	expect(bench, "at first", ENDING, OTHERS);
	/* One that is closed. */
	bpf_map_update_elem(bench->places, &(uint32_t){PG_ACCEPTED_MAX - 1},
			    &(struct pg_accepted){
				    .cookie = PG_ACCEPTED_MAX - 1,
				    .owner = (__u16)(ending | PG_ACCEPTED_CLOSED),
			    },
			    BPF_F_LOCK);
	pg_state_release(bench->kernel, bench->ending);
	expect(bench, "ended", 0, OTHERS);
	/* A hook that was still running. */
	put(bench, ending, OWN, 1);
	pg_kernel_synchronize(bench->kernel);
	CHECK(&bench->check,
	      !pg_state_take(bench->kernel, &bench->ending, &err) && bench->ending == ending,
	      "another state: %s", err.text);
	expect(bench, "taken again", 0, OTHERS);
	check_group(&bench->check, "an Environment ends");
}

static void try_killed(struct bench *bench)
{
	struct pg_error err = {};

	put(bench, bench->ending, OWN, ENDING);
	stop(bench);
	start(bench);
	CHECK(&bench->check, !pg_state_occupy(bench->kernel, bench->other, &err), "%s", err.text);
	pg_kernel_sweep(bench->kernel);
	expect(bench, "killed", 0, OTHERS);
	CHECK(&bench->check, pg_accepted_has(bench->kernel, bench->other, FOREIGN, &from),
	      "the other's are gone");
	check_group(&bench->check, "who starts anew sweeps");
}

int main(void)
{
	struct bench bench = {};
	struct pg_error err = {};
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	lab_close(&lab);
	snprintf(bench.pins, sizeof(bench.pins), "/sys/fs/bpf/pg-test-accepted-%d", (int)getpid());
	start(&bench);
	take_states(&bench);
	put(&bench, bench.ending, OWN, ENDING);
	put(&bench, bench.other, FOREIGN, OTHERS);
	try_find(&bench);
	try_ends(&bench);
	try_killed(&bench);
	stop(&bench);
	CHECK(&bench.check, !pg_kernel_unpin(bench.pins, &err), "%s", err.text);
	rmdir(bench.pins);
	check_group(&bench.check, "nothing is left behind");
	return check_end(&bench.check);
}
