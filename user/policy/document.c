/* SPDX-License-Identifier: Apache-2.0 */
#include "document.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "json/scan.h"
#include "json/type_name.h"

#include "entries.h"
#include "findings.h"
#include "suggest.h"

/* JSON values of one document: room for three full lists. */
#define VALUES_MAX (4UL * 1024 * 1024)

/* Octets shown of the place where a syntax error is. */
#define EXCERPT_MAX 32

/* Pointers to what has a known name, with the NUL: a field, its members, an entry. */
#define FIELD_POINTER_MAX  32
#define MEMBER_POINTER_MAX 64
#define ENTRY_POINTER_MAX  96

#define KEY_MODE  "network_mode"
#define KEY_HOSTS "allowed_hosts"

struct document {
	size_t source;
	struct pg_fields *fields;
	struct pg_diagnostics *diagnostics;
};

static const char *const phase_fields[PG_PHASE_COUNT] = {
#define PG_X(symbol, value, name, field) [PG_PHASE_##symbol] = field,
	PG_PHASES(PG_X)
#undef PG_X
};

static const char *const mode_names[] = {
#define PG_X(symbol, value, name) name,
	PG_MODES(PG_X)
#undef PG_X
};

static const enum pg_mode mode_values[] = {
#define PG_X(symbol, value, name) PG_MODE_##symbol,
	PG_MODES(PG_X)
#undef PG_X
};

static const char *const inner_keys[] = {KEY_MODE, KEY_HOSTS};

const char *pg_phase_field(enum pg_phase phase)
{
	return phase_fields[phase];
}

static void field_clear(struct pg_field *field)
{
	pg_entries_unref(field->entries);
	pg_diagnostics_clear(&field->warnings);
	*field = (struct pg_field){0};
}

void pg_fields_clear(struct pg_fields *fields)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++)
		field_clear(&fields->of[i]);
}

static int report(const struct document *document, enum pg_diagnostic_code code,
		  const char *pointer, const char *value, const char *hint, const char *message)
{
	return pg_diagnostics_add(document->diagnostics,
				  &(struct pg_finding){.code = code,
						       .source = document->source,
						       .pointer = pointer,
						       .value = value,
						       .hint = hint,
						       .message = message});
}

static int report_type(const struct document *document, const char *pointer, const cJSON *item,
		       const char *expected)
{
	const char *value = cJSON_IsArray(item) ? "[...]" : "{...}";
	pg_autofree char *printed = NULL;
	char message[160];

	if (cJSON_IsString(item)) {
		value = item->valuestring;
	} else if (!cJSON_IsArray(item) && !cJSON_IsObject(item)) {
		printed = cJSON_PrintUnformatted(item);
		if (!printed)
			return -ENOMEM;
		value = printed;
	}
	snprintf(message, sizeof(message), "%s is needed here, this is %s", expected,
		 pg_json_type_name(item));
	return report(document, PG_DIAG_WRONG_TYPE, pointer, value, NULL, message);
}

/* prefix + "/" + key, escaped as RFC 6901 says, in a form that is safe to print. */
static char *make_pointer(const char *prefix, const char *key)
{
	pg_autofree char *printable = pg_text_printable(key, strlen(key), PG_DIAGNOSTIC_VALUE_MAX);
	char *pointer, *out;

	if (!printable)
		return NULL;
	pointer = malloc(strlen(prefix) + 2 * strlen(printable) + 2);
	if (!pointer)
		return NULL;
	out = stpcpy(stpcpy(pointer, prefix), "/");
	for (const char *c = printable; *c; c++) {
		if (*c == '~')
			out = stpcpy(out, "~0");
		else if (*c == '/')
			out = stpcpy(out, "~1");
		else
			*out++ = *c;
	}
	*out = '\0';
	return pointer;
}

static int report_key(const struct document *document, enum pg_diagnostic_code code,
		      const char *prefix, const char *key, const char *hint)
{
	pg_autofree char *pointer = make_pointer(prefix, key);

	if (!pointer)
		return -ENOMEM;
	return report(document, code, pointer, key, hint, NULL);
}

static int parse_mode(const struct document *document, const char *pointer, const cJSON *item,
		      enum pg_mode *ret_mode)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(mode_names); i++) {
		if (strcmp(item->valuestring, mode_names[i]) == 0) {
			*ret_mode = mode_values[i];
			return 0;
		}
	}
	return report(document, PG_DIAG_MODE_UNKNOWN, pointer, item->valuestring,
		      pg_suggest_mode(item->valuestring, mode_names, PG_ARRAY_SIZE(mode_names)),
		      NULL);
}

