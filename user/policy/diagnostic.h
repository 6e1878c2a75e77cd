/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong or doubtful in a policy document: code, place, value, hint, message. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

/* X(symbol, name): errors, with the codes of the vectors in tests/data/policy/. */
#define PG_POLICY_ERRORS(X) \
	X(JSON_SYNTAX, "json_syntax") \
	X(DOCUMENT_TOO_LARGE, "document_too_large") \
	X(DOCUMENT_TOO_DEEP, "document_too_deep") \
	X(TOO_MANY_ENTRIES, "too_many_entries") \
	X(WRONG_TYPE, "wrong_type") \
	X(UNKNOWN_FIELD, "unknown_field") \
	X(DUPLICATE_FIELD, "duplicate_field") \
	X(MODE_UNKNOWN, "mode_unknown") \
	X(MODE_MISSING, "mode_missing") \
	X(ALLOWLIST_NEEDS_HOSTS, "allowlist_needs_hosts") \
	X(HOSTS_WITHOUT_ALLOWLIST, "hosts_without_allowlist") \
	X(EMPTY_ENTRY, "empty_entry") \
	X(HOSTNAME_SYNTAX, "hostname_syntax") \
	X(URL, "url") \
	X(PATH, "path") \
	X(PORT, "port") \
	X(BRACKETED_IPV6, "bracketed_ipv6") \
	X(ZONE_ID, "zone_id") \
	X(USERINFO, "userinfo") \
	X(CIDR_HOST_BITS, "cidr_host_bits") \
	X(CIDR_PREFIX, "cidr_prefix") \
	X(AMBIGUOUS_IPV4, "ambiguous_ipv4") \
	X(WILDCARD_POSITION, "wildcard_position") \
	X(WILDCARD_ADDRESS, "wildcard_address") \
	X(NOT_ASCII, "not_ascii") \
	X(LABEL_TOO_LONG, "label_too_long") \
	X(NAME_TOO_LONG, "name_too_long") \
	X(ALLOW_NEEDS_ALLOWLIST, "allow_needs_allowlist") \
	X(TOO_MANY_ERRORS, "too_many_errors")

/* X(symbol, name): warnings. */
#define PG_POLICY_WARNINGS(X) \
	X(EMPTY_ALLOWLIST, "empty_allowlist") \
	X(DUPLICATE_ENTRIES, "duplicate_entries") \
	X(ALLOWS_EVERY_ADDRESS, "allows_every_address") \
	X(NO_POLICY_FIELD, "no_policy_field")

/*
 * Errors kept of one parse; a hostile document of a million faults must not use memory without
 * bound. What is over it is counted, and the last error (too_many_errors) says how many.
 */
#define PG_DIAGNOSTICS_MAX 1000

/* Octets of a value or key that are shown; more than the longest name and less than a screen. */
#define PG_DIAGNOSTIC_VALUE_MAX 512

enum pg_diagnostic_code {
#define PG_X(symbol, name) PG_DIAG_##symbol,
	PG_POLICY_ERRORS(PG_X) PG_POLICY_WARNINGS(PG_X)
#undef PG_X
};

struct pg_diagnostic {
	enum pg_diagnostic_code code;
	size_t source; /* index of the document; SIZE_MAX: an --allow option */
	char *pointer; /* JSON pointer (RFC 6901); "" is the whole document */
	char *value;   /* what was read, printable; NULL if there is nothing to show */
	char *hint;    /* what to write instead; NULL if there is no sure suggestion */
	char *message; /* one sentence for people: why it is wrong */
};

struct pg_diagnostics {
	struct pg_diagnostic *items;
	size_t count;
	size_t errors;	 /* how many of them are errors */
	size_t left_out; /* errors found but not kept */
};

const char *pg_diagnostic_code_name(enum pg_diagnostic_code code);
bool pg_diagnostic_is_error(enum pg_diagnostic_code code);
void pg_diagnostics_clear(struct pg_diagnostics *diagnostics);
#define pg_autodiagnostics PG_CLEANUP(pg_diagnostics_clear)
