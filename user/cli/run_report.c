/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "policy/print.h"

static double microseconds(uint64_t ns)
{
	return (double)ns / PG_NSEC_PER_USEC;
}

static const char *mode_name(const struct run_report *report, enum pg_phase phase)
{
	return pg_mode_name(report->policy->phases[phase].mode);
}

static void print_message(const char *kind, const char *name, const char *text, const char *message)
{
	fprintf(stderr, "{\"event\":\"%s\",\"%s\":", kind, name);
	pg_json_string(stderr, text);
	fputs(",\"message\":", stderr);
	pg_json_string(stderr, message);
	fputs("}\n", stderr);
}

static void log_json(void *userdata, enum pg_log_level level, const char *message)
{
	const struct run_report *report = userdata;

	if (level == PG_LOG_ERROR)
		print_message("error", "code", report->code ? report->code : "failed", message);
	else
		print_message("log", "level", pg_log_level_name(level), message);
}

void run_report_open(struct run_report *report)
{
	/* A line at a time: the command writes to the same file. */
	setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
	if (report->json)
		pg_log_set_sink(log_json, report);
}

void run_report_close(struct run_report *report)
{
	pg_log_set_sink(NULL, NULL);
}

void run_report_error(struct run_report *report, const char *code, const struct pg_error *err)
{
	report->code = code;
	pg_log_error("%s", err->text);
	report->code = NULL;
}

void run_report_policy(const struct run_report *report, bool ok,
		       const struct pg_diagnostics *diagnostics,
		       const struct pg_policy_source *sources)
{
	if (!report->json)
		pg_diagnostics_print(stderr, diagnostics, sources);
	else if (diagnostics->count)
		pg_diagnostics_print_event(stderr, ok, diagnostics, sources);
}

void run_report_start(const struct run_report *report, const struct pg_environment *environment)
{
	const struct pg_environment_cost *cost = pg_environment_cost(environment);

	if (!report->json)
		return;
	fprintf(stderr, "{\"event\":\"start\",\"environment\":\"%s\",\"cgroup\":",
		pg_environment_name(environment));
	pg_json_string(stderr, pg_environment_member(environment, 0));
	fprintf(stderr,
		",\"addresses\":%zu,\"compile_us\":%.1f,\"fill_us\":%.1f,\"names_us\":%.1f,"
		"\"attach_us\":%.1f,\"probe_us\":%.1f}\n",
		cost->addresses, microseconds(cost->compile_ns), microseconds(cost->fill_ns),
		microseconds(cost->names_ns), microseconds(cost->attach_ns),
		microseconds(cost->probe_ns));
}

void run_report_warning(const struct run_report *report, const char *code, const char *message)
{
	if (!report->json) {
		fprintf(stderr, "phasegate: warning: %s: %s\n", code, message);
		return;
	}
	print_message("warning", "code", code, message);
}

void run_report_switch(const struct run_report *report, const struct pg_switch *change,
		       const struct pg_closing *closing)
{
	if (!report->json)
		return;
	fprintf(stderr,
		"{\"event\":\"switch\",\"phase\":\"%s\",\"network_mode\":\"%s\","
		"\"generation\":%" PRIu64 ",\"switch_us\":%.1f,\"closed\":%zu,"
		"\"close_us\":%.1f}\n",
		pg_phase_name(change->phase), mode_name(report, change->phase), change->generation,
		microseconds(change->took_ns), closing->closed, microseconds(closing->took_ns));
}

int run_counts_read(const struct pg_environment *environment, struct run_counts *ret_counts,
		    struct pg_error *err)
{
	ret_counts->dns = pg_environment_dns_stats(environment);
	return pg_environment_counters(environment, &ret_counts->hooks, err);
}

static void print_dns_json(const struct pg_resolver_stats *before,
			   const struct pg_resolver_stats *after)
{
	const char *separator = "";

	fputs(",\"dns\":{", stderr);
#define PG_X(field) \
	fprintf(stderr, "%s\"" #field "\":%" PRIu64, separator, after->field - before->field); \
	separator = ",";
	PG_RESOLVER_STATS(PG_X)
#undef PG_X
	fputs("}", stderr);
}

static void print_count_json(const char *name, const struct run_outcome *outcome,
			     enum pg_count count)
{
	const __u64 *before = outcome->before.hooks.verdict[count];
	const __u64 *after = outcome->after.hooks.verdict[count];

	fprintf(stderr, ",\"%s\":{\"allowed\":%llu,\"denied\":%llu}", name,
		after[PG_ALLOW] - before[PG_ALLOW], after[PG_DENY] - before[PG_DENY]);
}

static void report_phase_json(const struct run_report *report, const struct run_outcome *outcome)
{
	fprintf(stderr,
		"{\"event\":\"phase\",\"phase\":\"%s\",\"network_mode\":\"%s\","
		"\"generation\":%" PRIu64 ",\"switch_us\":%.1f,\"closed\":%zu,"
		"\"close_us\":%.1f,\"status\":%d,\"leftovers\":%zu",
		pg_phase_name(outcome->phase), mode_name(report, outcome->phase),
		outcome->generation, microseconds(outcome->change.took_ns), outcome->closing.closed,
		microseconds(outcome->closing.took_ns), outcome->status, outcome->leftovers);
	print_count_json("connects", outcome, PG_COUNT_CONNECT);
	print_count_json("sendmsgs", outcome, PG_COUNT_SENDMSG);
	print_count_json("packets", outcome, PG_COUNT_PACKET);
	print_dns_json(&outcome->before.dns, &outcome->after.dns);
	fputs("}\n", stderr);
}

static void print_count(const char *name, const struct run_outcome *outcome, enum pg_count count)
{
	const __u64 *before = outcome->before.hooks.verdict[count];
	const __u64 *after = outcome->after.hooks.verdict[count];

	fprintf(stderr, "; %s %llu allowed, %llu denied", name, after[PG_ALLOW] - before[PG_ALLOW],
		after[PG_DENY] - before[PG_DENY]);
}

static void print_dns(const struct run_outcome *outcome)
{
	const struct pg_resolver_stats *before = &outcome->before.dns;
	const struct pg_resolver_stats *after = &outcome->after.dns;

	if (after->queries > before->queries)
		fprintf(stderr, "; DNS queries %" PRIu64 " answered, %" PRIu64 " denied",
			after->answered - before->answered, after->denied - before->denied);
	if (after->failed + after->overload > before->failed + before->overload)
		fprintf(stderr, ", %" PRIu64 " failed",
			after->failed + after->overload - before->failed - before->overload);
}

void run_report_phase(const struct run_report *report, const struct run_outcome *outcome)
{
	if (report->json) {
		report_phase_json(report, outcome);
		return;
	}
	fprintf(stderr, "phasegate: %s: %s, generation %" PRIu64, pg_phase_name(outcome->phase),
		mode_name(report, outcome->phase), outcome->generation);
	if (outcome->change.changed)
		fprintf(stderr, ", switched in %.1f us, %zu connections closed in %.1f ms",
			microseconds(outcome->change.took_ns), outcome->closing.closed,
			microseconds(outcome->closing.took_ns) / 1000);
	print_count("connects", outcome, PG_COUNT_CONNECT);
	print_count("sends", outcome, PG_COUNT_SENDMSG);
	print_count("packets", outcome, PG_COUNT_PACKET);
	print_dns(outcome);
	if (outcome->leftovers)
		fprintf(stderr, "; %zu processes left over were killed", outcome->leftovers);
	fprintf(stderr, "; exit status %d\n", outcome->status);
}
