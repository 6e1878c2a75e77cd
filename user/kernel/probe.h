/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this host offers, found by trying, never by its version number. Used by `phasegate doctor`
 * and before every start.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum pg_probe_result {
	PG_PROBE_OK,
	PG_PROBE_WARNING, /* enforcement is possible; something is worse than it could be */
	PG_PROBE_FAILED,  /* enforcement is not possible */
};

struct pg_probe_report {
	const char *name; /* short stable id, such as "btf" or "map.inner_array" */
	enum pg_probe_result result;
	char detail[256]; /* what was found */
	char advice[256]; /* what to do about it; empty if OK */
};

/* Receives each finding in order. */
typedef void (*pg_probe_sink)(void *userdata, const struct pg_probe_report *report);

/* Runs every probe. Returns 0, or -EOPNOTSUPP if any failed (its detail is in err). */
int pg_probe_all(pg_probe_sink sink, void *userdata, struct pg_error *err) PG_MUST_CHECK;

/* Only those that decide whether enforcement is possible, silent; for `run`. Fast (< 20 ms). */
int pg_probe_required(struct pg_error *err) PG_MUST_CHECK;

/*
 * Mount point of cgroup2 in the caller's mount namespace, from /proc/self/mountinfo (it may be
 * /sys/fs/cgroup, /sys/fs/cgroup/unified or elsewhere). The caller frees *ret_path.
 */
int pg_cgroup2_mount(char **ret_path, struct pg_error *err) PG_MUST_CHECK;

/* bpffs at /sys/fs/bpf; mounts it there if it is missing and says so in *ret_mounted. */
int pg_bpffs_ensure(bool *ret_mounted, struct pg_error *err) PG_MUST_CHECK;
