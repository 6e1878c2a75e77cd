/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of the Environments' own network namespaces. */
#include "kernel_internal.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "net/addr.h"

static int own_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_own);
}

int pg_own_add(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr,
	       uint64_t netns, struct pg_error *err)
{
	const struct pg_own_key key = {.env_id = env_id, .addr = *addr};
	const pg_own_value value = netns;
	char text[PG_ADDR_TEXT];

	if (bpf_map_update_elem(own_fd(kernel), &key, &value, BPF_ANY))
		return pg_fail_errno(err, -errno, "recording the Environment's own address %s",
				     pg_addr_format(addr, text));
	return 0;
}

void pg_own_remove(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr)
{
	const struct pg_own_key key = {.env_id = env_id, .addr = *addr};

	bpf_map_delete_elem(own_fd(kernel), &key);
}

bool pg_own_has(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr)
{
	const struct pg_own_key key = {.env_id = env_id, .addr = *addr};
	pg_own_value value;

	return !bpf_map_lookup_elem(own_fd(kernel), &key, &value);
}

static bool is_among(const struct pg_addr *addrs, size_t count, const struct pg_addr *addr)
{
	for (size_t i = 0; i < count; i++)
		if (!pg_addr_compare(&addrs[i], addr))
			return true;
	return false;
}

void pg_own_retain(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addrs,
		   size_t count)
{
	struct pg_own_key key, next, *previous = NULL;

	while (!bpf_map_get_next_key(own_fd(kernel), previous, &next)) {
		if (next.env_id == env_id && !is_among(addrs, count, &next.addr) &&
		    !bpf_map_delete_elem(own_fd(kernel), &next))
			continue;
		key = next;
		previous = &key;
	}
}

void pg_own_clear(struct pg_kernel *kernel, uint64_t env_id)
{
	pg_own_retain(kernel, env_id, NULL, 0);
}
