/* SPDX-License-Identifier: Apache-2.0 */
#include "set.h"

#include <errno.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "compile/set_image.h"
#include "kernel_internal.h"

static int outer_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_sets);
}

static int note_set(struct pg_kernel *kernel, uint32_t slot, const struct pg_set_use *set,
		    struct pg_error *err)
{
	struct pg_slot_use use = pg_slot_use_read(kernel, slot);

	use.set_digest = set->digest;
	use.set_id = set->id;
	use.set_tables = set->tables;
	return pg_slot_use_write(kernel, slot, &use, err);
}

/* A map with the nodes of the image in it, or an error. */
static int make_map(const struct pg_set_image *image, uint32_t *ret_id, struct pg_error *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	const size_t bytes = image->nodes * sizeof(struct pg_set_node);
	pg_autoclose int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pg_set", sizeof(__u32),
					     sizeof(struct pg_set_node), image->nodes, &options);
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);
	struct pg_set_node *nodes;

	if (fd < 0)
		return pg_fail_map(err, -errno, "creating", "pg_set", bytes);
	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		return pg_fail_errno(err, -errno, "reading the number of pg_set");
	nodes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (nodes == MAP_FAILED)
		return pg_fail_errno(err, -errno, "mapping an address set of %zu octets", bytes);
	pg_set_image_write(image, nodes);
	munmap(nodes, bytes);
	*ret_id = info.id;
	return PG_TAKE_FD(fd);
}

/* The digest says only that it may be. */
static bool has_same(const struct pg_set_use *use, const struct pg_set_image *image)
{
	pg_autoclose int fd = -1;
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);
	struct pg_set_node *nodes;
	bool same;

	if (!use->id || use->digest != image->digest || use->tables != image->tables)
		return false;
	fd = bpf_map_get_fd_by_id(use->id);
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) || info.type != BPF_MAP_TYPE_ARRAY ||
	    info.value_size != sizeof(*nodes) || info.max_entries != image->nodes)
		return false;
	nodes = mmap(NULL, image->nodes * sizeof(*nodes), PROT_READ, MAP_SHARED, fd, 0);
	if (nodes == MAP_FAILED)
		return false;
	same = pg_set_image_is(image, nodes, image->nodes);
	munmap(nodes, image->nodes * sizeof(*nodes));
	return same;
}

static bool share(struct pg_kernel *kernel, const struct pg_set_image *image,
		  struct pg_kernel_set *ret_set)
{
	for (uint32_t slot = 1; slot < PG_SLOT_MAX; slot++) {
		struct pg_set_use *use = &kernel->sets[slot];

		if (slot % 64 == 0 && !kernel->set_slots.used[slot / 64])
			slot += 63;
		else if (has_same(use, image)) {
			use->refs++;
			pg_slot_revive(&kernel->set_slots, slot);
			*ret_set = (struct pg_kernel_set){slot, use->id, use->tables};
			return true;
		}
	}
	return false;
}

/* Takes the descriptor of the map over. */
static int put(struct pg_kernel *kernel, uint32_t slot, const struct pg_set_use *use, int fd,
	       struct pg_error *err)
{
	pg_autoclose int inner = fd;
	int error = note_set(kernel, slot, use, err);

	if (!error)
		error = pg_outer_put(kernel, outer_fd(kernel), slot, PG_TAKE_FD(inner), use->id,
				     err);
	if (error)
		pg_set_forget(kernel, slot);
	return error;
}

int pg_set_create(struct pg_kernel *kernel, const struct pg_address_set *set,
		  struct pg_kernel_set *ret_set, struct pg_error *err)
{
	struct pg_set_use use = {.refs = 1};
	struct pg_set_image image;
	pg_autoclose int fd = -1;
	uint32_t slot;
	int error = pg_set_image_plan(set, &image, err);

	if (error)
		return error;
	if (!image.nodes) {
		*ret_set = (struct pg_kernel_set){};
		return 0;
	}
	if (share(kernel, &image, ret_set))
		return 0;
	use.digest = image.digest;
	use.tables = image.tables;
	fd = make_map(&image, &use.id, err);
	if (fd < 0)
		return fd;
	slot = pg_slot_take(kernel, &kernel->set_slots);
	if (!slot)
		return pg_fail(err, -ENOSPC, "all %d slots for address sets are in use",
			       PG_SLOT_MAX - 1);
	error = put(kernel, slot, &use, PG_TAKE_FD(fd), err);
	if (error) {
		pg_slot_release(&kernel->set_slots, slot);
		return error;
	}
	kernel->sets[slot] = use;
	*ret_set = (struct pg_kernel_set){slot, use.id, use.tables};
	return 0;
}

int pg_set_occupy(struct pg_kernel *kernel, const struct pg_kernel_set *set, struct pg_error *err)
{
	struct pg_slot_use noted;
	struct pg_set_use *use;

	if (!set->tables)
		return 0;
	if (!set->slot || set->slot >= PG_SLOT_MAX)
		return pg_fail(err, -ERANGE, "%u is not a slot of address sets", set->slot);
	noted = pg_slot_use_read(kernel, set->slot);
	if (!noted.set_id || (set->id && noted.set_id != set->id) ||
	    noted.set_tables != set->tables)
		return pg_fail(err, -ENOENT, "slot %u has not the set that is expected", set->slot);
	use = &kernel->sets[set->slot];
	use->digest = noted.set_digest;
	use->id = noted.set_id;
	use->tables = set->tables;
	use->refs++;
	pg_slot_occupy(&kernel->set_slots, set->slot);
	pg_slot_revive(&kernel->set_slots, set->slot);
	return 0;
}

void pg_set_forget(struct pg_kernel *kernel, uint32_t slot)
{
	static const struct pg_set_use nothing;

	(void)!note_set(kernel, slot, &nothing, NULL);
}

void pg_set_destroy(struct pg_kernel *kernel, struct pg_kernel_set *set)
{
	struct pg_set_use *use = &kernel->sets[set->slot];

	if (set->slot && use->refs && !--use->refs)
		pg_slot_retire(&kernel->set_slots, set->slot);
	*set = (struct pg_kernel_set){};
}
