/* SPDX-License-Identifier: Apache-2.0 */
/* What the probe_*.c files share: one topic a file, each check fills in one report. */
#pragma once

#include <signal.h>

#include "kernel/probe.h"

/* Fills in detail, result and advice; the result is PG_PROBE_OK before. */
typedef void (*pg_probe_check)(struct pg_probe_report *report);

/* One run of pg_probe_all(). */
struct pg_probe {
	pg_probe_sink sink;
	void *userdata;
	struct pg_error *err;
	size_t failed;
};

/* What was found, as printf. */
void pg_probe_found(struct pg_probe_report *report, const char *format, ...) PG_PRINTF(2, 3);
/* A lack: result and what to do about it, as printf; the detail is set by pg_probe_found(). */
void pg_probe_lacks(struct pg_probe_report *report, enum pg_probe_result result, const char *format,
		    ...) PG_PRINTF(3, 4);
/* Hands the report over, and keeps the first failure as the error. */
void pg_probe_emit(struct pg_probe *probe, const struct pg_probe_report *report);

/* probe_host.c */
void pg_probe_kernel(struct pg_probe_report *report);
void pg_probe_architecture(struct pg_probe_report *report);
void pg_probe_capabilities(struct pg_probe_report *report);
void pg_probe_btf(struct pg_probe_report *report);
void pg_probe_lockdown(struct pg_probe_report *report);
void pg_probe_memlock(struct pg_probe_report *report);

/* probe_cgroup.c */
void pg_probe_cgroup2(struct pg_probe_report *report);
void pg_probe_cgroup_namespace(struct pg_probe_report *report);
void pg_probe_net_cls(struct pg_probe_report *report);
void pg_probe_bpffs(struct pg_probe_report *report);

/* An empty cgroup of the probe's own. All signals wait while it exists. */
struct pg_scratch {
	char *path;
	int fd;
	sigset_t blocked;
};
int pg_scratch_make(struct pg_scratch *scratch, struct pg_error *err) PG_MUST_CHECK;
void pg_scratch_remove(struct pg_scratch *scratch);

/* A child born in the scratch cgroup runs action and exits with what it returns. */
int pg_scratch_run(const struct pg_scratch *scratch, int (*action)(void),
		   int *ret_status) PG_MUST_CHECK;

/* probe_map.c, probe_helper.c, probe_hook.c: several reports each */
void pg_probe_maps(struct pg_probe *probe);
void pg_probe_helpers(struct pg_probe *probe);
void pg_probe_hooks(struct pg_probe *probe);

/* exec.c */
void pg_probe_exec(struct pg_probe_report *report);

/* probe_link.c */
void pg_probe_link(struct pg_probe *probe, const struct pg_scratch *scratch);

/* probe_sockets.c */
void pg_probe_tcp_diag(struct pg_probe_report *report);
void pg_probe_udp_diag(struct pg_probe_report *report);
