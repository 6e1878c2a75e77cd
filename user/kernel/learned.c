/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of addresses that were learned. */
#include <errno.h>
#include <fcntl.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "kernel_internal.h"
#include "set.h"

/* Rough kernel memory per element of a hash, for the advice on locked memory. */
#define ELEMENT_BYTES 128

static int note_learned(struct pg_kernel *kernel, uint32_t slot, uint32_t id, struct pg_error *err)
{
	struct pg_slot_use use = pg_slot_use_read(kernel, slot);

	use.learned_id = id;
	return pg_slot_use_write(kernel, slot, &use, err);
}

int pg_learned_create(struct pg_kernel *kernel, size_t capacity,
		      struct pg_kernel_learned *ret_learned, struct pg_error *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	const int outer = bpf_map__fd(kernel->skeleton->maps.pg_learned_sets);
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);
	pg_autoclose int fd = -1, mine = -1;
	uint32_t slot;
	int error;

	fd = bpf_map_create(BPF_MAP_TYPE_HASH, "pg_learned", sizeof(struct pg_addr),
			    sizeof(struct pg_learned), (uint32_t)capacity, &options);
	if (fd < 0)
		return pg_fail_map(err, -errno, "creating", "pg_learned", capacity * ELEMENT_BYTES);
	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		return pg_fail_errno(err, -errno, "reading the number of pg_learned");
	slot = pg_slot_take(kernel, &kernel->learned_slots);
	if (!slot)
		return pg_fail(err, -ENOSPC, "all %d slots for learned addresses are in use",
			       PG_SLOT_MAX - 1);
	mine = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (mine < 0)
		error = pg_fail_errno(err, -errno, "duplicating a descriptor");
	else
		error = note_learned(kernel, slot, info.id, err);
	if (!error) {
		error = pg_outer_put(kernel, outer, slot, PG_TAKE_FD(fd), info.id, err);
		if (error)
			pg_learned_forget(kernel, slot);
	}
	if (error) {
		pg_slot_release(&kernel->learned_slots, slot);
		return error;
	}
	*ret_learned = (struct pg_kernel_learned){slot, info.id, PG_TAKE_FD(mine)};
	return 0;
}

int pg_learned_occupy(struct pg_kernel *kernel, uint32_t slot, uint32_t id,
		      struct pg_kernel_learned *ret_learned, struct pg_error *err)
{
	pg_autoclose int fd = -1;

	if (!slot || slot >= PG_SLOT_MAX)
		return pg_fail(err, -ERANGE, "%u is not a slot of learned addresses", slot);
	if (!id || pg_slot_use_read(kernel, slot).learned_id != id)
		return pg_fail(err, -ENOENT,
			       "slot %u has not the learned addresses that are expected", slot);
	fd = bpf_map_get_fd_by_id(id);
	if (fd < 0)
		return pg_fail_errno(err, -errno, "opening the learned addresses of slot %u", slot);
	if (!pg_slot_occupy(&kernel->learned_slots, slot))
		return pg_fail(err, -EEXIST, "slot %u of learned addresses is in use already",
			       slot);
	*ret_learned = (struct pg_kernel_learned){slot, id, PG_TAKE_FD(fd)};
	return 0;
}

void pg_learned_forget(struct pg_kernel *kernel, uint32_t slot)
{
	(void)!note_learned(kernel, slot, 0, NULL);
}

void pg_learned_destroy(struct pg_kernel *kernel, struct pg_kernel_learned *learned)
{
	if (!learned->slot)
		return;
	pg_slot_retire(&kernel->learned_slots, learned->slot);
	pg_close_fd(&learned->fd);
	learned->slot = 0;
}

int pg_learned_put(const struct pg_kernel_learned *learned, const struct pg_addr *addr,
		   uint64_t expires, struct pg_error *err)
{
	const struct pg_learned value = {.expires = expires};
	char text[PG_ADDR_TEXT];

	if (bpf_map_update_elem(learned->fd, addr, &value, BPF_ANY))
		return pg_fail_errno(err, -errno, "storing the learned address %s",
				     pg_addr_format(addr, text));
	return 0;
}

void pg_learned_remove(const struct pg_kernel_learned *learned, const struct pg_addr *addr)
{
	bpf_map_delete_elem(learned->fd, addr);
}

bool pg_learned_contains(const struct pg_kernel_learned *learned, const struct pg_addr *addr,
			 bool draining)
{
	struct pg_learned value;

	if (!learned->slot || bpf_map_lookup_elem(learned->fd, addr, &value))
		return false;
	return draining || pg_boottime_ns() < value.expires;
}

int pg_learned_walk(const struct pg_kernel_learned *learned, pg_learned_visit visit, void *userdata,
		    struct pg_error *err)
{
	struct pg_addr key, next, *previous = NULL;

	if (!learned->slot)
		return 0;
	while (!bpf_map_get_next_key(learned->fd, previous, &next)) {
		struct pg_learned value;
		int r;

		/* One that is gone meanwhile, and removed by nobody but us. */
		if (!bpf_map_lookup_elem(learned->fd, &next, &value)) {
			r = visit(userdata, &next, value.expires);
			if (r < 0)
				return pg_fail_errno(err, r, "reading the learned addresses");
		}
		key = next;
		previous = &key;
	}
	return 0;
}
