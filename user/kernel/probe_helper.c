/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF helpers that the programs call, by the verifier's answer. */
#include "kernel/probe_internal.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

struct helper {
	const char *name, *since;
	enum bpf_prog_type type;
	enum bpf_func_id id;
	bool optional;
};

static void probe_helper(struct pg_probe_report *report, const struct helper *helper)
{
	/* libbpf takes every failure but the verifier's "unknown func" for a yes. */
	if (libbpf_probe_bpf_prog_type(helper->type, NULL) <= 0) {
		pg_probe_found(report, "not known, since no program can be loaded");
		if (!helper->optional)
			pg_probe_lacks(report, PG_PROBE_FAILED, "as for the hooks below");
	} else if (libbpf_probe_bpf_helper(helper->type, helper->id, NULL) > 0) {
		pg_probe_found(report, "available");
	} else if (helper->optional) {
		pg_probe_found(report, "not available (since Linux %s); not needed", helper->since);
	} else {
		pg_probe_found(report, "not available");
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "use Linux %s or newer with CONFIG_CGROUP_BPF", helper->since);
	}
}

void pg_probe_helpers(struct pg_probe *probe)
{
	static const struct helper helpers[] = {
#define SKB  BPF_PROG_TYPE_CGROUP_SKB
#define ADDR BPF_PROG_TYPE_CGROUP_SOCK_ADDR
#define OPT  BPF_PROG_TYPE_CGROUP_SOCKOPT
		{"helper.sk_storage_get", "5.2", SKB, BPF_FUNC_sk_storage_get, false},
		{"helper.get_local_storage", "4.19", SKB, BPF_FUNC_get_local_storage, false},
		{"helper.sk_lookup_tcp", "4.20", SKB, BPF_FUNC_sk_lookup_tcp, false},
		{"helper.sk_lookup_udp", "4.20", SKB, BPF_FUNC_sk_lookup_udp, false},
		{"helper.sk_ancestor_cgroup_id", "5.8", SKB, BPF_FUNC_sk_ancestor_cgroup_id, false},
		{"helper.ringbuf_reserve", "5.8", SKB, BPF_FUNC_ringbuf_reserve, false},
		{"helper.ktime_get_boot_ns", "5.8", SKB, BPF_FUNC_ktime_get_boot_ns, false},
		{"helper.connect.get_netns_cookie", "5.7", ADDR, BPF_FUNC_get_netns_cookie, false},
		{"helper.connect.sk_lookup_tcp", "5.2", ADDR, BPF_FUNC_sk_lookup_tcp, false},
		{"helper.connect.sk_storage_get", "5.8", ADDR, BPF_FUNC_sk_storage_get, false},
		{"helper.connect.sk_lookup_udp", "5.2", ADDR, BPF_FUNC_sk_lookup_udp, false},
		{"helper.connect.ringbuf_reserve", "5.8", ADDR, BPF_FUNC_ringbuf_reserve, false},
		{"helper.connect.set_retval", "5.18", ADDR, BPF_FUNC_set_retval, true},
		{"helper.setsockopt.sk_storage_get", "5.3", OPT, BPF_FUNC_sk_storage_get, false},
		{"helper.setsockopt.ringbuf_reserve", "5.8", OPT, BPF_FUNC_ringbuf_reserve, false},
#undef SKB
#undef ADDR
#undef OPT
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(helpers); i++) {
		struct pg_probe_report report = {.name = helpers[i].name};

		probe_helper(&report, &helpers[i]);
		pg_probe_emit(probe, &report);
	}
}
