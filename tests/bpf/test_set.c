/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lookups in address sets of many sizes and shapes against a reference that does not sort or merge:
 * at the ends of ranges, beside them, anywhere, and each one several times, so that hints are used.
 * Two programs look up at once in one set, on CPUs of their own, and what is in the hints is
 * overwritten with other places. PHASEGATE_TEST_CASES=10000000 is for a long run.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
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
#include "reference_set.h"

#include "judge.skel.h"

#define CASES	     200000
#define RUNS	     32 /* of the program, for one batch */
#define LOOKUPS	     (RUNS * JUDGE_LOOKUPS)
#define PASSES	     3 /* of each batch */
#define WORKERS	     2
#define SLOT	     (PG_SLOT_MAX - 1)
#define PREFIXES_MAX 1000000

/* Sets by hand: all addresses, the ends of all, neighbours, ranges in ranges. */
static const char *const lists[] = {
	"0.0.0.0/0",
	"::/0",
	"0.0.0.0/0 ::/0",
	"0.0.0.0 ::",
	"255.255.255.255 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	"0.0.0.0/1 8000::/1",
	"128.0.0.0/1 ::/1 2001:db8::/32 10.0.0.0/8",
	"10.0.0.0/9 10.128.0.0/9 2001:db8::/33 2001:db8:8000::/33",
	"10.0.0.0/8 10.0.0.0/16 10.255.255.255 11.0.0.0/32 2001:db8::/32 2001:db8::/64",
	"203.0.113.0/24 203.0.113.7 203.0.114.0/24 203.0.116.0/31 203.0.112.255",
	"0.0.0.0/32 0.0.0.2/31 ::/127 ::3 ::fffe:ffff:ffff ::1:0:0:0",
	"255.255.255.0/24 ffff:ffff:ffff:ffff::/64",
};

/* Random ones; of any length, or nearly exact ones. */
static const struct shape {
	size_t count;
	bool any_length;
} shapes[] = {
	{1, false},    {10, false},  {10, true},     {64, false},      {64, true},
	{1000, false}, {1000, true}, {20000, false}, {1000000, false},
};

struct set {
	const struct pg_prefix *prefixes;
	size_t count;
	struct reference_set reference;
	struct pg_set_node *nodes;
	size_t node_count;
	uint32_t bounds[PG_TABLE_COUNT];
	int fd;
};

struct worker {
	struct lab lab;
	struct rng rng;
	struct check check;
	struct judge_lookup *lookups;
	const struct set *set;
	unsigned long cases;
	unsigned int number;
	uint64_t ns; /* of the runs */
};

static struct worker workers[WORKERS];
static struct pg_prefix *prefixes;

/* Of few networks, so that ranges are near each other, or of all addresses. */
static struct pg_addr any_addr(struct rng *rng, bool v4)
{
	const bool near = rng_one_in(rng, 2);
	struct pg_addr addr = {.word = {htonl(0x20010db8)}};
	const uint64_t random = rng_next(rng);

	if (v4)
		return pg_addr_from_v4(
			htonl(near ? 0x0a000000U | (random & 0xfffffU) : (uint32_t)random));
	if (!near) {
		const uint64_t more = rng_next(rng);

		addr.word[0] = (uint32_t)more;
		addr.word[1] = (uint32_t)(more >> 32);
		addr.word[2] = (uint32_t)(random >> 32);
	}
	addr.word[3] = htonl(near ? random & 0xfffffU : (uint32_t)random);
	return addr;
}

static struct pg_prefix any_prefix(struct rng *rng, bool any_length)
{
	struct pg_prefix prefix = {.v4 = rng_one_in(rng, 2)};

	prefix.addr = any_addr(rng, prefix.v4);
	prefix.length = prefix.v4 ? 32 : 128;
	if (any_length)
		prefix.length = (__u8)(1 + rng_below(rng, prefix.length));
	else if (rng_one_in(rng, 3))
		prefix.length = (__u8)(prefix.length - rng_below(rng, 10));
	pg_prefix_mask(&prefix);
	return prefix;
}

static bool parse_prefix(const char *text, struct pg_prefix *ret_prefix)
{
	char copy[64], *slash;
	struct pg_addr addr;

	snprintf(copy, sizeof(copy), "%s", text);
	slash = strchr(copy, '/');
	if (slash)
		*slash = '\0';
	if (pg_addr_parse(copy, &addr) < 0)
		return false;
	*ret_prefix = (struct pg_prefix){.addr = addr, .v4 = !strchr(copy, ':')};
	ret_prefix->length =
		slash ? (__u8)strtoul(slash + 1, NULL, 10) : (__u8)(ret_prefix->v4 ? 32 : 128);
	return true;
}

