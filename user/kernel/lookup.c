/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel has in its tables, looked up as bpf/set.bpf.h does. */
#include "set.h"

#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "kernel_internal.h"

/* The map that is in the slot of the outer map; -1: none is. */
static int open_inner(int outer, uint32_t slot)
{
	uint32_t id;

	return bpf_map_lookup_elem(outer, &slot, &id) ? -1 : bpf_map_get_fd_by_id(id);
}

static int look_up_table(const struct pg_kernel *kernel, const struct pg_phase_slot *slot,
			 enum pg_table table, const struct pg_prefix *prefix, bool *ret_found,
			 struct pg_error *err)
{
	pg_autoclose int fd = -1;
	char key[sizeof(struct pg_prefix6_key)];
	pg_set_value value;

	if (!(slot->tables & (1U << table)))
		return 0;
	fd = open_inner(pg_table_fd(kernel, table), slot->set);
	if (fd < 0)
		return pg_fail(err, -ENOENT, "a table of the set in slot %u is not there",
			       slot->set);
	pg_table_key(table, prefix, key);
	if (!bpf_map_lookup_elem(fd, key, &value))
		*ret_found = true;
	return 0;
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
	const bool v4 = pg_addr_is_v4(addr);
	const struct pg_prefix prefix = {.addr = *addr, .length = v4 ? 32 : 128};
	bool found = false;
	int error;

	error = look_up_table(kernel, slot, v4 ? PG_TABLE_EXACT4 : PG_TABLE_EXACT6, &prefix, &found,
			      err);
	if (!error && !found)
		error = look_up_table(kernel, slot, v4 ? PG_TABLE_PREFIX4 : PG_TABLE_PREFIX6,
				      &prefix, &found, err);
	if (!error && !found && slot->learned)
		error = look_up_learned(kernel, slot, addr, &found, err);
	if (error)
		return error;
	*ret_found = found;
	return 0;
}
