/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching the programs to a cgroup by bpf_link, and pinning the links. */
#pragma once

#include <phasegate/abi/hook.h>

#include "kernel.h"

struct pg_attachment {
	int links[PG_HOOK_COUNT]; /* -1: not attached */
};
#define PG_ATTACHMENT_INIT \
	{ \
		.links = { [0 ... PG_HOOK_COUNT - 1] = -1 } \
	}

/* Attaches one hook. A link, never a legacy attach: that could be undone without a capability. */
int pg_attach(struct pg_kernel *kernel, int cgroup_fd, enum pg_hook hook,
	      struct pg_attachment *attachment, struct pg_error *err) PG_MUST_CHECK;

/* Pins the hook's link as directory/HOOK-NAME. A pinned link stays when this process dies. */
int pg_attachment_pin(const struct pg_attachment *attachment, enum pg_hook hook,
		      const char *directory, struct pg_error *err) PG_MUST_CHECK;

/*
 * Opens what is pinned in directory. -ENOENT: a hook is missing, other than those of
 * PG_HOOK_FOR_DNS, which stay -1; -ESTALE: a link is not that of the hook
 * at the cgroup, or its cgroup is gone.
 */
int pg_attachment_open(const char *directory, uint64_t cgroup_id,
		       struct pg_attachment *ret_attachment, struct pg_error *err) PG_MUST_CHECK;

/* Puts the programs of this process in the place of those of the links, each without a gap. */
int pg_attachment_renew(struct pg_kernel *kernel, const struct pg_attachment *attachment,
			struct pg_error *err) PG_MUST_CHECK;

/* Closes the links; those that are not pinned detach. */
void pg_attachment_close(struct pg_attachment *attachment);

/* Unlinks all pins in directory and the directory. Missing ones are no error. */
int pg_pins_remove(const char *directory, struct pg_error *err) PG_MUST_CHECK;

const char *pg_hook_name(enum pg_hook hook);
/* PG_HOOK_FOR_DNS and the like, of abi/hook.h. */
unsigned int pg_hook_flags(enum pg_hook hook);
