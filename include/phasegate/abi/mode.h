/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/* Network modes and phases: one list each; the names are those of the policy document. */
#pragma once

#include "types.h"

/* X(symbol, value, name). Value 0 is no mode: memory that was never written allows nothing. */
#define PG_MODES(X) \
	X(NO_NETWORK, 1, "no-network") \
	X(ALLOWLIST, 2, "allowlist") \
	X(PUBLIC, 3, "public")

enum pg_mode {
#define PG_X(symbol, value, name) PG_MODE_##symbol = value,
	PG_MODES(PG_X)
#undef PG_X
};

/* X(symbol, value, name, document field) */
#define PG_PHASES(X) \
	X(SETUP, 0, "setup", "network_policy") \
	X(RUN, 1, "run", "run_network_policy") \
	X(VERIFIER, 2, "verifier", "verifier_network_policy")

enum pg_phase {
#define PG_X(symbol, value, name, field) PG_PHASE_##symbol = value,
	PG_PHASES(PG_X)
#undef PG_X
};

#define PG_PHASE_COUNT 3
