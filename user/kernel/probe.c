/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/probe.h"

#include <errno.h>
#include <stdarg.h>

#include <bpf/libbpf.h>

#include "kernel/probe_internal.h"

static const struct {
	const char *name;
	pg_probe_check check;
	bool required; /* cheap, and part of pg_probe_required() */
} checks[] = {
	{"kernel", pg_probe_kernel, false},
	{"architecture", pg_probe_architecture, false},
	{"lockdown", pg_probe_lockdown, false},
	{"capabilities", pg_probe_capabilities, true},
	{"btf", pg_probe_btf, true},
	{"memlock", pg_probe_memlock, false},
	{"cgroup2", pg_probe_cgroup2, true},
	{"cgroup-namespace", pg_probe_cgroup_namespace, true},
	{"net_cls", pg_probe_net_cls, true},
	{"bpffs", pg_probe_bpffs, false},
	{"socket-diag.tcp", pg_probe_tcp_diag, true},
	{"socket-diag.udp", pg_probe_udp_diag, true},
	{"exec", pg_probe_exec, false},
};

void pg_probe_found(struct pg_probe_report *report, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(report->detail, sizeof(report->detail), format, arguments);
	va_end(arguments);
}

void pg_probe_lacks(struct pg_probe_report *report, enum pg_probe_result result, const char *format,
		    ...)
{
	va_list arguments;

	report->result = result;
	va_start(arguments, format);
	vsnprintf(report->advice, sizeof(report->advice), format, arguments);
	va_end(arguments);
}

static int fail_report(const struct pg_probe_report *report, struct pg_error *err)
{
	return pg_fail(err, -EOPNOTSUPP, "%s: %s; %s", report->name, report->detail,
		       report->advice);
}

void pg_probe_emit(struct pg_probe *probe, const struct pg_probe_report *report)
{
	probe->sink(probe->userdata, report);
	if (report->result != PG_PROBE_FAILED)
		return;
	if (probe->failed++ == 0)
		(void)fail_report(report, probe->err);
}

int pg_probe_all(pg_probe_sink sink, void *userdata, struct pg_error *err)
{
	struct pg_probe probe = {.sink = sink, .userdata = userdata, .err = err};
	/* What fails here is reported, not printed. */
	const libbpf_print_fn_t print = libbpf_set_print(NULL);

	for (size_t i = 0; i < PG_ARRAY_SIZE(checks); i++) {
		struct pg_probe_report report = {.name = checks[i].name};

		checks[i].check(&report);
		pg_probe_emit(&probe, &report);
	}
	pg_probe_maps(&probe);
	pg_probe_helpers(&probe);
	pg_probe_hooks(&probe);
	libbpf_set_print(print);
	return probe.failed > 0 ? -EOPNOTSUPP : 0;
}

int pg_probe_required(struct pg_error *err)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(checks); i++) {
		struct pg_probe_report report = {.name = checks[i].name};

		if (!checks[i].required)
			continue;
		checks[i].check(&report);
		if (report.result == PG_PROBE_FAILED)
			return fail_report(&report, err);
	}
	return 0;
}
