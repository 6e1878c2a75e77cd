/* SPDX-License-Identifier: Apache-2.0 */
#include "print.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/json_text.h"
#include "base/text.h"
#include "document.h"

/* For the one source that is no document. */
#define ADDITION_NAME "--allow"

static const char *source_name(const struct pg_policy_source *sources, size_t source)
{
	return source == SIZE_MAX ? ADDITION_NAME : sources[source].name;
}

static const char *origin_name(enum pg_origin origin)
{
	switch (origin) {
	case PG_ORIGIN_DEFAULT:
		return "default";
	case PG_ORIGIN_INHERITED:
		return "inherited";
	case PG_ORIGIN_DOCUMENT:
		return "document";
	}
	return "default";
}

static int print_entries(FILE *out, const struct pg_entries *entries)
{
	for (size_t i = 0; entries && i < entries->count; i++) {
		const struct pg_entry *entry = &entries->items[i];
		pg_autofree char *text = pg_entry_format(entry);

		if (!text)
			return -ENOMEM;
		fprintf(out, "%s{\"kind\":\"%s\",\"value\":", i ? "," : "",
			pg_entry_kind_name(entry->kind));
		pg_json_string(out, text);
		putc('}', out);
	}
	return 0;
}

int pg_phase_policy_print_json(FILE *out, const struct pg_phase_policy *phase,
			       const struct pg_policy_source *sources)
{
	int result;

	fprintf(out, "{\"network_mode\":\"%s\",\"entries\":[", pg_mode_name(phase->mode));
	result = print_entries(out, phase->entries);
	fprintf(out, "],\"origin\":\"%s\"", origin_name(phase->origin));
	if (phase->origin == PG_ORIGIN_DOCUMENT) {
		fputs(",\"document\":", out);
		pg_json_string(out, source_name(sources, phase->source));
	}
	fprintf(out, ",\"added\":%zu}", phase->added);
	return result;
}

static int print_field(FILE *out, const struct pg_phase_policy *phase)
{
	if (phase->mode != PG_MODE_ALLOWLIST) {
		fprintf(out, "\"%s\"", pg_mode_name(phase->mode));
		return 0;
	}
	fprintf(out, "{\"network_mode\":\"%s\",\"allowed_hosts\":[", pg_mode_name(phase->mode));
	for (size_t i = 0; phase->entries && i < phase->entries->count; i++) {
		pg_autofree char *text = pg_entry_format(&phase->entries->items[i]);

		if (!text)
			return -ENOMEM;
		if (i)
			putc(',', out);
		pg_json_string(out, text);
	}
	fputs("]}", out);
	return 0;
}

int pg_policy_print_document(FILE *out, const struct pg_policy *policy)
{
	const struct pg_phase_policy *setup = &policy->phases[PG_PHASE_SETUP];
	int result = 0;

	putc('{', out);
	for (size_t i = 0; i < PG_PHASE_COUNT && !result; i++) {
		const struct pg_phase_policy *phase = &policy->phases[i];

		if (i != PG_PHASE_SETUP && phase->mode == setup->mode &&
		    phase->entries == setup->entries)
			continue;
		fprintf(out, "%s\"%s\":", i != PG_PHASE_SETUP ? "," : "",
			pg_phase_field((enum pg_phase)i));
		result = print_field(out, phase);
	}
	fputs("}\n", out);
	return result;
}

static void print_diagnostic_json(FILE *out, const struct pg_diagnostic *diagnostic,
				  const struct pg_policy_source *sources)
{
	fprintf(out, "{\"code\":\"%s\",\"pointer\":", pg_diagnostic_code_name(diagnostic->code));
	pg_json_string(out, diagnostic->pointer);
	fputs(",\"value\":", out);
	pg_json_string(out, diagnostic->value);
	fputs(",\"hint\":", out);
	pg_json_string(out, diagnostic->hint);
	fputs(",\"message\":", out);
	pg_json_string(out, diagnostic->message);
	fputs(",\"document\":", out);
	pg_json_string(out, diagnostic->code == PG_DIAG_TOO_MANY_ERRORS
				    ? NULL
				    : source_name(sources, diagnostic->source));
	putc('}', out);
}

static void print_diagnostics_json(FILE *out, const struct pg_diagnostics *diagnostics, bool errors,
				   const struct pg_policy_source *sources)
{
	bool first = true;

	for (size_t i = 0; i < diagnostics->count; i++) {
		if (pg_diagnostic_is_error(diagnostics->items[i].code) != errors)
			continue;
		if (!first)
			putc(',', out);
		first = false;
		print_diagnostic_json(out, &diagnostics->items[i], sources);
	}
}

