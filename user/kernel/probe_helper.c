/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF helpers that the programs call, by the verifier's answer. */
#include "kernel/probe_internal.h"

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

void pg_probe_helpers(struct pg_probe *probe)
{
	static const struct {
		const char *name, *since;
		enum bpf_prog_type type;
		enum bpf_func_id helper;
		bool optional;
	} helpers[] = {
#define SKB  BPF_PROG_TYPE_CGROUP_SKB
#define ADDR BPF_PROG_TYPE_CGROUP_SOCK_ADDR
		{"helper.sk_storage_get", "5.2", SKB, BPF_FUNC_sk_storage_get, false},
		{"helper.get_local_storage", "4.19", SKB, BPF_FUNC_get_local_storage, false},
		{"helper.sk_lookup_tcp", "4.20", SKB, BPF_FUNC_sk_lookup_tcp, false},
		{"helper.sk_lookup_udp", "4.20", SKB, BPF_FUNC_sk_lookup_udp, false},
		{"helper.sk_ancestor_cgroup_id", "5.8", SKB, BPF_FUNC_sk_ancestor_cgroup_id, false},
		{"helper.ringbuf_reserve", "5.8", SKB, BPF_FUNC_ringbuf_reserve, false},
		{"helper.ktime_get_boot_ns", "5.8", SKB, BPF_FUNC_ktime_get_boot_ns, false},
		{"helper.connect.sk_lookup_tcp", "5.2", ADDR, BPF_FUNC_sk_lookup_tcp, false},
		{"helper.connect.sk_storage_get", "5.8", ADDR, BPF_FUNC_sk_storage_get, false},
		{"helper.connect.set_retval", "5.18", ADDR, BPF_FUNC_set_retval, true},
#undef SKB
#undef ADDR
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(helpers); i++) {
		struct pg_probe_report report = {.name = helpers[i].name};
		int r = libbpf_probe_bpf_helper(helpers[i].type, helpers[i].helper, NULL);

		if (r > 0) {
			pg_probe_found(&report, "available");
		} else if (helpers[i].optional) {
			pg_probe_found(&report, "not available (since Linux %s); not needed",
				       helpers[i].since);
		} else {
			pg_probe_found(&report, "not available%s%s", r < 0 ? ": " : "",
				       r < 0 ? strerror(-r) : "");
			pg_probe_lacks(&report, PG_PROBE_FAILED,
				       r == -EPERM ? "run as root (kernel needed: %s)"
						   : "use Linux %s or newer with CONFIG_CGROUP_BPF",
				       helpers[i].since);
		}
		pg_probe_emit(probe, &report);
	}
}
