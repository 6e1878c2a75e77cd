/* SPDX-License-Identifier: Apache-2.0 */
#include "host_end.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kernel_internal.h"

static int ends_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_host_ends);
}

bool pg_host_end_read(struct pg_kernel *kernel, const struct pg_host_end_key *key,
		      struct pg_host_end *ret_end)
{
	return !bpf_map_lookup_elem(ends_fd(kernel), key, ret_end);
}

void pg_host_end_restore(struct pg_kernel *kernel, const struct pg_host_end_key *key,
			 const struct pg_host_end *end)
{
	bpf_map_update_elem(ends_fd(kernel), key, end, BPF_NOEXIST);
}

void pg_host_end_forget(struct pg_kernel *kernel, const struct pg_host_end_key *key)
{
	bpf_map_delete_elem(ends_fd(kernel), key);
}

void pg_host_ends_sweep(struct pg_kernel *kernel, pg_host_end_keep keep, void *userdata)
{
	struct pg_host_end_key key, next, *previous = NULL;

	/* A key deleted meanwhile makes the walk start again; the table's size bounds it. */
	for (size_t i = 0; i < 2UL * PG_HOST_ENDS_MAX; i++) {
		if (bpf_map_get_next_key(ends_fd(kernel), previous, &next))
			break;
		if (!keep(userdata, &next) && !bpf_map_delete_elem(ends_fd(kernel), &next))
			continue;
		key = next;
		previous = &key;
	}
}

static bool is_of_another(void *userdata, const struct pg_host_end_key *key)
{
	const uint64_t *env_id = userdata;

	return key->env_id != *env_id;
}

void pg_host_ends_forget(struct pg_kernel *kernel, uint64_t env_id)
{
	pg_host_ends_sweep(kernel, is_of_another, &env_id);
}
