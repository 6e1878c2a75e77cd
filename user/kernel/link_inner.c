/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program at the inner end of a guarded veth: by tcx, so that it is there before any filter of
 * the workload's and no CAP_NET_ADMIN in its user namespace takes it off. It is attached without a
 * link, and so stays when its maker dies; it goes with the device.
 */
#include "link.h"

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/netns.h"
#include "kernel_internal.h"

/* BPF_TCX_EGRESS, later than the headers of the oldest systems. */
#define TCX_EGRESS ((enum bpf_attach_type)47)

#define PROGRAMS_MAX 64

static const char program_name[] = "pg_link_inner";

static bool is_ours(uint32_t id, int *ret_fd)
{
	pg_autoclose int fd = bpf_prog_get_fd_by_id(id);
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) ||
	    strcmp(info.name, program_name) != 0)
		return false;
	*ret_fd = PG_TAKE_FD(fd);
	return true;
}

/* *ret_fd: of the program, whoever has attached it; -1: there is none. */
static int find(unsigned int ifindex, int *ret_fd)
{
	__u32 ids[PROGRAMS_MAX], count = PROGRAMS_MAX;

	*ret_fd = -1;
	if (bpf_prog_query((int)ifindex, TCX_EGRESS, 0, NULL, ids, &count))
		return -errno;
	for (__u32 i = 0; i < count && *ret_fd < 0; i++)
		(void)is_ours(ids[i], ret_fd);
	return 0;
}

static int attach(const struct pg_kernel *kernel, unsigned int ifindex)
{
	const int program = bpf_program__fd(kernel->links->progs.pg_link_inner);
	pg_autoclose int fd = -1;
	int error = find(ifindex, &fd);

	if (error || fd >= 0)
		return error;
	return bpf_prog_attach(program, (int)ifindex, TCX_EGRESS, 0) ? -errno : 0;
}

int pg_link_inner_attach(struct pg_kernel *kernel, int netns_fd, unsigned int ifindex,
			 struct pg_error *err)
{
	int back = -1, error = pg_link_programs_load(kernel, err);

	if (!error)
		error = pg_netns_enter(netns_fd, &back, err);
	if (error)
		return error;
	error = attach(kernel, ifindex);
	pg_netns_leave(&back);
	if (error == -EINVAL)
		return -EOPNOTSUPP;
	return error ? pg_fail_errno(err, error,
				     "attaching %s to the interface with index %u of the"
				     " Environment",
				     program_name, ifindex)
		     : 0;
}

void pg_link_inner_detach(int netns_fd, unsigned int ifindex)
{
	pg_autoclose int fd = -1;
	struct pg_error unused = {};
	int back = -1;

	if (pg_netns_enter(netns_fd, &back, &unused))
		return;
	if (!find(ifindex, &fd) && fd >= 0)
		(void)!bpf_prog_detach2(fd, (int)ifindex, TCX_EGRESS);
	pg_netns_leave(&back);
}
