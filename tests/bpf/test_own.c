/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own addresses of Environments: what is done for one leaves those of others alone; the next
 * process with the same pins knows them, and puts right what a killed one has left.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include <phasegate/abi/set.h>

#include "base/cleanup.h"
#include "check.h"
#include "kernel/kernel.h"
#include "lab.h"
#include "net/addr.h"

#define ONE   1000U
#define OTHER 2000U
#define LATER 3000U

struct bench {
	struct check check;
	char pins[64];
	struct pg_kernel *kernel;
	struct pg_addr v4, first, second; /* both IPv6 ones have one group */
	int groups;			  /* the map */
};

static struct pg_addr address6(uint32_t prefix)
{
	struct pg_addr addr = {};

	addr.word[0] = htonl(0x20010db8);
	addr.word[1] = htonl(prefix);
	addr.word[3] = htonl(0x00abcdef);
	return addr;
}

static struct pg_own_key group_of(uint64_t env_id)
{
	struct pg_own_key key = {.env_id = env_id};

	key.addr.word[0] = htonl(0xff020000);
	key.addr.word[2] = htonl(1);
	key.addr.word[3] = htonl(0xffabcdef);
	return key;
}

/* How many of the Environment's addresses have the group, by the kernel. */
static __u32 grouped(const struct bench *bench, uint64_t env_id)
{
	const struct pg_own_key key = group_of(env_id);
	__u32 count = 0;

	(void)bpf_map_lookup_elem(bench->groups, &key, &count);
	return count;
}

static void open_kernel(struct bench *bench)
{
	char path[128];
	struct pg_error err = {};

	if (!CHECK(&bench->check, !pg_kernel_open(bench->pins, &bench->kernel, &err), "%s",
		   err.text))
		exit(EXIT_FAILURE);
	snprintf(path, sizeof(path), "%s/" PG_KERNEL_PINS_PREFIX "%d/pg_own_groups", bench->pins,
		 PG_ABI_VERSION);
	pg_close_fd(&bench->groups);
	bench->groups = bpf_obj_get(path);
	CHECK(&bench->check, bench->groups >= 0, "%s", path);
}

static void add_all(struct bench *bench, uint64_t env_id)
{
	const struct pg_addr *const all[] = {&bench->v4, &bench->first, &bench->second};
	struct pg_error err = {};

	for (size_t i = 0; i < PG_ARRAY_SIZE(all); i++)
		/* Again changes nothing. */
		for (int times = 0; times < 2; times++)
			CHECK(&bench->check, !pg_own_add(bench->kernel, env_id, all[i], 0, &err),
			      "%s", err.text);
}

static size_t known(const struct bench *bench, uint64_t env_id)
{
	return (size_t)pg_own_has(bench->kernel, env_id, &bench->v4) +
	       (size_t)pg_own_has(bench->kernel, env_id, &bench->first) +
	       (size_t)pg_own_has(bench->kernel, env_id, &bench->second);
}

/* Addresses of the Environment, and of them those in the group. */
static void expect(struct bench *bench, uint64_t env_id, size_t addresses, __u32 in_group)
{
	CHECK(&bench->check, known(bench, env_id) == addresses, "%llu has %zu addresses, not %zu",
	      (unsigned long long)env_id, known(bench, env_id), addresses);
	CHECK(&bench->check, grouped(bench, env_id) == in_group, "%llu: %u in the group, not %u",
	      (unsigned long long)env_id, grouped(bench, env_id), in_group);
}

static void of_one_process(struct bench *bench)
{
	add_all(bench, OTHER);
	add_all(bench, ONE); /* ids that do not grow */
	add_all(bench, LATER);
	expect(bench, ONE, 3, 2);
	pg_own_remove(bench->kernel, ONE, &bench->first);
	pg_own_remove(bench->kernel, ONE, &bench->first);
	expect(bench, ONE, 2, 1);
	pg_own_retain(bench->kernel, OTHER, &bench->v4, 1);
	expect(bench, OTHER, 1, 0);
	pg_own_clear(bench->kernel, ONE);
	pg_own_clear(bench->kernel, ONE);
	expect(bench, ONE, 0, 0);
	expect(bench, OTHER, 1, 0);
	expect(bench, LATER, 3, 2);
	add_all(bench, ONE);
	expect(bench, ONE, 3, 2);
	check_group(&bench->check, "what is done for one leaves others alone");
}

/* A process is killed between the two maps, in either direction. */
static void of_the_next(struct bench *bench)
{
	const struct pg_own_key one = group_of(ONE), gone = group_of(OTHER), less = group_of(LATER);
	const __u32 more = 7;

	CHECK(&bench->check,
	      !bpf_map_update_elem(bench->groups, &one, &more, BPF_ANY) &&
		      !bpf_map_update_elem(bench->groups, &gone, &more, BPF_ANY) &&
		      !bpf_map_delete_elem(bench->groups, &less),
	      "the counts cannot be spoilt");
	pg_kernel_free(PG_TAKE_PTR(bench->kernel));
	open_kernel(bench);
	expect(bench, ONE, 3, 2);
	expect(bench, OTHER, 1, 0);
	expect(bench, LATER, 3, 2);
	check_group(&bench->check, "the next process puts the groups right");
	pg_own_retain(bench->kernel, ONE, &bench->second, 1);
	expect(bench, ONE, 1, 1);
	pg_own_clear(bench->kernel, LATER);
	expect(bench, LATER, 0, 0);
	expect(bench, OTHER, 1, 0);
	check_group(&bench->check, "it knows what there is");
}

int main(void)
{
	struct bench bench = {.groups = -1,
			      .v4 = pg_addr_from_v4(htonl(0xc0000201)),
			      .first = address6(1),
			      .second = address6(2)};
	struct pg_error err = {};
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	snprintf(bench.pins, sizeof(bench.pins), "/sys/fs/bpf/phasegate-test-%d", getpid());
	open_kernel(&bench);
	of_one_process(&bench);
	of_the_next(&bench);
	pg_close_fd(&bench.groups);
	pg_kernel_free(bench.kernel);
	CHECK(&bench.check, !pg_kernel_unpin(bench.pins, &err) && !rmdir(bench.pins), "%s",
	      err.text);
	lab_close(&lab);
	check_group(&bench.check, "nothing is left");
	return check_end(&bench.check);
}
