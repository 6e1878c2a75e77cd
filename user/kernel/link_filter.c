/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filters of the veth guard: bpf filters of the clsact queue with a priority and a handle of
 * ours. clsact and not tcx, because it is there from 5.10 on and stays when its maker dies.
 */
#include "link.h"

#include <errno.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <libmnl/libmnl.h>

#include "kernel_internal.h"

/* What the kernel fills at most in one part of a dump (include/linux/netlink.h). */
#define DUMP_BUFFER 32768

enum link_hook {
#define PG_X(symbol, program) HOOK_##symbol,
	PG_LINK_HOOKS(PG_X)
#undef PG_X
	HOOK_COUNT
};

static const char *const hook_names[HOOK_COUNT] = {
#define PG_X(symbol, program) #program,
	PG_LINK_HOOKS(PG_X)
#undef PG_X
};

static const enum bpf_tc_attach_point hook_points[HOOK_COUNT] = {
	[HOOK_FROM] = BPF_TC_INGRESS,
	[HOOK_TO] = BPF_TC_EGRESS,
};

static int hook_program(const struct pg_kernel *kernel, enum link_hook hook)
{
	const struct bpf_program *const programs[HOOK_COUNT] = {
#define PG_X(symbol, program) [HOOK_##symbol] = kernel->links->progs.program,
		PG_LINK_HOOKS(PG_X)
#undef PG_X
	};

	return bpf_program__fd(programs[hook]);
}

static int attach(struct pg_kernel *kernel, unsigned int ifindex, enum link_hook hook,
		  struct pg_error *err)
{
	LIBBPF_OPTS(bpf_tc_hook, where, .ifindex = (int)ifindex, .attach_point = hook_points[hook]);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = PG_LINK_HANDLE, .priority = PG_LINK_PRIORITY,
		    .prog_fd = hook_program(kernel, hook), .flags = BPF_TC_F_REPLACE);
	int error = bpf_tc_attach(&where, &filter);

	if (error == -EINVAL)
		return pg_fail_errno(err, error,
				     "attaching %s to the interface with index %u (has another's"
				     " filter of another kind the priority %d there?)",
				     hook_names[hook], ifindex, PG_LINK_PRIORITY);
	if (error)
		return pg_fail_errno(err, error, "attaching %s to the interface with index %u",
				     hook_names[hook], ifindex);
	return 0;
}

int pg_link_attach(struct pg_kernel *kernel, unsigned int ifindex, struct pg_error *err)
{
	LIBBPF_OPTS(bpf_tc_hook, both, .ifindex = (int)ifindex,
		    .attach_point = (enum bpf_tc_attach_point)(BPF_TC_INGRESS | BPF_TC_EGRESS));
	int error = pg_link_programs_load(kernel, err);

	if (error)
		return error;
	error = bpf_tc_hook_create(&both);
	if (error && error != -EEXIST)
		return pg_fail_errno(err, error,
				     "making the clsact queue of the interface with index %u%s",
				     ifindex,
				     error == -ENOENT ? " (the kernel's modules sch_ingress and"
							" cls_bpf are needed)"
						      : "");
	/* What goes in is seen before what comes out is judged by it. */
	error = attach(kernel, ifindex, HOOK_TO, err);
	return error ? error : attach(kernel, ifindex, HOOK_FROM, err);
}

/* The interface is gone, or has no clsact queue, or none of our filters in it. */
static bool is_absent(int error)
{
	return error == -ENODEV || error == -EINVAL || error == -ENOENT;
}

static int query(unsigned int ifindex, enum link_hook hook, uint32_t *ret_program)
{
	LIBBPF_OPTS(bpf_tc_hook, where, .ifindex = (int)ifindex, .attach_point = hook_points[hook]);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = PG_LINK_HANDLE, .priority = PG_LINK_PRIORITY);
	int error = bpf_tc_query(&where, &filter);

	if (!error)
		*ret_program = filter.prog_id;
	return error;
}

