/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lookups in address sets of many sizes against the compiled set: at the ends of ranges, beside
 * them, anywhere, and again and again, so that hints are used. PHASEGATE_TEST_CASES=10000000 is for
 * a long run.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "compile/set_image.h"

#include "check.h"
#include "lab.h"
#include "random.h"

#include "judge.skel.h"

#define CASES	600000
#define LOOKUPS (JUDGE_BATCH * JUDGE_LOOKUPS)
#define SLOT	(PG_SLOT_MAX - 1)

struct bench {
	struct check check;
	struct lab lab;
	struct rng rng;
	struct judge_lookup *lookups;
	struct pg_prefix *prefixes;
	size_t count;
	struct pg_address_set set;
	int fd;
};

/* Of few networks, so that ranges are near each other, or of all addresses. */
static struct pg_addr any_addr(struct bench *bench, bool v4)
{
	const bool near = rng_one_in(&bench->rng, 2);
	struct pg_addr addr = {.word = {htonl(0x20010db8)}};
	uint64_t random = rng_next(&bench->rng);

	if (v4)
		return pg_addr_from_v4(
			htonl(near ? 0x0a000000U | (random & 0xfffffU) : (uint32_t)random));
	if (!near)
		addr.word[1] = (uint32_t)(random >> 32);
	addr.word[3] = htonl(near ? random & 0xfffffU : (uint32_t)random);
	return addr;
}

static struct pg_prefix any_prefix(struct bench *bench)
{
	struct pg_prefix prefix = {.v4 = rng_one_in(&bench->rng, 2)};

	prefix.addr = any_addr(bench, prefix.v4);
	prefix.length = prefix.v4 ? 32 : 128;
	if (rng_one_in(&bench->rng, 3))
		prefix.length = (__u8)(prefix.length - rng_below(&bench->rng, 10));
	pg_prefix_mask(&prefix);
	return prefix;
}

static struct pg_addr step(struct pg_addr addr, int by)
{
	addr.word[3] = htonl(ntohl(addr.word[3]) + (unsigned int)by);
	return addr;
}

static bool make_set(struct bench *bench, size_t count)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	const __u32 slot = SLOT;
	struct pg_set_image image;
	struct pg_set_node *nodes;
	struct pg_error err = {};

	bench->count = count;
	for (size_t i = 0; i < count; i++)
		bench->prefixes[i] = any_prefix(bench);
	if (pg_compile_prefixes(bench->prefixes, count, &bench->set, &err) ||
	    pg_set_image_plan(&bench->set, &image, &err)) {
		printf("# %s\n", err.text);
		return false;
	}
	bench->fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "judge_set", sizeof(__u32), sizeof(*nodes),
				   image.nodes, &options);
	nodes = mmap(NULL, image.nodes * sizeof(*nodes), PROT_READ | PROT_WRITE, MAP_SHARED,
		     bench->fd, 0);
	if (nodes == MAP_FAILED)
		return false;
	pg_set_image_write(&image, nodes);
	munmap(nodes, image.nodes * sizeof(*nodes));
	return !bpf_map_update_elem(bpf_map__fd(bench->lab.skeleton->maps.pg_sets), &slot,
				    &bench->fd, BPF_ANY);
}

static void choose(struct bench *bench, struct judge_lookup *lookup, size_t number)
{
	const struct pg_prefix *prefix =
		&bench->prefixes[rng_below(&bench->rng, (unsigned int)bench->count)];

	lookup->found = INT32_MAX;
	switch (rng_below(&bench->rng, 6)) {
	case 0:
		lookup->addr = any_addr(bench, rng_one_in(&bench->rng, 2));
		break;
	case 1:
		lookup->addr = step(prefix->addr, -1);
		break;
	case 2:
		lookup->addr = step(prefix->addr, (int)rng_below(&bench->rng, 300));
		break;
	case 3:
		if (number) {
			lookup->addr = lookup[-1].addr;
			break;
		}
		/* fall through */
	case 4:
		lookup->addr =
			rng_one_in(&bench->rng, 50)
				? pg_addr_from_v4(rng_one_in(&bench->rng, 2) ? UINT32_MAX : 0)
				: bench->prefixes[number % bench->count].addr;
		break;
	default:
		lookup->addr = prefix->addr;
	}
}

static void compare(struct bench *bench)
{
	char text[PG_ADDR_TEXT];

	for (size_t i = 0; i < LOOKUPS; i++) {
		const struct judge_lookup *lookup = &bench->lookups[i];

		CHECK(&bench->check,
		      lookup->found == pg_address_set_contains(&bench->set, &lookup->addr),
		      "%s among %zu: %d", pg_addr_format(&lookup->addr, text), bench->count,
		      lookup->found);
	}
}

static void judge(struct bench *bench, size_t count, unsigned long cases)
{
	static const uint8_t nothing[40] = {0x45};
	const struct lab_frame frame = {.ethertype = 0x0800,
					.octets = nothing,
					.size = sizeof(nothing)};
	struct bpf_program *program = bench->lab.skeleton->progs.judge_set;
	uint64_t ns = 0;
	unsigned long done = 0;
	char name[64];

	if (!CHECK(&bench->check, make_set(bench, count), "a set of %zu: %s", count,
		   strerror(errno)))
		return;
	bench->lab.skeleton->bss->judge_set_slot = SLOT;
	for (; done < cases; done += LOOKUPS) {
		uint64_t start;

		for (size_t i = 0; i < LOOKUPS; i++)
			choose(bench, &bench->lookups[i], i);
		start = pg_monotonic_ns();
		CHECK(&bench->check, lab_run(&bench->lab, program, &frame, JUDGE_BATCH) == 1,
		      "running judge_set: %s", strerror(errno));
		ns += pg_monotonic_ns() - start;
		compare(bench);
	}
	printf("# %zu entries: %.1f ns a lookup\n", count, (double)ns / (double)done);
	snprintf(name, sizeof(name), "a set of %zu entries", count);
	check_group(&bench->check, name);
	close(bench->fd);
	pg_address_set_clear(&bench->set);
}

int main(void)
{
	static const size_t counts[] = {1, 10, 64, 1000, 20000, 1000000};
	const unsigned long cases = lab_case_count(CASES);
	struct bench bench = {};

	lab_open(&bench.lab);
	bench.rng.state = lab_seed();
	bench.prefixes =
		calloc(counts[sizeof(counts) / sizeof(*counts) - 1], sizeof(*bench.prefixes));
	bench.lookups = mmap(NULL, LOOKUPS * sizeof(*bench.lookups), PROT_READ | PROT_WRITE,
			     MAP_SHARED, bpf_map__fd(bench.lab.skeleton->maps.judge_lookups), 0);
	if (!bench.prefixes || bench.lookups == MAP_FAILED)
		return EXIT_FAILURE;
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		judge(&bench, counts[i], cases / (sizeof(counts) / sizeof(*counts)));
	munmap(bench.lookups, LOOKUPS * sizeof(*bench.lookups));
	free(bench.prefixes);
	lab_close(&bench.lab);
	return check_end(&bench.check);
}
