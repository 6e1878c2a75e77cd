/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

static int headers_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_headers);
}

static int write_header(struct pg_kernel *kernel, uint64_t cgroup_id,
			const struct pg_header *header, struct pg_error *err)
{
	if (bpf_map_update_elem(headers_fd(kernel), &cgroup_id, header, BPF_EXIST))
		return pg_fail_errno(err, -errno, "writing the header of cgroup %" PRIu64,
				     cgroup_id);
	return 0;
}

int pg_header_write(struct pg_kernel *kernel, const struct pg_header *header, struct pg_error *err)
{
	int error = pg_puts_settle(kernel, header, err);

	return error ? error : write_header(kernel, header->cgroup_id, header, err);
}

int pg_header_clear(struct pg_kernel *kernel, uint64_t cgroup_id, struct pg_error *err)
{
	static const struct pg_header zero;

	return write_header(kernel, cgroup_id, &zero, err);
}

int pg_header_read(struct pg_kernel *kernel, uint64_t cgroup_id, struct pg_header *ret_header,
		   struct pg_error *err)
{
	struct pg_header header;

	if (bpf_map_lookup_elem(headers_fd(kernel), &cgroup_id, &header))
		return pg_fail_errno(err, -errno, "reading the header of cgroup %" PRIu64,
				     cgroup_id);
	*ret_header = header;
	return 0;
}

int pg_counters_read(struct pg_kernel *kernel, uint64_t cgroup_id, struct pg_counters *ret_counters,
		     struct pg_error *err)
{
	const int cpus = libbpf_num_possible_cpus();
	/* The kernel rounds a per-CPU value up to eight octets, which its size already is. */
	const size_t words = sizeof(struct pg_counters) / sizeof(uint64_t);
	pg_autofree uint64_t *values = NULL;
	uint64_t *sum = (uint64_t *)ret_counters;

	if (cpus < 0)
		return pg_fail_errno(err, cpus, "finding the number of CPUs");
	values = calloc((size_t)cpus, sizeof(struct pg_counters));
	if (!values)
		return pg_fail(err, -ENOMEM, "not enough memory for the counters of %d CPUs", cpus);
	if (bpf_map_lookup_elem(bpf_map__fd(kernel->skeleton->maps.pg_counts), &cgroup_id, values))
		return pg_fail_errno(err, -errno, "reading the counters of cgroup %" PRIu64,
				     cgroup_id);
	memset(ret_counters, 0, sizeof(*ret_counters));
	for (size_t i = 0; i < words * (size_t)cpus; i++)
		sum[i % words] += values[i];
	return 0;
}
