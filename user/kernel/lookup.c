/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel has in its tables, looked up as bpf/set.bpf.h does. */
#include "set.h"

#include <errno.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "compile/set_image.h"
#include "kernel_internal.h"

/* The map that is in the slot of the outer map; -1: none is. */
static int open_inner(int outer, uint32_t slot)
{
	uint32_t id;

	return bpf_map_lookup_elem(outer, &slot, &id) ? -1 : bpf_map_get_fd_by_id(id);
}

static int look_up_set(const struct pg_kernel *kernel, const struct pg_phase_slot *slot,
		       const struct pg_addr *addr, bool *ret_found, struct pg_error *err)
{
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);
	struct pg_set_node *nodes;
	pg_autoclose int fd = -1;
	size_t bytes;
	int error;

	if (!(slot->tables & (1U << (pg_addr_is_v4(addr) ? PG_TABLE_V4 : PG_TABLE_V6))))
		return 0;
	fd = open_inner(bpf_map__fd(kernel->skeleton->maps.pg_sets), slot->set);
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
		return pg_fail(err, -ENOENT, "the set of slot %u is not there", slot->set);
	bytes = info.max_entries * sizeof(*nodes);
	nodes = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (nodes == MAP_FAILED)
		return pg_fail_errno(err, -errno, "mapping the set of slot %u", slot->set);
	error = pg_set_nodes_contain(nodes, info.max_entries, addr, ret_found);
	munmap(nodes, bytes);
	return error ? pg_fail(err, error, "the set of slot %u is damaged", slot->set) : 0;
}

static int look_up_learned(const struct pg_kernel *kernel, const struct pg_phase_slot *slot,
			   const struct pg_addr *addr, bool *ret_found, struct pg_error *err)
{
	pg_autoclose int fd = -1;
	struct pg_learned learned;

	fd = open_inner(bpf_map__fd(kernel->skeleton->maps.pg_learned_sets), slot->learned);
	if (fd < 0)
		return pg_fail(err, -ENOENT, "the learned addresses of slot %u are not there",
			       slot->learned);
	if (!bpf_map_lookup_elem(fd, addr, &learned) && pg_boottime_ns() < learned.expires)
		*ret_found = true;
	return 0;
}

int pg_slot_contains(const struct pg_kernel *kernel, const struct pg_phase_slot *slot,
		     const struct pg_addr *addr, bool *ret_found, struct pg_error *err)
{
	bool found = false;
	int error = look_up_set(kernel, slot, addr, &found, err);

	if (!error && !found && slot->learned)
		error = look_up_learned(kernel, slot, addr, &found, err);
	if (error)
		return error;
	*ret_found = found;
	return 0;
}
