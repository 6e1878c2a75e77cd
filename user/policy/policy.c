/* SPDX-License-Identifier: Apache-2.0 */
#include "policy.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "document.h"
#include "entries.h"
#include "findings.h"

/* RFC 6761, 6.3: means the loopback addresses without asking DNS. */
#define LOCALHOST "localhost"

static const char *const phase_names[PG_PHASE_COUNT] = {
#define PG_X(symbol, value, name, field) [PG_PHASE_##symbol] = name,
	PG_PHASES(PG_X)
#undef PG_X
};

const char *pg_mode_name(enum pg_mode mode)
{
	switch (mode) {
#define PG_X(symbol, value, name) \
	case PG_MODE_##symbol: \
		return name;
		PG_MODES(PG_X)
#undef PG_X
	}
	return "none";
}

const char *pg_phase_name(enum pg_phase phase)
{
	return phase_names[phase];
}

int pg_phase_parse(const char *name, enum pg_phase *ret_phase)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		if (strcmp(name, phase_names[i]) == 0) {
			*ret_phase = (enum pg_phase)i;
			return 0;
		}
	}
	return -EINVAL;
}

struct pg_policy *pg_policy_copy(const struct pg_policy *policy)
{
	struct pg_policy *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *policy;
	for (size_t i = 0; i < PG_PHASE_COUNT; i++)
		pg_entries_ref(copy->phases[i].entries);
	return copy;
}

void pg_policy_free(struct pg_policy *policy)
{
	if (!policy)
		return;
	for (size_t i = 0; i < PG_PHASE_COUNT; i++)
		pg_entries_unref(policy->phases[i].entries);
	free(policy);
}

bool pg_phase_policy_has_names(const struct pg_phase_policy *phase)
{
	for (size_t i = 0; phase->entries && i < phase->entries->count; i++) {
		const struct pg_entry *entry = &phase->entries->items[i];

		if (entry->kind == PG_ENTRY_WILDCARD)
			return true;
		if (entry->kind == PG_ENTRY_HOST && strcmp(entry->name, LOCALHOST) != 0)
			return true;
	}
	return false;
}

bool pg_policy_has_names(const struct pg_policy *policy)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		if (pg_phase_policy_has_names(&policy->phases[i]))
			return true;
	}
	return false;
}

/* Fills in what no document says: setup is public, the others are as setup. */
static void resolve(struct pg_policy *policy, struct pg_fields *fields)
{
	const struct pg_phase_policy *setup = &policy->phases[PG_PHASE_SETUP];

	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		struct pg_phase_policy *phase = &policy->phases[i];
		struct pg_field *field = &fields->of[i];

		if (field->set) {
			phase->mode = field->mode;
			phase->entries = pg_entries_ref(field->entries);
			phase->origin = PG_ORIGIN_DOCUMENT;
			phase->source = field->source;
		} else if (i == PG_PHASE_SETUP) {
			phase->mode = PG_MODE_PUBLIC;
			phase->origin = PG_ORIGIN_DEFAULT;
		} else {
			phase->mode = setup->mode;
			phase->entries = pg_entries_ref(setup->entries);
			phase->origin = setup->origin == PG_ORIGIN_DEFAULT ? PG_ORIGIN_DEFAULT
									   : PG_ORIGIN_INHERITED;
		}
	}
}

static int report_addition(const struct pg_policy_addition *addition, enum pg_diagnostic_code code,
			   const char *hint, struct pg_diagnostics *diagnostics)
{
	char pointer[64];

	snprintf(pointer, sizeof(pointer), "/%s", pg_phase_field(addition->phase));
	return pg_diagnostics_add(diagnostics, &(struct pg_finding){.code = code,
								    .source = SIZE_MAX,
								    .pointer = pointer,
								    .value = addition->entry,
								    .hint = hint});
}

/* Makes the list the phase's own, so that phases which inherited it keep theirs as it was. */
static int make_own(struct pg_phase_policy *phase)
{
	struct pg_entries *copy;

	if (phase->entries->references == 1)
		return pg_entries_reserve(phase->entries);
	copy = pg_entries_copy(phase->entries);
	if (!copy)
		return -ENOMEM;
	pg_entries_unref(phase->entries);
	phase->entries = copy;
	return 0;
}

/* Takes over the entry, whatever comes of it. */
static int add_entry(const struct pg_policy_addition *addition, struct pg_entry *entry,
		     struct pg_phase_policy *phase, struct pg_diagnostics *diagnostics)
{
	enum pg_diagnostic_code code;

