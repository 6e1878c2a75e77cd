/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the programs of the veth guard, by the first link that needs them: checking them takes the
 * kernel more than all the others, and most commands never guard a veth. They are an object of
 * their own, and use the maps of the others'.
 */
#include "link.h"

#include <errno.h>

#include <bpf/libbpf.h>

#include "kernel_internal.h"

static int share_maps(const struct links_bpf *skeleton, const struct phasegate_bpf *loaded,
		      struct pg_error *err)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, skeleton->obj)
	{
		const char *name = bpf_map__name(map);
		int fd = bpf_object__find_map_fd_by_name(loaded->obj, name);
		int error = bpf_map__reuse_fd(map, fd);

		if (error)
			return pg_fail_errno(err, error, "sharing the BPF map %s", name);
	}
	return 0;
}

int pg_link_programs_load(struct pg_kernel *kernel, struct pg_error *err)
{
	struct links_bpf *skeleton;
	int error;

	if (kernel->links)
		return 0;
	skeleton = links_bpf__open();
	if (!skeleton)
		return pg_fail_errno(err, -errno, "opening the BPF object");
	error = share_maps(skeleton, kernel->skeleton, err);
	if (!error) {
		error = links_bpf__load(skeleton);
		if (error)
			pg_fail_errno(err, error,
				      "loading the veth guard's BPF programs into the kernel (run"
				      " 'phasegate doctor' to see what is missing)");
	}
	if (error)
		links_bpf__destroy(skeleton);
	else
		kernel->links = skeleton;
	return error;
}