/* Notes a /0 range: once a family, so that a list of a million of them is two warnings. */
static int warn_every_address(const struct document *document, const char *list_pointer,
			      size_t index, const struct pg_entry *entry, bool warned[2],
			      struct pg_diagnostics *warnings)
{
	char pointer[ENTRY_POINTER_MAX];

	if (pg_entry_name(entry) || entry->prefix.length > 0 || warned[entry->prefix.v4])
		return 0;
	warned[entry->prefix.v4] = true;
	snprintf(pointer, sizeof(pointer), "%s/%zu", list_pointer, index);
	return pg_diagnostics_add(warnings,
				  &(struct pg_finding){.code = PG_DIAG_ALLOWS_EVERY_ADDRESS,
						       .source = document->source,
						       .pointer = pointer,
						       .value = entry->prefix.v4 ? "0.0.0.0/0"
										 : "::/0"});
}

static int report_element(const struct document *document, const char *list_pointer, size_t index,
			  const cJSON *item, const struct pg_entry_fault *fault)
{
	char pointer[ENTRY_POINTER_MAX];

	snprintf(pointer, sizeof(pointer), "%s/%zu", list_pointer, index);
	if (!fault)
		return report_type(document, pointer, item, "a string");
	return report(document, fault->code, pointer, item->valuestring, fault->hint, NULL);
}

/* Reads one element; what is at fault is reported and left out. */
static int parse_element(const struct document *document, const char *list_pointer, size_t index,
			 const cJSON *item, struct pg_entries *entries)
{
	struct pg_entry_fault fault;
	int result;

	if (!cJSON_IsString(item))
		return report_element(document, list_pointer, index, item, NULL);
	result = pg_entry_parse(item->valuestring, &entries->items[entries->count], &fault);
	if (result == -EINVAL)
		return report_element(document, list_pointer, index, item, &fault);
	if (result == 0)
		entries->count++;
	return result;
}

static int warn_list(const struct document *document, const char *pointer, size_t given,
		     size_t removed, struct pg_diagnostics *warnings)
{
	struct pg_finding finding = {.source = document->source, .pointer = pointer};
	char message[96];

	if (given == 0) {
		finding.code = PG_DIAG_EMPTY_ALLOWLIST;
		return pg_diagnostics_add(warnings, &finding);
	}
	if (removed == 0)
		return 0;
	snprintf(message, sizeof(message), "%zu of %zu entries repeat another and are merged",
		 removed, given);
	finding.code = PG_DIAG_DUPLICATE_ENTRIES;
	finding.message = message;
	return pg_diagnostics_add(warnings, &finding);
}

static int parse_hosts(const struct document *document, const char *pointer, const cJSON *array,
		       struct pg_field *field)
{
	size_t given = (size_t)cJSON_GetArraySize(array), index = 0, removed;
	pg_autoentries struct pg_entries *entries = NULL;
	bool warned[2] = {false, false};
	const cJSON *item;
	int result;

	if (given > PG_POLICY_ENTRIES_MAX) {
		char message[96];

		snprintf(message, sizeof(message),
			 "the list has %zu entries; a phase has at most %d", given,
			 PG_POLICY_ENTRIES_MAX);
		return report(document, PG_DIAG_TOO_MANY_ENTRIES, pointer, NULL, NULL, message);
	}
	entries = pg_entries_new(given);
	if (!entries)
		return -ENOMEM;
	cJSON_ArrayForEach (item, array) {
		size_t before = entries->count;

		result = parse_element(document, pointer, index, item, entries);
		if (result < 0)
			return result;
		if (entries->count > before)
			result = warn_every_address(document, pointer, index,
						    &entries->items[before], warned,
						    &field->warnings);
		if (result < 0)
			return result;
		index++;
	}
	result = pg_entries_merge_duplicates(entries, &removed);
	if (result == 0)
		result = warn_list(document, pointer, given, removed, &field->warnings);
	field->entries = PG_TAKE_PTR(entries);
	return result;
}

/* The two members of a policy object, each NULL if it is absent or null. */
struct members {
	const cJSON *mode;
	const cJSON *hosts;
};

static int find_members(const struct document *document, const char *pointer, const cJSON *object,
			struct members *ret_members)
{
	const cJSON *found[PG_ARRAY_SIZE(inner_keys)] = {NULL};
	const cJSON *item;