	if (phase->mode != PG_MODE_ALLOWLIST) {
		code = PG_DIAG_ALLOW_NEEDS_ALLOWLIST;
	} else if (phase->entries->count >= PG_POLICY_ENTRIES_MAX) {
		code = PG_DIAG_TOO_MANY_ENTRIES;
	} else if (pg_entries_contain(phase->entries, entry)) {
		code = PG_DIAG_DUPLICATE_ENTRIES;
	} else {
		if (make_own(phase) < 0) {
			pg_entry_clear(entry);
			return -ENOMEM;
		}
		phase->entries->items[phase->entries->count++] = *entry;
		phase->added++;
		if (pg_entry_name(entry) || entry->prefix.length > 0)
			return 0;
		return report_addition(addition, PG_DIAG_ALLOWS_EVERY_ADDRESS, NULL, diagnostics);
	}
	pg_entry_clear(entry);
	return report_addition(addition, code, NULL, diagnostics);
}

/* policy is NULL if the documents are at fault; then only the entries themselves are checked. */
static int add_all(const struct pg_policy_addition *additions, size_t count,
		   struct pg_policy *policy, struct pg_diagnostics *diagnostics)
{
	for (size_t i = 0; i < count; i++) {
		const struct pg_policy_addition *addition = &additions[i];
		struct pg_entry_fault fault;
		struct pg_entry entry;
		int result = pg_entry_parse(addition->entry, &entry, &fault);

		if (result == -EINVAL)
			result = report_addition(addition, fault.code, fault.hint, diagnostics);
		else if (result == 0 && policy)
			result = add_entry(addition, &entry, &policy->phases[addition->phase],
					   diagnostics);
		else if (result == 0)
			pg_entry_clear(&entry);
		if (result < 0)
			return result;
	}
	return 0;
}

/* Warnings of fields that are in the policy; an allowlist that --allow filled is not empty. */
static int keep_warnings(struct pg_fields *fields, const struct pg_policy *policy,
			 struct pg_diagnostics *diagnostics)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		struct pg_diagnostics *warnings = &fields->of[i].warnings;
		int result;

		if (policy && policy->phases[i].added > 0 && warnings->count == 1 &&
		    warnings->items[0].code == PG_DIAG_EMPTY_ALLOWLIST)
			continue;
		result = pg_diagnostics_move(diagnostics, warnings);
		if (result < 0)
			return result;
	}
	return 0;
}

/* A harness that keeps the fields elsewhere would have no policy, and not know. */
static int warn_nothing_found(const struct pg_fields *fields, enum pg_policy_form form,
			      size_t source_count, struct pg_diagnostics *diagnostics)
{
	if (form != PG_POLICY_ENV_PARAMS || fields->seen || !source_count)
		return 0;
	return pg_diagnostics_add(diagnostics, &(struct pg_finding){.code = PG_DIAG_NO_POLICY_FIELD,
								    .source = source_count - 1,
								    .pointer = ""});
}

static int parse_all(const struct pg_policy_source *sources, size_t source_count,
		     const struct pg_policy_addition *additions, size_t addition_count,
		     enum pg_policy_form form, struct pg_fields *fields,
		     struct pg_policy **ret_policy, struct pg_diagnostics *diagnostics)
{
	size_t errors = diagnostics->errors;
	pg_autopolicy struct pg_policy *policy = NULL;
	int result;

	for (size_t i = 0; i < source_count; i++) {
		result = pg_document_parse(&sources[i], i, form, fields, diagnostics);
		if (result < 0)
			return result;
	}
	if (diagnostics->errors == errors) {
		policy = calloc(1, sizeof(*policy));
		if (!policy)
			return -ENOMEM;
		resolve(policy, fields);
		result = warn_nothing_found(fields, form, source_count, diagnostics);
		if (result < 0)
			return result;
	}
	result = add_all(additions, addition_count, policy, diagnostics);
	if (result == 0)
		result = keep_warnings(fields, policy, diagnostics);
	if (result == 0)
		result = pg_diagnostics_finish(diagnostics);
	if (result < 0)
		return result;
	if (!policy || diagnostics->errors != errors)
		return -EINVAL;
	*ret_policy = PG_TAKE_PTR(policy);
	return 0;
}

int pg_policy_parse(const struct pg_policy_source *sources, size_t source_count,
		    const struct pg_policy_addition *additions, size_t addition_count,
		    enum pg_policy_form form, struct pg_policy **ret_policy,
		    struct pg_diagnostics *diagnostics)
{
	struct pg_fields fields = {0};
	int result = parse_all(sources, source_count, additions, addition_count, form, &fields,
			       ret_policy, diagnostics);

	pg_fields_clear(&fields);
	return result;
}
