/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy parser on arbitrary bytes, in both forms. Beside not crashing: what it prints is
 * valid JSON, and an accepted policy written in normal form parses to the same policy without a
 * warning of duplicates.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/print.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* The JSON of a result, read back by a parser. */
static cJSON *print(const struct pg_policy *policy, const struct pg_diagnostics *diagnostics,
		    const struct pg_policy_source *source)
{
	pg_autofree char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	cJSON *root;

	require(out && pg_policy_print_json(out, policy, diagnostics, source) == 0);
	pg_diagnostics_print(out, diagnostics, source);
	fclose(out);
	/* The lines for people come after the object's line. */
	*strchr(text, '\n') = '\0';
	root = cJSON_ParseWithOpts(text, NULL, 1);
	require(root);
	return root;
}

/* Writes the document that says the same as what was printed. */
static char *write_normal(const cJSON *printed)
{
	const cJSON *phases = cJSON_GetObjectItemCaseSensitive(printed, "phases");
	static const char *const fields[][2] = {
#define PG_X(symbol, value, name, field) {name, field},
		PG_PHASES(PG_X)
#undef PG_X
	};
	cJSON *document = cJSON_CreateObject(), *field, *hosts;
	const cJSON *phase, *mode, *entry;
	char *text;

	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		phase = cJSON_GetObjectItemCaseSensitive(phases, fields[i][0]);
		mode = cJSON_GetObjectItemCaseSensitive(phase, "network_mode");
		field = cJSON_AddObjectToObject(document, fields[i][1]);
		cJSON_AddStringToObject(field, "network_mode", mode->valuestring);
		hosts = cJSON_AddArrayToObject(field, "allowed_hosts");
		cJSON_ArrayForEach (entry, cJSON_GetObjectItemCaseSensitive(phase, "entries"))
			cJSON_AddItemToArray(hosts,
					     cJSON_CreateString(cJSON_GetStringValue(
						     cJSON_GetObjectItemCaseSensitive(entry,
										      "value"))));
	}
	text = cJSON_PrintUnformatted(document);
	cJSON_Delete(document);
	require(text);
	return text;
}

static void check_same(const struct pg_policy *a, const struct pg_policy *b)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		const struct pg_entries *left = a->phases[i].entries, *right = b->phases[i].entries;

		require(a->phases[i].mode == b->phases[i].mode);
		require(!left == !right);
		require(!left || left->count == right->count);
		for (size_t j = 0; left && j < left->count; j++) {
			pg_autofree char *one = pg_entry_format(&left->items[j]);
			pg_autofree char *two = pg_entry_format(&right->items[j]);

			require(left->items[j].kind == right->items[j].kind);
			require(one && two && strcmp(one, two) == 0);
		}
	}
}

static void check_normal(const cJSON *printed, const struct pg_policy *policy)
{
	pg_autofree char *text = write_normal(printed);
	const struct pg_policy_source source = {"normal", text, strlen(text)};
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
	pg_autopolicy struct pg_policy *again = NULL;

	require(pg_policy_parse(&source, 1, NULL, 0, PG_POLICY_BARE, &again, &diagnostics) == 0);
	for (size_t i = 0; i < diagnostics.count; i++)
		require(diagnostics.items[i].code != PG_DIAG_DUPLICATE_ENTRIES);
	check_same(policy, again);
}

static void check_hints(const struct pg_diagnostics *diagnostics)
{
	for (size_t i = 0; i < diagnostics->count; i++) {
		const struct pg_diagnostic *item = &diagnostics->items[i];

		require(item->message && item->pointer);
		require(!*item->pointer || *item->pointer == '/');
		require(!item->hint || *item->hint);
		require(!item->value || !strpbrk(item->value, "\n\r\t\x1b\x7f"));
	}
}

static void check(const struct pg_policy_source *source, enum pg_policy_form form)
{
	/* An addition too, so that copies of shared lists are exercised. */
	const struct pg_policy_addition addition = {PG_PHASE_RUN, "added.example"};
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
	pg_autopolicy struct pg_policy *policy = NULL;
	size_t additions = source->size % 2;
	cJSON *printed;
	int result = pg_policy_parse(source, 1, &addition, additions, form, &policy, &diagnostics);

	require(result == 0 || result == -EINVAL);
	require((result == 0) == (policy != NULL));
	require((result == 0) == (diagnostics.errors == 0));
	check_hints(&diagnostics);
	printed = print(policy, &diagnostics, source);
	if (policy)
		check_normal(printed, policy);
	cJSON_Delete(printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of the exact size: reading past it is seen. */
	char *text = malloc(size ? size : 1);
	const struct pg_policy_source source = {"fuzz", text, size};

	require(text);
	if (size)
		memcpy(text, data, size);
	check(&source, PG_POLICY_BARE);
	check(&source, PG_POLICY_ENV_PARAMS);
	free(text);
	return 0;
}