static size_t parse_list(const char *list)
{
	char copy[256], *rest = copy, *word;
	size_t count = 0;

	snprintf(copy, sizeof(copy), "%s", list);
	while ((word = strsep(&rest, " ")))
		if (!CHECK(&workers[0].check, parse_prefix(word, &prefixes[count++]),
			   "not a prefix: %s", word))
			return 0;
	return count;
}

static bool map_set(struct set *set, const struct pg_set_image *image)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	const __u32 slot = SLOT;

	set->node_count = image->nodes;
	memcpy(set->bounds, image->bounds, sizeof(set->bounds));
	set->fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "judge_set", sizeof(__u32),
				 sizeof(*set->nodes), image->nodes, &options);
	set->nodes = mmap(NULL, image->nodes * sizeof(*set->nodes), PROT_READ | PROT_WRITE,
			  MAP_SHARED, set->fd, 0);
	if (set->nodes == MAP_FAILED)
		return false;
	pg_set_image_write(image, set->nodes);
	for (size_t i = 0; i < WORKERS; i++)
		if (bpf_map_update_elem(bpf_map__fd(workers[i].lab.skeleton->maps.pg_sets), &slot,
					&set->fd, BPF_ANY))
			return false;
	return true;
}

static bool make_set(struct set *set, size_t count)
{
	struct pg_address_set compiled = {};
	struct pg_set_image image;
	struct pg_error err = {};
	bool made = false;

	*set = (struct set){.prefixes = prefixes, .count = count, .fd = -1};
	if (pg_compile_prefixes(prefixes, count, &compiled, &err) ||
	    pg_set_image_plan(&compiled, &image, &err))
		printf("# %s\n", err.text);
	else
		made = reference_set_make(&set->reference, prefixes, count) && map_set(set, &image);
	pg_address_set_clear(&compiled);
	return made;
}

static void clear_set(struct set *set)
{
	munmap(set->nodes, set->node_count * sizeof(*set->nodes));
	close(set->fd);
	reference_set_clear(&set->reference);
}

static struct pg_addr end_of_all(struct rng *rng)
{
	static const struct pg_addr highest = {.word = {~0U, ~0U, ~0U, ~0U}};

	switch (rng_below(rng, 4)) {
	case 0:
		return pg_addr_from_v4(0);
	case 1:
		return pg_addr_from_v4(UINT32_MAX);
	case 2:
		return highest;
	default:
		return (struct pg_addr){};
	}
}

static struct pg_addr inside(struct rng *rng, const struct pg_prefix *prefix)
{
	const struct pg_addr first = reference_first(prefix), last = reference_last(prefix);
	struct pg_addr addr;

	for (size_t i = 0; i < 4; i++)
		addr.word[i] =
			first.word[i] | ((uint32_t)rng_next(rng) & (first.word[i] ^ last.word[i]));
	return addr;
}

static struct pg_addr choose(struct worker *worker, const struct judge_lookup *before)
{
	struct rng *rng = &worker->rng;
	const struct pg_prefix *prefix =
		&worker->set->prefixes[rng_below(rng, (unsigned int)worker->set->count)];

	switch (rng_below(rng, 10)) {
	case 0:
		return end_of_all(rng);
	case 1:
		return any_addr(rng, rng_one_in(rng, 2));
	case 2:
		return reference_beside(reference_first(prefix), false);
	case 3:
		return reference_beside(reference_first(prefix), true);
	case 4:
		return reference_last(prefix);
	case 5:
		return reference_beside(reference_last(prefix), false);
	case 6:
		return reference_beside(reference_last(prefix), true);
	case 7:
		return inside(rng, prefix);
	case 8:
		if (before)
			return before->addr;
		return reference_first(prefix);
	default:
		return reference_first(prefix);
	}
}

/* Any place in the leaves will do, or one that is none. */
static void spoil_hints(struct worker *worker)
{
	const struct pg_set_root *root = &worker->set->nodes[0].root;

	for (size_t table = 0; table < PG_TABLE_COUNT; table++) {
		const struct pg_set_tree *tree = &root->trees[table];

		for (size_t i = 0; tree->hints && i < LOOKUPS; i++) {
			const uint32_t number = (uint32_t)rng_next(&worker->rng) & tree->hint_mask;
			const uint32_t place =
				rng_below(&worker->rng, worker->set->bounds[table] + 1);
			struct pg_set_node *node =
				&worker->set->nodes[tree->hints + number / PG_SET_HINTS];

			*(volatile __u32 *)&node->hints[number % PG_SET_HINTS] =
				place < worker->set->bounds[table] ? place : UINT32_MAX;
		}
	}
}

static void compare(struct worker *worker, const bool *expected)
{
	const struct set *set = worker->set;
	char text[PG_ADDR_TEXT];

	for (size_t i = 0; i < LOOKUPS; i++) {
		const struct judge_lookup *lookup = &worker->lookups[i];

		CHECK(&worker->check, lookup->found == expected[i], "%s among %zu: %d",
		      pg_addr_format(&lookup->addr, text), set->count, lookup->found);
	}
}