int pg_policy_print_json(FILE *out, const struct pg_policy *policy,
			 const struct pg_diagnostics *diagnostics,
			 const struct pg_policy_source *sources)
{
	if (policy) {
		fputs("{\"ok\":true,\"phases\":{", out);
		for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
			fprintf(out, "%s\"%s\":", i ? "," : "", pg_phase_name((enum pg_phase)i));
			if (pg_phase_policy_print_json(out, &policy->phases[i], sources) < 0)
				return -ENOMEM;
		}
		putc('}', out);
	} else {
		fputs("{\"ok\":false,\"errors\":[", out);
		print_diagnostics_json(out, diagnostics, true, sources);
		putc(']', out);
	}
	fputs(",\"warnings\":[", out);
	print_diagnostics_json(out, diagnostics, false, sources);
	fputs("]}\n", out);
	return ferror(out) ? -EIO : 0;
}

void pg_diagnostics_print_event(FILE *out, bool ok, const struct pg_diagnostics *diagnostics,
				const struct pg_policy_source *sources)
{
	fprintf(out, "{\"event\":\"policy\",\"ok\":%s", ok ? "true" : "false");
	if (!ok) {
		fputs(",\"errors\":[", out);
		print_diagnostics_json(out, diagnostics, true, sources);
		putc(']', out);
	}
	fputs(",\"warnings\":[", out);
	print_diagnostics_json(out, diagnostics, false, sources);
	fputs("]}\n", out);
}

static void print_counts(FILE *out, const struct pg_phase_policy *phase)
{
	size_t counts[PG_ENTRY_CIDR6 + 1] = {0};
	const char *separator = " (";

	fprintf(out, " %zu %s", phase->entries->count,
		phase->entries->count == 1 ? "entry" : "entries");
	for (size_t i = 0; i < phase->entries->count; i++)
		counts[phase->entries->items[i].kind]++;
	for (size_t i = 0; i < PG_ARRAY_SIZE(counts); i++) {
		if (counts[i] == 0)
			continue;
		fprintf(out, "%s%zu %s", separator, counts[i],
			pg_entry_kind_name((enum pg_entry_kind)i));
		separator = ", ";
	}
	fputs(phase->entries->count ? ")," : ",", out);
}

/* File names come from outside like the rest. */
static void print_printable(FILE *out, const char *text)
{
	pg_autofree char *printable =
		pg_text_printable(text, strlen(text), PG_DIAGNOSTIC_VALUE_MAX);

	fputs(printable ? printable : "?", out);
}

void pg_policy_print(FILE *out, const struct pg_policy *policy,
		     const struct pg_policy_source *sources)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++)
		fprintf(out, "%s_network_mode=%s\n", pg_phase_name((enum pg_phase)i),
			pg_mode_name(policy->phases[i].mode));
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		const struct pg_phase_policy *phase = &policy->phases[i];

		fprintf(out, "%s:", pg_phase_name((enum pg_phase)i));
		if (phase->entries)
			print_counts(out, phase);
		fprintf(out, " %s", origin_name(phase->origin));
		if (phase->origin == PG_ORIGIN_DOCUMENT) {
			putc(' ', out);
			print_printable(out, sources[phase->source].name);
		}
		if (phase->added)
			fprintf(out, ", %zu of them by --allow", phase->added);
		putc('\n', out);
	}
}

void pg_diagnostics_print(FILE *out, const struct pg_diagnostics *diagnostics,
			  const struct pg_policy_source *sources)
{
	for (size_t i = 0; i < diagnostics->count; i++) {
		const struct pg_diagnostic *diagnostic = &diagnostics->items[i];
		bool error = pg_diagnostic_is_error(diagnostic->code);

		fputs(error ? "error: " : "warning: ", out);
		if (diagnostic->code != PG_DIAG_TOO_MANY_ERRORS) {
			print_printable(out, source_name(sources, diagnostic->source));
			fprintf(out, ": %s: ",
				*diagnostic->pointer ? diagnostic->pointer : "the document");
		}
		fprintf(out, "%s\n", pg_diagnostic_code_name(diagnostic->code));
		if (diagnostic->value)
			fprintf(out, "  read:  \"%s\"\n", diagnostic->value);
		fprintf(out, "  why:   %s\n", diagnostic->message);
		if (diagnostic->hint)
			fprintf(out, "  write: \"%s\"\n", diagnostic->hint);
	}
}
