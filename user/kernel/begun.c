/* SPDX-License-Identifier: Apache-2.0 */
#include "begun.h"

#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kernel_internal.h"

static int begun_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_begun);
}

int pg_begun_start(struct pg_kernel *kernel, struct pg_error *err)
{
	static const struct pg_begun nothing;
	const uint64_t none = 0;

	if (bpf_map_update_elem(begun_fd(kernel), &none, &nothing, BPF_NOEXIST) && errno != EEXIST)
		return pg_fail_errno(err, -errno,
				     "making room for the namespaces in which programs begin");
	return 0;
}

enum pg_begun_found pg_begun_read(struct pg_kernel *kernel, uint64_t cookie,
				  struct pg_begun *ret_begun, uint32_t *ret_missed)
{
	const uint64_t none = 0;
	struct pg_begun begun, missed;
	int error;

	if (!cookie)
		return PG_BEGUN_UNKNOWN;
	error = bpf_map_lookup_elem(begun_fd(kernel), &cookie, &begun) ? errno : 0;
	if (error ? error != ENOENT : !begun.whole || begun.spoiled)
		return PG_BEGUN_UNKNOWN;
	/* Where there was no room, it is counted before the program begins, and so before what it
	 * has made of the namespace can be written down. */
	if (bpf_map_lookup_elem(begun_fd(kernel), &none, &missed))
		return PG_BEGUN_UNKNOWN;
	*ret_missed = missed.spoiled;
	if (error)
		return PG_BEGUN_NOT;
	*ret_begun = begun;
	return PG_BEGUN_SO;
}

void pg_begun_forget(struct pg_kernel *kernel, uint64_t cookie)
{
	if (cookie)
		bpf_map_delete_elem(begun_fd(kernel), &cookie);
}

void pg_begun_forget_all(struct pg_kernel *kernel, uint64_t env_id)
{
	uint64_t key, next, *previous = NULL;
	struct pg_begun begun;

	/* A key deleted meanwhile makes the walk start again; the table's size bounds it. */
	for (size_t i = 0; i < 2UL * PG_BEGUN_MAX; i++) {
		if (bpf_map_get_next_key(begun_fd(kernel), previous, &next))
			break;
		if (!bpf_map_lookup_elem(begun_fd(kernel), &next, &begun) &&
		    begun.env_id == env_id && !bpf_map_delete_elem(begun_fd(kernel), &next))
			continue;
		key = next;
		previous = &key;
	}
}
