/* SPDX-License-Identifier: Apache-2.0 */
/* What the veth guard (link.h) wants of the kernel, tried in a network namespace that goes with its
 * only process. */
#include "kernel/probe_internal.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

/* lo is the first interface of every network namespace. */
#define LOOPBACK 1

/* In the child. Returns the errno, or 0. */
static int attach_filter(void)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = LOOPBACK, .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = 1, .priority = 1);
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int error;

	if (unshare(CLONE_NEWNET) < 0)
		return errno;
	filter.prog_fd = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "pg_probe", "GPL", code,
				       PG_ARRAY_SIZE(code), NULL);
	if (filter.prog_fd < 0)
		return errno;
	error = bpf_tc_hook_create(&hook);
	if (!error)
		error = bpf_tc_attach(&hook, &filter);
	return -error;
}

void pg_probe_link(struct pg_probe *probe, const struct pg_scratch *scratch)
{
	struct pg_probe_report report = {.name = "veth-guard"};
	int number;
	int error = pg_scratch_run(scratch, attach_filter, &number);

	if (error < 0)
		number = -error;
	if (number == 0) {
		pg_probe_found(&report, "filters of traffic control can be attached");
	} else {
		pg_probe_found(&report, "filters of traffic control cannot be attached: %s",
			       strerror(number));
		pg_probe_lacks(&report, PG_PROBE_WARNING,
			       number == EPERM
				       ? "run as root"
				       : "load the modules sch_ingress and cls_bpf; without "
					 "them nothing guards the veths of containers");
	}
	pg_probe_emit(probe, &report);
}
