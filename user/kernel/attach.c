/* SPDX-License-Identifier: Apache-2.0 */
#include "attach.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

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

	if (snprintf(path, sizeof(path), "%s/%s", directory, pg_hook_name(hook)) >=
	    (int)sizeof(path))
		return pg_fail(err, -ENAMETOOLONG, "the pin path below %s is too long", directory);
	if (bpf_obj_pin(attachment->links[hook], path))
		return pg_fail_errno(err, -errno, "pinning the link of %s at %s",
				     pg_hook_name(hook), path);
	return 0;
}

void pg_attachment_close(struct pg_attachment *attachment)
{
	for (size_t i = 0; i < PG_HOOK_COUNT; i++)
		pg_close_fd(&attachment->links[i]);
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
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && unlinkat(dirfd(dir), entry->d_name, 0) &&
		    errno != ENOENT)
			return pg_fail_errno(err, -errno, "removing the pin %s/%s", directory,
					     entry->d_name);
	if (rmdir(directory) && errno != ENOENT)
		return pg_fail_errno(err, -errno, "removing the pin directory %s", directory);
	return 0;
}