int pg_link_attached(struct pg_kernel *kernel, unsigned int ifindex, struct pg_error *err)
{
	unsigned int found = 0, current = 0;

	for (size_t i = 0; i < HOOK_COUNT; i++) {
		struct bpf_prog_info info = {};
		__u32 size = sizeof(info);
		uint32_t program = 0;
		int error = query(ifindex, (enum link_hook)i, &program);

		if (is_absent(error))
			continue;
		if (error)
			return pg_fail_errno(err, error,
					     "looking for %s on the interface with index %u",
					     hook_names[i], ifindex);
		found++;
		/* Whoever has attached it, it was not this process. */
		if (!kernel->links)
			continue;
		if (bpf_obj_get_info_by_fd(hook_program(kernel, (enum link_hook)i), &info, &size))
			return pg_fail_errno(err, -errno, "reading the number of %s",
					     hook_names[i]);
		if (info.id == program)
			current++;
	}
	if (!found)
		return 0;
	return current == HOOK_COUNT ? 1 : 2;
}

static void close_netlink(struct mnl_socket **netlink)
{
	if (*netlink)
		mnl_socket_close(*netlink);
}

static int count_filter(const struct nlmsghdr *message, void *count)
{
	if (message->nlmsg_type == RTM_NEWTFILTER)
		++*(size_t *)count;
	return MNL_CB_OK;
}

/* Anybody's filters of one direction. */
static int count_filters(struct mnl_socket *netlink, unsigned int ifindex, uint32_t parent,
			 size_t *count)
{
	char buffer[DUMP_BUFFER];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct tcmsg *body;
	int result;

	message->nlmsg_type = RTM_GETTFILTER;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	body = mnl_nlmsg_put_extra_header(message, sizeof(*body));
	body->tcm_family = AF_UNSPEC;
	body->tcm_ifindex = (int)ifindex;
	body->tcm_parent = parent;
	if (mnl_socket_sendto(netlink, message, message->nlmsg_len) < 0)
		return -errno;
	do {
		ssize_t size = mnl_socket_recvfrom(netlink, buffer, sizeof(buffer));

		result = size < 0 ? -1
				  : mnl_cb_run(buffer, (size_t)size, 0,
					       mnl_socket_get_portid(netlink), count_filter, count);
	} while (result == MNL_CB_OK);
	return result < 0 ? -errno : 0;
}

int pg_link_queue_remove(unsigned int ifindex, struct pg_error *err)
{
	PG_CLEANUP(close_netlink)
	struct mnl_socket *netlink = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	LIBBPF_OPTS(bpf_tc_hook, both, .ifindex = (int)ifindex,
		    .attach_point = (enum bpf_tc_attach_point)(BPF_TC_INGRESS | BPF_TC_EGRESS));
	size_t count = 0;
	int error = 0;

	if (!netlink || mnl_socket_bind(netlink, 0, MNL_SOCKET_AUTOPID) < 0)
		return pg_fail_errno(err, -errno, "opening a route socket");
	error = count_filters(netlink, ifindex, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS), &count);
	if (!error)
		error = count_filters(netlink, ifindex, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS),
				      &count);
	if (!error && !count)
		error = bpf_tc_hook_destroy(&both);
	if (error && !is_absent(error))
		return pg_fail_errno(err, error,
				     "removing the clsact queue of the interface with index %u",
				     ifindex);
	return 0;
}

int pg_link_detach(unsigned int ifindex, struct pg_error *err)
{
	for (size_t i = 0; i < HOOK_COUNT; i++) {
		LIBBPF_OPTS(bpf_tc_hook, where, .ifindex = (int)ifindex,
			    .attach_point = hook_points[i]);
		LIBBPF_OPTS(bpf_tc_opts, filter, .handle = PG_LINK_HANDLE,
			    .priority = PG_LINK_PRIORITY);
		int error = bpf_tc_detach(&where, &filter);

		if (error && !is_absent(error))
			return pg_fail_errno(err, error,
					     "taking %s off the interface with index %u",
					     hook_names[i], ifindex);
	}
	return pg_link_queue_remove(ifindex, err);
}
