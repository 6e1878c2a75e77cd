// SPDX-License-Identifier: Apache-2.0
/* User space deletes flows and counts: aging, the end of an Environment, and who starts anew. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "check.h"
#include "kernel/kernel.h"
#include "lab.h"

#define IDLE  700 /* flows of the Environment with state 3 that are past their time */
#define FRESH 300
#define OTHER 50 /* of another, with state 4 */

#define ENV_ID	 0x7003
#define OTHER_ID 0x7004

struct bench {
	struct check check;
	struct pg_kernel *kernel;
	int flows;
};

static void put(struct bench *bench, uint64_t env_id, uint16_t owner, uint64_t seen, size_t count)
{
	const struct pg_flow flow = {.seen = seen, .direction = PG_FLOW_INBOUND, .owner = owner};
	struct pg_flow_key key = {.env_id = env_id, .netns = seen};

	for (size_t i = 0; i < count; i++) {
		key.local.word[0] = (__be32)i;
		if (bpf_map_update_elem(bench->flows, &key, &flow, BPF_NOEXIST))
			exit(EXIT_FAILURE);
	}
}

static void expect(struct bench *bench, const char *what, uint64_t own, uint64_t other)
{
	const uint64_t got = pg_flow_count(bench->kernel, 3);
	const uint64_t all = pg_flow_count(bench->kernel, PG_FLOW_ALL);

	CHECK(&bench->check, got == own, "%s: %lu flows, not %lu", what, got, own);
	CHECK(&bench->check, pg_flow_count(bench->kernel, 4) == other, "%s: the other's", what);
	CHECK(&bench->check, all == own + other, "%s: %lu flows of all", what, all);
}

static void try_counts(struct bench *bench)
{
	struct pg_error err = {};

	put(bench, ENV_ID, 3, 1, IDLE);
	put(bench, ENV_ID, 3, pg_boottime_ns(), FRESH);
	put(bench, OTHER_ID, 4, pg_boottime_ns(), OTHER);
	expect(bench, "not counted yet", 0, 0);
	CHECK(&bench->check, !pg_flows_recount(bench->kernel, &err), "%s", err.text);
	expect(bench, "counted anew", IDLE + FRESH, OTHER);
	/* Documented idle time; a machine that has just booted has none that are older. */
	if (pg_boottime_ns() > 2 * PG_FLOW_IDLE_NS) {
		CHECK(&bench->check, pg_flows_expire(bench->kernel, 0) == IDLE, "aging");
		expect(bench, "aged", FRESH, OTHER);
	}
	pg_flows_expire(bench->kernel, ENV_ID);
	expect(bench, "ended", 0, OTHER);
	CHECK(&bench->check, !pg_flows_recount(bench->kernel, &err), "%s", err.text);
	expect(bench, "counted once more", 0, OTHER);
	check_group(&bench->check, "counts follow what user space deletes");
}

int main(void)
{
	struct bench bench = {};
	struct pg_error err = {};
	struct lab lab;
	char pins[64], path[128];

	lab_open(&lab); /* for its namespace, and to skip without root */
	lab_close(&lab);
	snprintf(pins, sizeof(pins), "/sys/fs/bpf/pg-test-flows-%d", (int)getpid());
	if (pg_kernel_open(pins, &bench.kernel, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return EXIT_FAILURE;
	}
	snprintf(path, sizeof(path), "%s/" PG_KERNEL_PINS_PREFIX "%d/pg_flows", pins,
		 PG_ABI_VERSION);
	bench.flows = bpf_obj_get(path);
	if (CHECK(&bench.check, bench.flows >= 0, "no map at %s", path))
		try_counts(&bench);
	pg_kernel_free(bench.kernel);
	CHECK(&bench.check, !pg_kernel_unpin(pins, &err), "%s", err.text);
	rmdir(pins);
	check_group(&bench.check, "nothing is left behind");
	return check_end(&bench.check);
}
