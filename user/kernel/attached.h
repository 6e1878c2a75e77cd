/* SPDX-License-Identifier: Apache-2.0 */
/* What is attached at a cgroup; private to user/kernel/. */
#pragma once

#include <stdint.h>

#include <bpf/bpf.h>

#include <phasegate/abi/hook.h>

#include "base/error.h"

enum bpf_attach_type pg_hook_type(enum pg_hook hook);

/* The kernel has no room for more (BPF_CGROUP_MAX_PROGS). */
#define PG_ATTACHED_MAX 64

/* Programs of one type by their ids, those of the cgroup itself. */
struct pg_attached_ids {
	uint32_t items[PG_ATTACHED_MAX];
	uint32_t count;
};
/* Returns a negative errno; -ENODEV: the cgroup has been removed. */
int pg_attached_ids(int cgroup_fd, enum bpf_attach_type type,
		    struct pg_attached_ids *ret_ids) PG_MUST_CHECK;

/*
 * A program of Phasegate's hooks, of whatever process: one that uses a map of headers. *ret_fd is
 * the program, *ret_headers the id of that map. headers: the most likely one, 0 if there is none.
 * -ENOENT: it is somebody else's, or gone.
 */
int pg_attached_open(uint32_t id, uint32_t headers, int *ret_fd,
		     uint32_t *ret_headers) PG_MUST_CHECK;
