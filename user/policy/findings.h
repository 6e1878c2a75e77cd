/* SPDX-License-Identifier: Apache-2.0 */
/* Adding to struct pg_diagnostics. Private to this folder. */
#pragma once

#include <stdbool.h>

#include "diagnostic.h"

/* What is known about a fault at the place that finds it; strings are copied. */
struct pg_finding {
	enum pg_diagnostic_code code;
	size_t source;
	const char *pointer; /* printable already */
	const char *value;   /* as read; NULL: nothing to show */
	const char *hint;    /* NULL or "": none */
	const char *message; /* NULL: the code's own sentence */
};

/* Keeps at most PG_DIAGNOSTICS_MAX errors and counts the others. Returns 0 or -ENOMEM. */
int pg_diagnostics_add(struct pg_diagnostics *diagnostics,
		       const struct pg_finding *finding) PG_MUST_CHECK;

/* Adds the one error that says how many were left out, if any were. */
int pg_diagnostics_finish(struct pg_diagnostics *diagnostics) PG_MUST_CHECK;

/* Moves all of from to the end of to. On -ENOMEM nothing has moved. */
int pg_diagnostics_move(struct pg_diagnostics *to, struct pg_diagnostics *from) PG_MUST_CHECK;
