/* SPDX-License-Identifier: Apache-2.0 */
#include "attach.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kernel_internal.h"
#include "pins.h"

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

const char *pg_hook_name(enum pg_hook hook)
{
	return hook_names[hook];
}

unsigned int pg_hook_flags(enum pg_hook hook)
{
	return hook_flags[hook];
}

static const struct bpf_program *hook_program(const struct pg_kernel *kernel, enum pg_hook hook)
{
	switch (hook) {
#define PG_X(symbol, program, flags) \
	case PG_HOOK_##symbol: \
		return kernel->skeleton->progs.program;
		PG_HOOKS(PG_X)
#undef PG_X
	case PG_HOOK_COUNT:
		break;
	}
	return NULL;
}

int pg_attach(struct pg_kernel *kernel, int cgroup_fd, enum pg_hook hook,
	      struct pg_attachment *attachment, struct pg_error *err)
{
	const struct bpf_program *program = hook_program(kernel, hook);
	int link;

	link = bpf_link_create(bpf_program__fd(program), cgroup_fd,
			       bpf_program__expected_attach_type(program), NULL);
	if (link < 0)
		return pg_fail_errno(err, -errno, "attaching %s to the cgroup", pg_hook_name(hook));
	attachment->links[hook] = link;
	return 0;
}

int pg_attachment_pin(const struct pg_attachment *attachment, enum pg_hook hook,
		      const char *directory, struct pg_error *err)
{
	char path[PATH_MAX];
	int error = pg_pins_join(path, directory, pg_hook_name(hook), err);

	if (error)
		return error;
	if (bpf_obj_pin(attachment->links[hook], path))
		return pg_fail_errno(err, -errno, "pinning the link of %s at %s",
				     pg_hook_name(hook), path);
	return 0;
}

static int check_link(int fd, enum pg_hook hook, uint64_t cgroup_id, const char *path,
		      struct pg_error *err)
{
	struct bpf_link_info info = {};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		return pg_fail_errno(err, -errno, "reading what %s is", path);
	if (info.type != BPF_LINK_TYPE_CGROUP || info.cgroup.attach_type != attach_types[hook])
		return pg_fail(err, -ESTALE, "%s is not the link of %s", path, pg_hook_name(hook));
	if (!info.cgroup.cgroup_id)
		return pg_fail(err, -ESTALE, "the cgroup of %s is gone", path);
	if (info.cgroup.cgroup_id != cgroup_id)
		return pg_fail(err, -ESTALE, "%s is attached to another cgroup", path);
	return 0;
}

static int open_link(const char *directory, enum pg_hook hook, uint64_t cgroup_id, int *ret_fd,
		     struct pg_error *err)
{
	pg_autoclose int fd = -1;
	char path[PATH_MAX];
	int error = pg_pins_join(path, directory, pg_hook_name(hook), err);

	if (error)
		return error;
	fd = bpf_obj_get(path);
	if (fd < 0)
		return pg_fail_errno(err, -errno, "opening the pinned link %s", path);
	error = check_link(fd, hook, cgroup_id, path, err);
	if (error)
		return error;
	*ret_fd = PG_TAKE_FD(fd);
	return 0;
}

int pg_attachment_open(const char *directory, uint64_t cgroup_id,
		       struct pg_attachment *ret_attachment, struct pg_error *err)
{
	PG_CLEANUP(pg_attachment_close) struct pg_attachment opened = PG_ATTACHMENT_INIT;
	struct pg_error absent = {};

	for (size_t i = 0; i < PG_HOOK_COUNT; i++) {
		const bool optional = pg_hook_flags((enum pg_hook)i) & PG_HOOK_FOR_DNS;
		int error = open_link(directory, (enum pg_hook)i, cgroup_id, &opened.links[i],
				      optional ? &absent : err);

		if (error == -ENOENT && optional)
			continue;
		if (error && optional)
			*err = absent;
		if (error)
			return error;
	}
	*ret_attachment = opened;
	opened = (struct pg_attachment)PG_ATTACHMENT_INIT;
	return 0;
}

int pg_attachment_renew(struct pg_kernel *kernel, const struct pg_attachment *attachment,
			struct pg_error *err)
{
	for (size_t i = 0; i < PG_HOOK_COUNT; i++) {
		const int program = bpf_program__fd(hook_program(kernel, (enum pg_hook)i));

		if (attachment->links[i] >= 0 &&
		    bpf_link_update(attachment->links[i], program, NULL))
			return pg_fail_errno(err, -errno, "renewing the program of %s",
					     pg_hook_name((enum pg_hook)i));
	}
	return 0;
}

void pg_attachment_close(struct pg_attachment *attachment)
{
	for (size_t i = 0; i < PG_HOOK_COUNT; i++)
		pg_close_fd(&attachment->links[i]);
}

/*
 * Ends what a pinned link has attached, at once: the kernel frees a link whose pin was removed an
 * RCU period and a turn of its workers later. What is no link stays as it is, and before Linux 5.9
 * it ends later.
 */
static void detach_pinned(const char *directory, const char *name)
{
	pg_autofree char *path = NULL;
	pg_autoclose int fd = -1;

	if (asprintf(&path, "%s/%s", directory, name) < 0)
		return;
	fd = bpf_obj_get(path);
	if (fd >= 0)
		(void)!bpf_link_detach(fd);
}

int pg_pins_remove(const char *directory, struct pg_error *err)
{
	pg_autoclosedir DIR *dir = opendir(directory);
	struct dirent *entry;

	if (!dir)
		return errno == ENOENT ? 0
				       : pg_fail_errno(err, -errno, "opening the pin directory %s",
						       directory);
	/* Whatever is there: another version may have had other hooks. */
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		detach_pinned(directory, entry->d_name);
		if (unlinkat(dirfd(dir), entry->d_name, 0) && errno != ENOENT)
			return pg_fail_errno(err, -errno, "removing the pin %s/%s", directory,
					     entry->d_name);
	}
	if (rmdir(directory) && errno != ENOENT)
		return pg_fail_errno(err, -errno, "removing the pin directory %s", directory);
	return 0;
}
