/* SPDX-License-Identifier: Apache-2.0 */
#include "attach.h"

#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attached.h"
#include "kernel_internal.h"

static const char *const hook_names[PG_HOOK_COUNT] = {
#define PG_X(symbol, program, flags) #program,
	PG_HOOKS(PG_X)
#undef PG_X
};

static const unsigned int hook_flags[PG_HOOK_COUNT] = {
#define PG_X(symbol, program, flags) flags,
	PG_HOOKS(PG_X)
#undef PG_X
};

static const enum bpf_attach_type attach_types[PG_HOOK_COUNT] = {
	[PG_HOOK_EGRESS] = BPF_CGROUP_INET_EGRESS,
	[PG_HOOK_INGRESS] = BPF_CGROUP_INET_INGRESS,
	[PG_HOOK_SOCK_OPS] = BPF_CGROUP_SOCK_OPS,
	[PG_HOOK_SOCK_CREATE] = BPF_CGROUP_INET_SOCK_CREATE,
	[PG_HOOK_BIND4] = BPF_CGROUP_INET4_BIND,
	[PG_HOOK_BIND6] = BPF_CGROUP_INET6_BIND,
	[PG_HOOK_CONNECT4] = BPF_CGROUP_INET4_CONNECT,
	[PG_HOOK_CONNECT6] = BPF_CGROUP_INET6_CONNECT,
	[PG_HOOK_SENDMSG4] = BPF_CGROUP_UDP4_SENDMSG,
	[PG_HOOK_SENDMSG6] = BPF_CGROUP_UDP6_SENDMSG,
	[PG_HOOK_RECVMSG4] = BPF_CGROUP_UDP4_RECVMSG,
	[PG_HOOK_RECVMSG6] = BPF_CGROUP_UDP6_RECVMSG,
	[PG_HOOK_GETPEERNAME4] = BPF_CGROUP_INET4_GETPEERNAME,
	[PG_HOOK_GETPEERNAME6] = BPF_CGROUP_INET6_GETPEERNAME,
	[PG_HOOK_SETSOCKOPT] = BPF_CGROUP_SETSOCKOPT,
};

/* Those of programs that another version may have. */
static const enum bpf_attach_type other_types[] = {
	BPF_CGROUP_INET_SOCK_RELEASE,
	BPF_CGROUP_INET4_POST_BIND,
	BPF_CGROUP_INET6_POST_BIND,
	BPF_CGROUP_GETSOCKOPT,
	BPF_CGROUP_INET4_GETSOCKNAME,
	BPF_CGROUP_INET6_GETSOCKNAME,
	BPF_CGROUP_SYSCTL,
	BPF_CGROUP_DEVICE,
};

const char *pg_hook_name(enum pg_hook hook)
{
	return hook_names[hook];
}

unsigned int pg_hook_flags(enum pg_hook hook)
{
	return hook_flags[hook];
}

pg_hook_set pg_hooks(bool for_dns)
{
	pg_hook_set hooks = 0;

	for (size_t i = 0; i < PG_HOOK_COUNT; i++)
		if (for_dns || !(hook_flags[i] & PG_HOOK_FOR_DNS))
			hooks |= (pg_hook_set)1 << i;
	return hooks;
}

enum bpf_attach_type pg_hook_type(enum pg_hook hook)
{
	return attach_types[hook];
}

static int hook_program(const struct pg_kernel *kernel, enum pg_hook hook)
{
	const struct bpf_program *const programs[PG_HOOK_COUNT] = {
#define PG_X(symbol, program, flags) [PG_HOOK_##symbol] = kernel->skeleton->progs.program,
		PG_HOOKS(PG_X)
#undef PG_X
	};

	return bpf_program__fd(programs[hook]);
}

static int headers_id(const struct pg_kernel *kernel, uint32_t *ret_id, struct pg_error *err)
{
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_map__fd(kernel->skeleton->maps.pg_headers), &info, &size))
		return pg_fail_errno(err, -errno, "reading the number of the map of headers");
	*ret_id = info.id;
	return 0;
}

static int read_ids(int cgroup_fd, enum pg_hook hook, struct pg_attached_ids *ret_ids,
		    struct pg_error *err)
{
	int error = pg_attached_ids(cgroup_fd, attach_types[hook], ret_ids);

	return error ? pg_fail_errno(err, error, "asking what is attached for %s",
				     pg_hook_name(hook))
		     : 0;
}

/* The program of the hook with these headers, or with any if they are 0. *ret_program -1: there is
 * none; *ret_others: but one with others. */
