/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy as the user means it: for each phase a mode and, in allowlist mode, entries in normal
 * form. Made by parsing one or more JSON documents; never changed afterwards. This is the only
 * folder that sees JSON.
 *
 * The exact rules, error codes and hints are the vectors in tests/data/policy/.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <phasegate/abi/mode.h>

#include "base/error.h"
#include "net/prefix.h"
#include "policy/diagnostic.h"

/* Larger than a million entries of the longest usual kind need; bounds memory while parsing. */
#define PG_POLICY_DOCUMENT_MAX (64UL * 1024 * 1024)
/* A document has 3 levels, 4 inside --env-params; more is a mistake or an attack on the parser. */
#define PG_POLICY_DEPTH_MAX    8
/* Entries per phase; the kernel's tables are sized by what is used, this bounds what may be. */
#define PG_POLICY_ENTRIES_MAX  1048576

/* X(symbol, name) */
#define PG_ENTRY_KINDS(X) \
	X(HOST, "host") \
	X(WILDCARD, "wildcard") \
	X(IP4, "ip4") \
	X(IP6, "ip6") \
	X(CIDR4, "cidr4") \
	X(CIDR6, "cidr6")

enum pg_entry_kind {
#define PG_X(symbol, name) PG_ENTRY_##symbol,
	PG_ENTRY_KINDS(PG_X)
#undef PG_X
};

struct pg_entry {
	enum pg_entry_kind kind;
	union {
		char *name; /* HOST, WILDCARD (without "*."): lower case, no final dot */
		struct pg_prefix prefix; /* the other kinds */
	};
};

/* Entries of a phase, in document order, without duplicates. Shared by the phases that inherit. */
struct pg_entries {
	unsigned int references;
	size_t count;
	struct pg_entry *items;
};

/* Where a phase's value came from. */
enum pg_origin {
	PG_ORIGIN_DEFAULT,   /* no document says anything: public */
	PG_ORIGIN_INHERITED, /* absent or null: network_policy's value */
	PG_ORIGIN_DOCUMENT,  /* the field itself */
};

struct pg_phase_policy {
	enum pg_mode mode;
	struct pg_entries *entries; /* NULL unless allowlist */
	enum pg_origin origin;
	/* The document that set it, as index into the sources; meaningful if DOCUMENT. */
	size_t source;
	/* Entries that --allow added. */
	size_t added;
};

struct pg_policy {
	struct pg_phase_policy phases[PG_PHASE_COUNT];
};

enum pg_policy_form {
	PG_POLICY_BARE,	      /* the three fields and nothing else */
	PG_POLICY_ENV_PARAMS, /* the three fields among others, which are left alone */
};

/* One policy document. name is for messages ("policy.json", "-", "--policy"). */
struct pg_policy_source {
	const char *name;
	const char *text; /* need not end with NUL */
	size_t size;
};

/* One --allow PHASE=ENTRY. */
struct pg_policy_addition {
	enum pg_phase phase;
	const char *entry;
};

/*
 * Parses the sources in order; a phase field of a later one replaces the whole field of an earlier
 * one. Inheritance is resolved after that, and the additions come last (each an error unless its
 * phase is an allowlist; adding to a phase leaves the phases that inherited from it alone).
 *
 * Returns 0 and a policy that the caller frees with pg_policy_free(); -EINVAL if a document is at
 * fault, with every fault in diagnostics; -ENOMEM. Warnings are in diagnostics in either case.
 * Diagnostics must be initialised; they are appended to.
 */
int pg_policy_parse(const struct pg_policy_source *sources, size_t source_count,
		    const struct pg_policy_addition *additions, size_t addition_count,
		    enum pg_policy_form form, struct pg_policy **ret_policy,
		    struct pg_diagnostics *diagnostics) PG_MUST_CHECK;

/* Shares the lists of entries. NULL: no memory. */
struct pg_policy *pg_policy_copy(const struct pg_policy *policy) PG_MUST_CHECK;

void pg_policy_free(struct pg_policy *policy);
static inline void pg_policy_freep(struct pg_policy **policy)
{
	pg_policy_free(*policy);
}
#define pg_autopolicy PG_CLEANUP(pg_policy_freep)

/* The normal form ("*.example.com", "203.0.113.0/24") in a fresh string; NULL: no memory. */
char *pg_entry_format(const struct pg_entry *entry) PG_MUST_CHECK;
const char *pg_entry_kind_name(enum pg_entry_kind kind);

/* Names of abi/mode.h; pg_phase_parse returns -EINVAL for anything else. */
const char *pg_mode_name(enum pg_mode mode);
const char *pg_phase_name(enum pg_phase phase);
int pg_phase_parse(const char *name, enum pg_phase *ret_phase) PG_MUST_CHECK;

/* Whether any phase has a HOST or WILDCARD entry other than localhost. */
bool pg_policy_has_names(const struct pg_policy *policy);
bool pg_phase_policy_has_names(const struct pg_phase_policy *phase);
