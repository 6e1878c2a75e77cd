/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the programs of the veth guard, by the first link that needs them: checking them takes the
 * kernel a third of all that a start takes, and most commands never guard a veth. They are of the
 * same object as the others, which is opened once more, and use the others' maps.
 */
#include "link.h"

#include <errno.h>

#include <bpf/libbpf.h>

#include "kernel_internal.h"

static bool judges_links(const struct bpf_program *program)
{
	return bpf_program__type(program) == BPF_PROG_TYPE_SCHED_CLS;
}

/* Which of the object's programs its load is about. */
static void choose_programs(const struct phasegate_bpf *skeleton, bool links)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, skeleton->obj)
		bpf_program__set_autoload(program, judges_links(program) == links);
}

void pg_link_programs_leave_out(const struct phasegate_bpf *skeleton)
{
	choose_programs(skeleton, false);
}

static int share_maps(const struct phasegate_bpf *skeleton, const struct phasegate_bpf *loaded,
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
	struct phasegate_bpf *skeleton;
	int error;

	if (kernel->links)
		return 0;
	skeleton = phasegate_bpf__open();
	if (!skeleton)
		return pg_fail_errno(err, -errno, "opening the BPF object");
	choose_programs(skeleton, true);
	error = share_maps(skeleton, kernel->skeleton, err);
	if (!error) {
		error = phasegate_bpf__load(skeleton);
		if (error)
			pg_fail_errno(err, error,
				      "loading the veth guard's BPF programs into the kernel (run"
				      " 'phasegate doctor' to see what is missing)");
	}
	if (error)
		phasegate_bpf__destroy(skeleton);
	else
		kernel->links = skeleton;
	return error;
}