static int find(int cgroup_fd, enum pg_hook hook, uint32_t headers, int *ret_program,
		bool *ret_others, struct pg_error *err)
{
	struct pg_attached_ids ids;
	int error = read_ids(cgroup_fd, hook, &ids, err);

	if (error)
		return error;
	*ret_program = -1;
	*ret_others = false;
	for (size_t i = 0; i < ids.count; i++) {
		pg_autoclose int program = -1;
		uint32_t found;

		if (pg_attached_open(ids.items[i], headers, &program, &found))
			continue;
		if (headers && found != headers) {
			*ret_others = true;
			continue;
		}
		*ret_program = PG_TAKE_FD(program);
		return 0;
	}
	return 0;
}

static int attach(const struct pg_kernel *kernel, uint32_t headers, int cgroup_fd,
		  enum pg_hook hook, struct pg_error *err)
{
	LIBBPF_OPTS(bpf_prog_attach_opts, options, .flags = BPF_F_ALLOW_MULTI);
	pg_autoclose int before = -1;
	bool others;
	int error = find(cgroup_fd, hook, headers, &before, &others, err);

	if (error)
		return error;
	if (before >= 0) {
		options.flags |= BPF_F_REPLACE;
		options.replace_prog_fd = before;
	}
	if (bpf_prog_attach_opts(hook_program(kernel, hook), cgroup_fd, attach_types[hook],
				 &options))
		return pg_fail_errno(err, -errno, "attaching %s to the cgroup", pg_hook_name(hook));
	return 0;
}

int pg_attach(struct pg_kernel *kernel, int cgroup_fd, enum pg_hook hook, struct pg_error *err)
{
	uint32_t headers;
	int error = headers_id(kernel, &headers, err);

	return error ? error : attach(kernel, headers, cgroup_fd, hook, err);
}

int pg_attach_all(struct pg_kernel *kernel, int cgroup_fd, pg_hook_set hooks, struct pg_error *err)
{
	uint32_t headers;
	int error = headers_id(kernel, &headers, err);

	for (size_t i = 0; i < PG_HOOK_COUNT && !error; i++)
		if (hooks >> i & 1)
			error = attach(kernel, headers, cgroup_fd, (enum pg_hook)i, err);
	return error;
}

int pg_attached(const struct pg_kernel *kernel, int cgroup_fd, pg_hook_set *ret_hooks,
		struct pg_error *err)
{
	pg_hook_set hooks = 0;
	uint32_t headers = 0;
	int error = kernel ? headers_id(kernel, &headers, err) : 0;

	for (size_t i = 0; i < PG_HOOK_COUNT && !error; i++) {
		pg_autoclose int program = -1;
		bool others;

		error = find(cgroup_fd, (enum pg_hook)i, headers, &program, &others, err);
		if (error)
			break;
		if (program >= 0)
			hooks |= (pg_hook_set)1 << i;
		else if (others)
			error = pg_fail(err, -ESTALE, "%s of the cgroup has maps of another owner",
					pg_hook_name((enum pg_hook)i));
		else if (!(pg_hook_flags((enum pg_hook)i) & PG_HOOK_FOR_DNS))
			error = pg_fail(err, -ENOENT, "%s is not attached to the cgroup",
					pg_hook_name((enum pg_hook)i));
	}
	if (!error)
		*ret_hooks = hooks;
	return error;
}

/* *headers: those of the last program, which the next one has as a rule. */
static int detach(int cgroup_fd, enum bpf_attach_type type, uint32_t *headers, struct pg_error *err)
{
	struct pg_attached_ids ids;
	int error = pg_attached_ids(cgroup_fd, type, &ids);

	/* -EINVAL: a type that this kernel does not have. */
	if (error)
		return error == -ENODEV || error == -EINVAL
			       ? 0
			       : pg_fail_errno(err, error, "asking what is attached to the cgroup");
	for (size_t i = 0; i < ids.count; i++) {
		pg_autoclose int program = -1;

		if (pg_attached_open(ids.items[i], *headers, &program, headers))
			continue;
		if (bpf_prog_detach2(program, cgroup_fd, type) && errno != ENOENT)
			return pg_fail_errno(err, -errno, "taking a program off the cgroup");
	}
	return 0;
}

int pg_detach(int cgroup_fd, struct pg_error *err)
{
	uint32_t headers = 0;
	int error = 0;

	for (size_t i = 0; i < PG_ARRAY_SIZE(attach_types) && !error; i++)
		error = detach(cgroup_fd, attach_types[i], &headers, err);
	for (size_t i = 0; i < PG_ARRAY_SIZE(other_types) && !error; i++)
		error = detach(cgroup_fd, other_types[i], &headers, err);
	return error;
}
