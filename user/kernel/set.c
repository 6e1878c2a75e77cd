/* SPDX-License-Identifier: Apache-2.0 */
#include "set.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "compile/set_image.h"
#include "kernel_internal.h"

static int outer_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_sets);
}

static int note_set(struct pg_kernel *kernel, uint32_t slot, uint32_t id, uint8_t names,
		    struct pg_error *err)
{
	struct pg_slot_use use = pg_slot_use_read(kernel, slot);

	use.set_id = id;
	use.set_tables = names;
	return pg_slot_use_write(kernel, slot, &use, err);
}

/* A map with the nodes of the image in it, or an error. */
static int make_map(const struct pg_set_image *image, struct pg_error *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	const size_t bytes = image->nodes * sizeof(struct pg_set_node);
	pg_autoclose int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pg_set", sizeof(__u32),
					     sizeof(struct pg_set_node), image->nodes, &options);
	struct pg_set_node *nodes;

	if (fd < 0)
		return pg_fail_map(err, -errno, "creating", "pg_set", bytes);
	nodes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (nodes == MAP_FAILED)
		return pg_fail_errno(err, -errno, "mapping an address set of %zu octets", bytes);
	pg_set_image_write(image, nodes);
	munmap(nodes, bytes);
	return PG_TAKE_FD(fd);
}

static int put(struct pg_kernel *kernel, const struct pg_kernel_set *set, int fd,
	       struct pg_error *err)
{
	int error = note_set(kernel, set->slot, set->id, set->tables, err);

	if (!error && bpf_map_update_elem(outer_fd(kernel), &set->slot, &fd, BPF_ANY)) {
		error = pg_fail_errno(err, -errno, "putting an address set into slot %u",
				      set->slot);
		(void)!note_set(kernel, set->slot, 0, 0, NULL);
	}
	return error;
}

int pg_set_create(struct pg_kernel *kernel, const struct pg_address_set *set,
		  struct pg_kernel_set *ret_set, struct pg_error *err)
{
	struct pg_kernel_set created = {};
	struct pg_set_image image;
	pg_autoclose int fd = -1;
	int error = pg_set_image_plan(set, &image, err);

	if (error)
		return error;
	if (!image.nodes) {
		*ret_set = created;
		return 0;
	}
	if (getrandom(&created.id, sizeof(created.id), 0) != (ssize_t)sizeof(created.id))
		return pg_fail_errno(err, -errno, "drawing a random number");
	created.id |= 1;
	created.tables = image.tables;
	fd = make_map(&image, err);
	if (fd < 0)
		return fd;
	created.slot = pg_slot_take(kernel, &kernel->set_slots);
	if (!created.slot)
		return pg_fail(err, -ENOSPC, "all %d slots for address sets are in use",
			       PG_SLOT_MAX - 1);
	error = put(kernel, &created, fd, err);
	if (error) {
		pg_slot_release(&kernel->set_slots, created.slot);
		return error;
	}
	*ret_set = created;
	return 0;
}

int pg_set_occupy(struct pg_kernel *kernel, const struct pg_kernel_set *set, struct pg_error *err)
{
	struct pg_slot_use use;

	if (!set->tables)
		return 0;
	if (!set->slot || set->slot >= PG_SLOT_MAX)
		return pg_fail(err, -ERANGE, "%u is not a slot of address sets", set->slot);
	use = pg_slot_use_read(kernel, set->slot);
	if (!use.set_id || (set->id && use.set_id != set->id) || use.set_tables != set->tables)
		return pg_fail(err, -ENOENT, "slot %u has not the set that is expected", set->slot);
	if (!pg_slot_occupy(&kernel->set_slots, set->slot))
		return pg_fail(err, -EEXIST, "slot %u of address sets is in use already",
			       set->slot);
	return 0;
}

void pg_set_empty(struct pg_kernel *kernel, uint32_t slot)
{
	bpf_map_delete_elem(outer_fd(kernel), &slot);
	(void)!note_set(kernel, slot, 0, 0, NULL);
}

void pg_set_destroy(struct pg_kernel *kernel, struct pg_kernel_set *set)
{
	if (!set->slot)
		return;
	pg_set_empty(kernel, set->slot);
	pg_slot_retire(&kernel->set_slots, set->slot);
	*set = (struct pg_kernel_set){};
}
