/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs at a cgroup: attached with BPF_F_ALLOW_MULTI and without a link, so that what is
 * attached belongs to the cgroup alone. It needs no pin and no descriptor (a pinned link of each
 * hook takes the kernel 20 KiB for an Environment), stays when its process dies, is found again by
 * asking the cgroup, and goes with it. Only whoever has the program itself can take it off, and a
 * program's descriptor takes CAP_SYS_ADMIN outside of all user namespaces.
 */
#pragma once

#include <phasegate/abi/hook.h>

#include "kernel.h"

/* A bit for each enum pg_hook. */
typedef uint32_t pg_hook_set;
_Static_assert(PG_HOOK_COUNT <= 32, "a hook has no bit");

/* All; without DNS, those of PG_HOOK_FOR_DNS are not needed. */
pg_hook_set pg_hooks(bool for_dns);

/*
 * Attaches this process's program of the hook. If an earlier owner's with the same maps is there,
 * it takes its place, without a gap.
 */
int pg_attach(struct pg_kernel *kernel, int cgroup_fd, enum pg_hook hook,
	      struct pg_error *err) PG_MUST_CHECK;
/* The same for each. */
int pg_attach_all(struct pg_kernel *kernel, int cgroup_fd, pg_hook_set hooks,
		  struct pg_error *err) PG_MUST_CHECK;

/*
 * The hooks that have a program of Phasegate at the cgroup itself, and not above it, with the maps
 * of kernel or, if that is NULL, with whatever maps. -ENOENT: one is missing, other than those of
 * PG_HOOK_FOR_DNS; -ESTALE: it is there with other maps, which nobody fills from here.
 */
int pg_attached(const struct pg_kernel *kernel, int cgroup_fd, pg_hook_set *ret_hooks,
		struct pg_error *err) PG_MUST_CHECK;

/* Takes off all programs of Phasegate, whichever process or version has attached them. None, and a
 * cgroup that has been removed, are no error. */
int pg_detach(int cgroup_fd, struct pg_error *err) PG_MUST_CHECK;

const char *pg_hook_name(enum pg_hook hook);
/* PG_HOOK_FOR_DNS and the like, of abi/hook.h. */
unsigned int pg_hook_flags(enum pg_hook hook);
