/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnostic.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#include "findings.h"

static const char *const code_names[] = {
#define PG_X(symbol, name) [PG_DIAG_##symbol] = name,
	PG_POLICY_ERRORS(PG_X) PG_POLICY_WARNINGS(PG_X)
#undef PG_X
};

static const char *const code_messages[] = {
	[PG_DIAG_JSON_SYNTAX] = "the text is not valid JSON",
	[PG_DIAG_DOCUMENT_TOO_LARGE] = "a policy document has at most 64 MiB",
	[PG_DIAG_DOCUMENT_TOO_DEEP] = "a policy document is nested at most 8 levels deep",
	[PG_DIAG_TOO_MANY_ENTRIES] = "a phase has at most 1048576 entries",
	[PG_DIAG_WRONG_TYPE] = "the value has the wrong JSON type",
	[PG_DIAG_UNKNOWN_FIELD] = "no field has this name",
	[PG_DIAG_DUPLICATE_FIELD] = "the field is there twice, and only one of them can be meant",
	[PG_DIAG_MODE_UNKNOWN] = "a network mode is public, no-network or allowlist",
	[PG_DIAG_MODE_MISSING] = "network_mode is missing; it says what allowed_hosts is for",
	[PG_DIAG_ALLOWLIST_NEEDS_HOSTS] =
		"the mode allowlist needs an object with allowed_hosts beside network_mode",
	[PG_DIAG_HOSTS_WITHOUT_ALLOWLIST] = "allowed_hosts has a meaning in mode allowlist only",
	[PG_DIAG_EMPTY_ENTRY] = "the entry is empty",
	[PG_DIAG_HOSTNAME_SYNTAX] =
		"a hostname has labels of letters, digits and inner hyphens, separated by dots",
	[PG_DIAG_URL] = "an entry is a host, not a URL; it opens all ports and paths",
	[PG_DIAG_PATH] = "an entry is a host without a path; paths cannot be told apart",
	[PG_DIAG_PORT] = "an entry has no port; it opens all ports of the host",
	[PG_DIAG_BRACKETED_IPV6] = "an IPv6 address is written without brackets",
	[PG_DIAG_ZONE_ID] = "an address has no zone; interfaces differ between hosts",
	[PG_DIAG_USERINFO] = "an entry is a host without a user name",
	[PG_DIAG_CIDR_HOST_BITS] = "the address has bits set beyond the prefix length",
	[PG_DIAG_CIDR_PREFIX] =
		"a prefix length is a decimal number, 0 to 32 (IPv4) or 0 to 128 (IPv6)",
	[PG_DIAG_AMBIGUOUS_IPV4] =
		"programs differ on its meaning; write four decimals, no leading zeros",
	[PG_DIAG_WILDCARD_POSITION] = "a wildcard is \"*.\" in front of a hostname, nowhere else",
	[PG_DIAG_WILDCARD_ADDRESS] = "a wildcard is for names; ranges of addresses are CIDR",
	[PG_DIAG_NOT_ASCII] = "a name with other than ASCII letters is written in its xn-- form",
	[PG_DIAG_LABEL_TOO_LONG] = "a label of a hostname has at most 63 characters",
	[PG_DIAG_NAME_TOO_LONG] = "a hostname has at most 253 characters",
	[PG_DIAG_ALLOW_NEEDS_ALLOWLIST] = "entries can be added to a phase of mode allowlist only",
	[PG_DIAG_TOO_MANY_ERRORS] = "further errors are not shown",
	[PG_DIAG_EMPTY_ALLOWLIST] = "the list is empty, so the phase allows no destination",
	[PG_DIAG_DUPLICATE_ENTRIES] = "entries that mean the same are merged",
	[PG_DIAG_ALLOWS_EVERY_ADDRESS] = "the entry allows every address of its family",
	[PG_DIAG_NO_POLICY_FIELD] = "no policy field found: every phase is public",
};

const char *pg_diagnostic_code_name(enum pg_diagnostic_code code)
{
	return code_names[code];
}

bool pg_diagnostic_is_error(enum pg_diagnostic_code code)
{
	switch (code) {
#define PG_X(symbol, name) case PG_DIAG_##symbol:
		PG_POLICY_ERRORS(PG_X)
		return true;
		PG_POLICY_WARNINGS(PG_X)
		return false;
#undef PG_X
	}
	return true;
}

static void diagnostic_clear(struct pg_diagnostic *diagnostic)
{
	free(diagnostic->pointer);
	free(diagnostic->value);
	free(diagnostic->hint);
	free(diagnostic->message);
}

void pg_diagnostics_clear(struct pg_diagnostics *diagnostics)
{
	for (size_t i = 0; i < diagnostics->count; i++)
		diagnostic_clear(&diagnostics->items[i]);
	free(diagnostics->items);
	*diagnostics = (struct pg_diagnostics){0};
}

static int reserve(struct pg_diagnostics *diagnostics, size_t more)
{
	size_t need = diagnostics->count + more;
	size_t capacity = 8;
	struct pg_diagnostic *items;

	/* The capacity is the power of two that holds count; it grows when that changes. */
	while (capacity < diagnostics->count)
		capacity *= 2;
	if (diagnostics->items && need <= capacity)
		return 0;
	while (capacity < need)
		capacity *= 2;
	items = realloc(diagnostics->items, capacity * sizeof(*items));
	if (!items)
		return -ENOMEM;
	diagnostics->items = items;
	return 0;
}

static int append(struct pg_diagnostics *diagnostics, const struct pg_finding *finding)
{
	const char *message = finding->message ? finding->message : code_messages[finding->code];
	struct pg_diagnostic made = {.code = finding->code, .source = finding->source};

	if (reserve(diagnostics, 1) < 0)
		return -ENOMEM;
	made.pointer = strdup(finding->pointer);
	made.message = strdup(message);
	if (finding->value)
		made.value = pg_text_printable(finding->value, strlen(finding->value),
					       PG_DIAGNOSTIC_VALUE_MAX);
	if (finding->hint && *finding->hint)
		made.hint = strdup(finding->hint);
	if (!made.pointer || !made.message || (finding->value && !made.value) ||
	    (finding->hint && *finding->hint && !made.hint)) {
		diagnostic_clear(&made);
		return -ENOMEM;
	}
	diagnostics->items[diagnostics->count++] = made;
	if (pg_diagnostic_is_error(made.code))
		diagnostics->errors++;
	return 0;
}

int pg_diagnostics_add(struct pg_diagnostics *diagnostics, const struct pg_finding *finding)
{
	if (pg_diagnostic_is_error(finding->code) && diagnostics->errors >= PG_DIAGNOSTICS_MAX) {
		diagnostics->left_out++;
		return 0;
	}
	return append(diagnostics, finding);
}

int pg_diagnostics_finish(struct pg_diagnostics *diagnostics)
{
	char message[96];

	if (diagnostics->left_out == 0)
		return 0;
	snprintf(message, sizeof(message), "%zu further errors are not shown",
		 diagnostics->left_out);
	return append(diagnostics, &(struct pg_finding){.code = PG_DIAG_TOO_MANY_ERRORS,
							.pointer = "",
							.message = message});
}

int pg_diagnostics_move(struct pg_diagnostics *to, struct pg_diagnostics *from)
{
	if (from->count == 0)
		return 0;
	if (reserve(to, from->count) < 0)
		return -ENOMEM;
	memcpy(to->items + to->count, from->items, from->count * sizeof(*from->items));
	to->count += from->count;
	to->errors += from->errors;
	to->left_out += from->left_out;
	free(from->items);
	*from = (struct pg_diagnostics){0};
	return 0;
}
