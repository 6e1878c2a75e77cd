/* SPDX-License-Identifier: Apache-2.0 */
/* Emptying the slots of outer maps, many at once. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kernel_internal.h"
#include "set.h"

/* A set that no address can be looked up in: whoever would is denied, as if nothing were there. */
static int make_empty_set(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	const uint32_t zero = 0;
	struct pg_set_node node = {};
	pg_autoclose int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pg_set", sizeof(__u32),
					     sizeof(struct pg_set_node), 1, &options);

	for (unsigned int i = 0; i < PG_TABLE_COUNT; i++) {
		node.root.trees[i].levels = 1;
		node.root.trees[i].base[0] = UINT32_MAX;
	}
	if (fd < 0 || bpf_map_update_elem(fd, &zero, &node, BPF_ANY))
		return -1;
	return PG_TAKE_FD(fd);
}

static int make_empty_learned(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);

	return bpf_map_create(BPF_MAP_TYPE_HASH, "pg_learned", sizeof(struct pg_addr),
			      sizeof(struct pg_learned), 1, &options);
}

/* All with one wait; one by one before Linux 5.14, and where not even an empty map could be made.
 */
static void empty(struct pg_emptied *emptied)
{
	__u32 count = emptied->count;

	if (!count)
		return;
	if (emptied->empty >= 0 &&
	    !bpf_map_update_batch(emptied->outer, emptied->slots, emptied->inner, &count, NULL)) {
		emptied->done = emptied->count;
		return;
	}
	while (emptied->done < emptied->count) {
		if (bpf_map_delete_elem(emptied->outer, &emptied->slots[emptied->done]) &&
		    errno != ENOENT)
			return;
		emptied->done++;
	}
}

static void *run(void *userdata)
{
	struct pg_emptying *emptying = userdata;

	pg_wait_for_hooks(emptying->kernel);
	empty(&emptying->sets);
	empty(&emptying->learned);
	atomic_store(&emptying->over, true);
	return NULL;
}

/* Takes all that are retired. */
static void gather(struct pg_emptied *emptied, struct pg_slots *slots)
{
	const uint32_t count = pg_slots_retired(slots);
	uint32_t *all;

	emptied->count = emptied->done = 0;
	if (!count)
		return;
	/* Without memory, another time. */
	all = calloc(count, sizeof(*emptied->slots) + sizeof(*emptied->inner));
	if (!all)
		return;
	free(emptied->slots);
	emptied->slots = all;
	emptied->inner = (int *)(all + count);
	for (uint32_t slot = 1; slot < slots->max; slot++) {
		if (!pg_slot_is_retired(slots, slot))
			continue;
		pg_slot_revive(slots, slot);
		emptied->inner[emptied->count] = emptied->empty;
		emptied->slots[emptied->count++] = slot;
	}
}

static bool prepare(struct pg_kernel *kernel)
{
	struct pg_emptying *emptying = &kernel->emptying;

	if (!pg_slots_retired(&kernel->set_slots) && !pg_slots_retired(&kernel->learned_slots))
		return false;
	pg_puts_see(kernel);
	emptying->kernel = kernel;
	emptying->sets.outer = bpf_map__fd(kernel->skeleton->maps.pg_sets);
	emptying->learned.outer = bpf_map__fd(kernel->skeleton->maps.pg_learned_sets);
	if (emptying->sets.empty < 0)
		emptying->sets.empty = make_empty_set();
	if (emptying->learned.empty < 0)
		emptying->learned.empty = make_empty_learned();
	gather(&emptying->sets, &kernel->set_slots);
	gather(&emptying->learned, &kernel->learned_slots);
	for (uint32_t i = 0; i < emptying->sets.count; i++)
		kernel->sets[emptying->sets.slots[i]] = (struct pg_set_use){};
	return true;
}

/* What could not be emptied stays retired. */
static void release(struct pg_kernel *kernel, struct pg_emptied *emptied, struct pg_slots *slots,
		    void (*forget)(struct pg_kernel *kernel, uint32_t slot))
{
	for (uint32_t i = 0; i < emptied->count; i++) {
		if (i >= emptied->done) {
			pg_slot_retire(slots, emptied->slots[i]);
			continue;
		}
		forget(kernel, emptied->slots[i]);
		pg_slot_release(slots, emptied->slots[i]);
	}
	emptied->count = 0;
}

static void finish(struct pg_kernel *kernel)
{
	struct pg_emptying *emptying = &kernel->emptying;

	if (emptying->running)
		pthread_join(emptying->thread, NULL);
	emptying->running = false;
	release(kernel, &emptying->sets, &kernel->set_slots, pg_set_forget);
	release(kernel, &emptying->learned, &kernel->learned_slots, pg_learned_forget);
}

bool pg_kernel_tidy(struct pg_kernel *kernel)
{
	struct pg_emptying *emptying = &kernel->emptying;

	pg_puts_reap(kernel);
	if (emptying->running && !atomic_load(&emptying->over))
		return true;
	finish(kernel);
	if (!prepare(kernel))
		return pg_puts_wait(kernel);
	atomic_store(&emptying->over, false);
	emptying->running = !pg_thread_start(&emptying->thread, run, emptying);
	if (!emptying->running) {
		run(emptying);
		finish(kernel);
	}
	return true;
}

void pg_outer_empty(struct pg_kernel *kernel)
{
	finish(kernel);
	if (!prepare(kernel))
		return;
	run(&kernel->emptying);
	finish(kernel);
}

void pg_outer_end(struct pg_kernel *kernel)
{
	struct pg_emptying *emptying = &kernel->emptying;

	pg_puts_end(kernel);
	finish(kernel);
	free(emptying->sets.slots);
	free(emptying->learned.slots);
	pg_close_fd(&emptying->sets.empty);
	pg_close_fd(&emptying->learned.empty);
}
