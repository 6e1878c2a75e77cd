/* SPDX-License-Identifier: Apache-2.0 */
/* What an entry opens of the host itself: abi/set.h. */
#include "kernel_internal.h"

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

static bool contains(const char *keys, size_t size, size_t count, const void *key)
{
	for (size_t i = 0; i < count; i++)
		if (!memcmp(keys + i * size, key, size))
			return true;
	return false;
}

/* Adds first and removes then: what stays is there throughout. */
static int replace(int fd, const void *keys, size_t size, size_t count, size_t max,
		   const char *what, struct pg_error *err)
{
	const uint8_t present = 1;
	uint8_t key[sizeof(struct pg_addr)], next[sizeof(struct pg_addr)];
	bool begun = false;

	for (size_t i = 0; i < count; i++)
		if (bpf_map_update_elem(fd, (const char *)keys + i * size, &present, BPF_ANY))
			return pg_fail_errno(err, -errno, "storing the host's %s", what);
	/* A key deleted meanwhile makes the walk start again; the table's size bounds it. */
	for (size_t i = 0; i < 2 * max; i++) {
		if (bpf_map_get_next_key(fd, begun ? key : NULL, next))
			break;
		if (!contains(keys, size, count, next) && !bpf_map_delete_elem(fd, next))
			continue;
		memcpy(key, next, sizeof(key));
		begun = true;
	}
	return 0;
}

int pg_host_ports_set(struct pg_kernel *kernel, const __be16 *ports, size_t count,
		      struct pg_error *err)
{
	return replace(bpf_map__fd(kernel->skeleton->maps.pg_host_ports), ports, sizeof(*ports),
		       count, PG_HOST_PORT_MAX, "ports", err);
}

int pg_host_addresses_set(struct pg_kernel *kernel, const struct pg_addr *addrs, size_t count,
			  struct pg_error *err)
{
	return replace(bpf_map__fd(kernel->skeleton->maps.pg_host_addresses), addrs, sizeof(*addrs),
		       count, PG_HOST_ADDRESS_MAX, "addresses", err);
}