	cJSON_ArrayForEach (item, object) {
		int result = 0;
		size_t i = 0;

		while (i < PG_ARRAY_SIZE(inner_keys) && strcmp(item->string, inner_keys[i]) != 0)
			i++;
		if (i == PG_ARRAY_SIZE(inner_keys))
			result = report_key(document, PG_DIAG_UNKNOWN_FIELD, pointer, item->string,
					    pg_suggest_key(item->string, inner_keys, i));
		else if (found[i])
			result = report_key(document, PG_DIAG_DUPLICATE_FIELD, pointer,
					    item->string, NULL);
		else
			found[i] = item;
		if (result < 0)
			return result;
	}
	ret_members->mode = cJSON_IsNull(found[0]) ? NULL : found[0];
	ret_members->hosts = cJSON_IsNull(found[1]) ? NULL : found[1];
	return 0;
}

/* Mode and hosts by themselves are read; now whether they fit together. */
static int check_members(const struct document *document, const char *pointer,
			 const char *hosts_pointer, const struct members *members,
			 const struct pg_field *field)
{
	if (!members->mode)
		return report(document, PG_DIAG_MODE_MISSING, pointer, NULL, NULL, NULL);
	if (field->mode == PG_MODE_ALLOWLIST && !members->hosts)
		return report(document, PG_DIAG_ALLOWLIST_NEEDS_HOSTS, pointer, NULL, NULL, NULL);
	if (field->mode && field->mode != PG_MODE_ALLOWLIST && members->hosts &&
	    cJSON_GetArraySize(members->hosts) > 0)
		return report(document, PG_DIAG_HOSTS_WITHOUT_ALLOWLIST, hosts_pointer, NULL, NULL,
			      NULL);
	return 0;
}

static int parse_object(const struct document *document, const char *pointer, const cJSON *object,
			struct pg_field *field)
{
	char mode_pointer[MEMBER_POINTER_MAX], hosts_pointer[MEMBER_POINTER_MAX];
	size_t errors = document->diagnostics->errors;
	struct members members;
	int result;

	snprintf(mode_pointer, sizeof(mode_pointer), "%s/" KEY_MODE, pointer);
	snprintf(hosts_pointer, sizeof(hosts_pointer), "%s/" KEY_HOSTS, pointer);
	result = find_members(document, pointer, object, &members);
	if (result == 0 && members.mode) {
		if (cJSON_IsString(members.mode))
			result = parse_mode(document, mode_pointer, members.mode, &field->mode);
		else
			result = report_type(document, mode_pointer, members.mode, "a string");
	}
	if (result == 0 && members.hosts) {
		if (cJSON_IsArray(members.hosts))
			result = parse_hosts(document, hosts_pointer, members.hosts, field);
		else
			result = report_type(document, hosts_pointer, members.hosts, "an array");
	}
	/* A misspelt member would be called missing as well; one report of it is enough. */
	if (result == 0 && (errors == document->diagnostics->errors || members.hosts))
		result = check_members(document, pointer, hosts_pointer, &members, field);
	if (field->mode != PG_MODE_ALLOWLIST) {
		pg_entries_unref(field->entries);
		field->entries = NULL;
		pg_diagnostics_clear(&field->warnings);
	}
	return result;
}

static int parse_field(const struct document *document, enum pg_phase phase, const cJSON *item)
{
	struct pg_field *field = &document->fields->of[phase];
	char pointer[FIELD_POINTER_MAX];
	int result;

	field_clear(field);
	if (cJSON_IsNull(item))
		return 0;
	field->set = true;
	field->source = document->source;
	snprintf(pointer, sizeof(pointer), "/%s", phase_fields[phase]);
	if (cJSON_IsObject(item))
		return parse_object(document, pointer, item, field);
	if (!cJSON_IsString(item))
		return report_type(document, pointer, item, "a string or an object");
	result = parse_mode(document, pointer, item, &field->mode);
	if (result == 0 && field->mode == PG_MODE_ALLOWLIST)
		result = report(document, PG_DIAG_ALLOWLIST_NEEDS_HOSTS, pointer, item->valuestring,
				NULL, NULL);
	return result;
}

