/* SPDX-License-Identifier: Apache-2.0 */
/* One JSON document -> the phase fields it has. Private to this folder. */
#pragma once

#include "policy.h"

/* A phase field as the last document that has it says. */
struct pg_field {
	bool set;
	enum pg_mode mode;
	struct pg_entries *entries; /* NULL unless allowlist */
	size_t source;
	/* Kept apart until it is known that no later document replaces the field. */
	struct pg_diagnostics warnings;
};

struct pg_fields {
	struct pg_field of[PG_PHASE_COUNT];
	bool seen; /* any of them, in any document, also null */
};

void pg_fields_clear(struct pg_fields *fields);

/* "network_policy" and so on. */
const char *pg_phase_field(enum pg_phase phase);

/*
 * Reads the document into fields; a field that it has, also null, replaces what was there. Faults
 * go to diagnostics. Returns 0, also if there are faults, or -ENOMEM.
 */
int pg_document_parse(const struct pg_policy_source *source, size_t index, enum pg_policy_form form,
		      struct pg_fields *fields, struct pg_diagnostics *diagnostics) PG_MUST_CHECK;
