/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel memory that an Environment takes besides its sets: what many take together, less what as
 * many cgroups without a policy take, and in which of the kernel's caches it is.
 */
#include "bench.h"

#include <string.h>

#include "kernel/kernel.h"
#include "kernel/link.h"

#include "children.h"
#include "memory.h"
#include "results.h"

#define TABLE	     "memory"
#define PARTS	     8
#define SETTLING     4 /* readings until what was unused at the beginning is gone */
#define READINGS     20
#define MANY	     128	/* of fewer the figures mean nothing */
#define FAR_IFINDEX  0x40000000 /* of no interface */
#define COLUMN	     "an Environment"
#define COLUMN_GUARD "more, with a guarded veth"

struct crowd {
	const struct machine *machine;
	struct pg_policy *policy;
	struct pg_environment *environments[BENCH_ENVIRONMENTS];
	size_t count;
};

static void name_of(size_t number, char name[static BENCH_NAME])
{
	snprintf(name, BENCH_NAME, "memory-%zu", number);
}

static void make_bare(const struct crowd *crowd)
{
	char name[BENCH_NAME];

	for (size_t i = 0; i < crowd->count; i++) {
		name_of(i, name);
		close(child_cgroup_make(crowd->machine, name));
	}
}

static void remove_bare(const struct crowd *crowd)
{
	char name[BENCH_NAME];

	for (size_t i = 0; i < crowd->count; i++) {
		name_of(i, name);
		child_cgroup_remove(crowd->machine, name);
	}
}

static struct pg_environment *make_environment(const struct crowd *crowd)
{
	const struct pg_environment_options options = {.policy = crowd->policy,
						       .phase = PG_PHASE_SETUP};
	struct pg_environment *environment;
	struct pg_error err = {0};

	if (pg_environment_create(crowd->machine->host, &options, &environment, &err) < 0)
		fail("%s", err.text);
	return environment;
}

static void make_environments(struct crowd *crowd)
{
	for (size_t i = 0; i < crowd->count; i++)
		crowd->environments[i] = make_environment(crowd);
}

/* Tables alone: the filters themselves are the veth's. */
static void make_links(const struct crowd *crowd)
{
	struct pg_kernel *kernel = pg_host_kernel(crowd->machine->host);
	struct pg_header header;
	struct pg_error err = {0};

	for (size_t i = 0; i < crowd->count; i++)
		if (pg_header_read(kernel, pg_environment_id(crowd->environments[i]), &header,
				   &err) < 0 ||
		    pg_link_put(kernel, FAR_IFINDEX + (unsigned int)i, &header, 0, NULL, &err) < 0)
			fail("%s", err.text);
}

static void end_environments(struct crowd *crowd)
{
	for (size_t i = 0; i < crowd->count; i++) {
		struct confined confined = {.environment = crowd->environments[i]};

		pg_link_forget(pg_host_kernel(crowd->machine->host), FAR_IFINDEX + (unsigned int)i);
		confined_destroy(&confined);
	}
}

/* Of one: the growth between two moments, less that between two others (NULL: none). */
static double growth(const struct memory_parts *before, const struct memory_parts *after,
		     const struct memory_parts *bare_before, size_t part, size_t count)
{
	double octets = after->parts[part].octets - before->parts[part].octets;

	if (bare_before)
		octets -= before->parts[part].octets - bare_before->parts[part].octets;
	return octets / (double)count;
}

static double growth_of_all(const struct memory_parts *before, const struct memory_parts *after,
			    const struct memory_parts *bare_before, size_t count)
{
	double octets = after->octets - before->octets;

	if (bare_before)
		octets -= before->octets - bare_before->octets;
	return octets / (double)count;
}

/* The largest parts of the growth, and the rest. */
static void put_parts(const struct memory_parts *before, const struct memory_parts *after,
		      const struct memory_parts *bare_before, const char *column, size_t count)
{
	const double all = growth_of_all(before, after, bare_before, count);
	bool taken[MEMORY_PARTS] = {false};
	double rest = all;
	char row[2 * BENCH_NAME];

	results_value(TABLE, "in all", column, "octets", all);
	for (size_t i = 0; i < PARTS; i++) {
		double most = 0;
		size_t of = 0;

		for (size_t part = 0; part < after->count; part++) {
			const double octets = growth(before, after, bare_before, part, count);

			if (taken[part] || octets <= most)
				continue;
			most = octets;
			of = part;
		}
		if (most < 1)
			break;
		taken[of] = true;
		rest -= most;
		snprintf(row, sizeof(row), "of it %s", after->parts[of].name);
		results_value(TABLE, row, column, "octets", most);
	}
	results_value(TABLE, "of it others", column, "octets", rest);
}

static void measure(struct crowd *crowd, struct memory_parts moments[static 4])
{
	/* It has the set, and what there is once. */
	struct confined first = {.environment = make_environment(crowd)};
	const bool many = crowd->count >= MANY;
	const size_t readings = many ? READINGS : 1;
	bool known = true;

	for (size_t i = 0; i < (many ? SETTLING : 1); i++)
		known = memory_read(&moments[0], readings);
	if (!known) {
		results_missing(TABLE, "in all", COLUMN, "there is no /proc/slabinfo here");
		confined_destroy(&first);
		return;
	}
	make_bare(crowd);
	memory_read(&moments[1], readings);
	make_environments(crowd);
	memory_read(&moments[2], readings);
	make_links(crowd);
	memory_read(&moments[3], readings);
	put_parts(&moments[1], &moments[2], &moments[0], COLUMN, crowd->count);
	put_parts(&moments[2], &moments[3], NULL, COLUMN_GUARD, crowd->count);
	end_environments(crowd);
	remove_bare(crowd);
	confined_destroy(&first);
}

void table_memory(const struct bench_options *options, struct machine *machine)
{
	pg_autofree struct memory_parts *moments = calloc(4, sizeof(*moments));
	pg_autofree struct crowd *crowd = calloc(1, sizeof(*crowd));
	pg_autofree char *document = set_document(BENCH_SMALL);
	uint64_t ignored;

	if (!moments || !crowd)
		fail("not enough memory for the results");
	crowd->machine = machine;
	crowd->count = options->environments;
	crowd->policy = bench_parse(document, &ignored);
	results_table(TABLE, "Kernel memory of an Environment",
		      "What many Environments of one policy take, with its set made before, less "
		      "what as many cgroups without a policy take: objects of the slab in use and "
		      "per-CPU memory of the machine, on which nothing else should happen, and the "
		      "caches that have most of it; unused directory entries and inodes are "
		      "dropped before. A guarded veth's is that of its tables, without what the "
		      "guard remembers: 16 KiB of pages that are no objects of the slab.");
	measure(crowd, moments);
	pg_policy_free(crowd->policy);
}