static int parse_root(const struct document *document, enum pg_policy_form form, const cJSON *root)
{
	bool seen[PG_PHASE_COUNT] = {false};
	const cJSON *item;

	if (!cJSON_IsObject(root))
		return report_type(document, "", root, "an object");
	cJSON_ArrayForEach (item, root) {
		const char *hint;
		int result = 0;
		size_t phase = 0;

		while (phase < PG_PHASE_COUNT && strcmp(item->string, phase_fields[phase]) != 0)
			phase++;
		if (phase == PG_PHASE_COUNT) {
			hint = pg_suggest_key(item->string, phase_fields, PG_PHASE_COUNT);
			if (hint || form == PG_POLICY_BARE)
				result = report_key(document, PG_DIAG_UNKNOWN_FIELD, "",
						    item->string, hint);
		} else if (seen[phase]) {
			result = report_key(document, PG_DIAG_DUPLICATE_FIELD, "", item->string,
					    NULL);
		} else {
			seen[phase] = document->fields->seen = true;
			result = parse_field(document, (enum pg_phase)phase, item);
		}
		if (result < 0)
			return result;
	}
	return 0;
}

static int report_syntax(const struct document *document, enum pg_diagnostic_code code,
			 const char *text, size_t size, size_t position)
{
	pg_autofree char *excerpt = NULL;
	size_t line = 1, column = 1;
	char message[96];

	for (size_t i = 0; i < position; i++) {
		column = text[i] == '\n' ? 1 : column + 1;
		line += text[i] == '\n';
	}
	if (code == PG_DIAG_TOO_MANY_ENTRIES)
		snprintf(message, sizeof(message), "the document has more than %lu values",
			 VALUES_MAX);
	else if (code == PG_DIAG_DOCUMENT_TOO_DEEP)
		snprintf(message, sizeof(message),
			 "line %zu, column %zu: nested more than %d levels deep", line, column,
			 PG_POLICY_DEPTH_MAX);
	else if (position >= size)
		snprintf(message, sizeof(message), "line %zu, column %zu: the JSON text ends early",
			 line, column);
	else
		snprintf(message, sizeof(message), "line %zu, column %zu: not valid JSON", line,
			 column);
	if (position < size) {
		excerpt = strndup(text + position,
				  size - position < EXCERPT_MAX ? size - position : EXCERPT_MAX);
		if (!excerpt)
			return -ENOMEM;
	}
	return report(document, code, "", excerpt, NULL, message);
}

static enum pg_diagnostic_code fault_code(enum pg_json_fault fault)
{
	switch (fault) {
	case PG_JSON_SYNTAX:
		return PG_DIAG_JSON_SYNTAX;
	case PG_JSON_TOO_LARGE:
		return PG_DIAG_DOCUMENT_TOO_LARGE;
	case PG_JSON_TOO_DEEP:
		return PG_DIAG_DOCUMENT_TOO_DEEP;
	case PG_JSON_TOO_MANY_VALUES:
		return PG_DIAG_TOO_MANY_ENTRIES;
	}
	return PG_DIAG_JSON_SYNTAX;
}

static bool is_json_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

int pg_document_parse(const struct pg_policy_source *source, size_t index, enum pg_policy_form form,
		      struct pg_fields *fields, struct pg_diagnostics *diagnostics)
{
	static const struct pg_json_limits limits = {.size = PG_POLICY_DOCUMENT_MAX,
						     .depth = PG_POLICY_DEPTH_MAX,
						     .values = VALUES_MAX};
	struct document document = {.source = index, .fields = fields, .diagnostics = diagnostics};
	pg_autofree char *copy = NULL;
	struct pg_json_scan scan;
	size_t position;
	const char *end = NULL;
	cJSON *root;
	int result;

	if (source->size > PG_POLICY_DOCUMENT_MAX)
		return report(&document, PG_DIAG_DOCUMENT_TOO_LARGE, "", NULL, NULL, NULL);
	copy = malloc(source->size + 1);
	if (!copy)
		return -ENOMEM;
	if (pg_json_scan(source->text, source->size, &limits, copy, &scan) < 0)
		return report_syntax(&document, fault_code(scan.fault), source->text, source->size,
				     scan.position);
	/* cJSON does not say why it failed, but malloc(3) does. */
	errno = 0;
	root = cJSON_ParseWithLengthOpts(copy, scan.size + 1, &end, 0);
	if (!root && errno == ENOMEM)
		return -ENOMEM;
	while (root && is_json_space(*end))
		end++;
	position = end ? (size_t)(end - copy) : 0;
	if (!root || position < scan.size)
		result = report_syntax(&document, PG_DIAG_JSON_SYNTAX, copy, scan.size, position);
	else
		result = parse_root(&document, form, root);
	cJSON_Delete(root);
	return result;
}
