/* SPDX-License-Identifier: Apache-2.0 */
/* The filter of veths that have no guard; beside it those of link_filter.c may be for a moment. */
#include "link.h"

#include <errno.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "base/hash.h"
#include "kernel_internal.h"

uint32_t pg_link_new_handle(const char *pins)
{
	const struct pg_hash_key same_for_all = {};

	return PG_LINK_NEW |
	       (uint32_t)(pins ? pg_hash(&same_for_all, pins, strlen(pins)) & 0xffff : 0);
}

int pg_link_new_attach(struct pg_kernel *kernel, unsigned int ifindex, struct pg_error *err)
{
	LIBBPF_OPTS(bpf_tc_hook, both, .ifindex = (int)ifindex,
		    .attach_point = (enum bpf_tc_attach_point)(BPF_TC_INGRESS | BPF_TC_EGRESS));
	LIBBPF_OPTS(bpf_tc_hook, where, .ifindex = (int)ifindex, .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = kernel->link_new, .priority = PG_LINK_PRIORITY,
		    .flags = BPF_TC_F_REPLACE);
	int error = pg_link_programs_load(kernel, err);

	if (error)
		return error;
	filter.prog_fd = bpf_program__fd(kernel->links->progs.pg_link_new);
	error = bpf_tc_hook_create(&both);
	if (!error || error == -EEXIST)
		error = bpf_tc_attach(&where, &filter);
	return error ? pg_fail_errno(err, error,
				     "attaching pg_link_new to the interface with index %u",
				     ifindex)
		     : 0;
}

bool pg_link_new_detach(const struct pg_kernel *kernel, unsigned int ifindex)
{
	LIBBPF_OPTS(bpf_tc_hook, where, .ifindex = (int)ifindex, .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = kernel->link_new, .priority = PG_LINK_PRIORITY);

	return !bpf_tc_detach(&where, &filter);
}