static void look_up(struct worker *worker)
{
	static const uint8_t nothing[40] = {0x45};
	const struct lab_frame frame = {.ethertype = 0x0800,
					.octets = nothing,
					.size = sizeof(nothing)};
	struct bpf_program *program = worker->lab.skeleton->progs.judge_set;
	bool expected[LOOKUPS];

	for (size_t i = 0; i < LOOKUPS; i++) {
		struct judge_lookup *lookup = &worker->lookups[i];
		bool contained;

		lookup->addr = choose(worker, i ? lookup - 1 : NULL);
		expected[i] = reference_set_contains(&worker->set->reference, &lookup->addr);
		CHECK(&worker->check,
		      !pg_set_nodes_contain(worker->set->nodes, worker->set->node_count,
					    &lookup->addr, &contained) &&
			      contained == expected[i],
		      "user space says otherwise, among %zu", worker->set->count);
	}
	for (size_t pass = 0; pass < PASSES; pass++) {
		uint64_t start;

		for (size_t i = 0; i < LOOKUPS; i++)
			worker->lookups[i].found = INT32_MAX;
		start = pg_monotonic_ns();
		CHECK(&worker->check, lab_run(&worker->lab, program, &frame, RUNS) == 1,
		      "running judge_set: %s", strerror(errno));
		worker->ns += pg_monotonic_ns() - start;
		compare(worker, expected);
		spoil_hints(worker);
	}
}

static void *work(void *userdata)
{
	struct worker *worker = userdata;
	cpu_set_t cpu;

	/* Where there is but one CPU, they take turns. */
	CPU_ZERO(&cpu);
	CPU_SET(worker->number, &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	worker->ns = 0;
	worker->lab.skeleton->bss->judge_set_slot = SLOT;
	for (unsigned long done = 0; done < worker->cases; done += LOOKUPS)
		look_up(worker);
	return NULL;
}

static void judge(size_t count, unsigned long cases, const char *name)
{
	struct check *check = &workers[0].check;
	pthread_t threads[WORKERS];
	struct set set;

	if (!CHECK(check, make_set(&set, count), "%s: %s", name, strerror(errno)))
		return;
	for (unsigned int i = 0; i < WORKERS; i++) {
		workers[i].set = &set;
		workers[i].cases = cases / WORKERS;
		CHECK(check, !pthread_create(&threads[i], NULL, work, &workers[i]), "a thread");
	}
	for (size_t i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 1; i < WORKERS; i++) {
		check->checks += workers[i].check.checks;
		check->failures += workers[i].check.failures;
		workers[i].check = (struct check){};
	}
	check_group(check, name);
	clear_set(&set);
}

static void open_worker(struct worker *worker, unsigned int number, uint64_t seed)
{
	worker->number = number;
	worker->rng.state = seed + number;
	lab_open(&worker->lab);
	worker->lookups =
		mmap(NULL, LOOKUPS * sizeof(*worker->lookups), PROT_READ | PROT_WRITE, MAP_SHARED,
		     bpf_map__fd(worker->lab.skeleton->maps.judge_lookups), 0);
	if (worker->lookups == MAP_FAILED) {
		perror("mapping the lookups");
		exit(EXIT_FAILURE);
	}
}

static void judge_shape(const struct shape *shape, unsigned long cases)
{
	char name[64];

	for (size_t i = 0; i < shape->count; i++)
		prefixes[i] = any_prefix(&workers[0].rng, shape->any_length);
	snprintf(name, sizeof(name), "a set of %zu entries%s", shape->count,
		 shape->any_length ? " of any length" : "");
	judge(shape->count, cases, name);
}

int main(void)
{
	const unsigned long cases = lab_case_count(CASES);
	const size_t shape_count = sizeof(shapes) / sizeof(*shapes);
	const size_t list_count = sizeof(lists) / sizeof(*lists);
	/* Three of four are for the random ones. */
	const unsigned long each = cases * 3 / 4 / shape_count, few = cases / 4 / list_count;
	uint64_t seed;

	prefixes = calloc(PREFIXES_MAX, sizeof(*prefixes));
	if (!prefixes)
		return EXIT_FAILURE;
	seed = lab_seed();
	for (unsigned int i = 0; i < WORKERS; i++)
		open_worker(&workers[i], i, seed);
	for (size_t i = 0; i < list_count; i++)
		judge(parse_list(lists[i]), few, lists[i]);
	for (size_t i = 0; i < shape_count; i++)
		judge_shape(&shapes[i], each);
	free(prefixes);
	for (size_t i = 0; i < WORKERS; i++) {
		munmap(workers[i].lookups, LOOKUPS * sizeof(*workers[i].lookups));
		lab_close(&workers[i].lab);
	}
	return check_end(&workers[0].check);
}
