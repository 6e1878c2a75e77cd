/* SPDX-License-Identifier: Apache-2.0 */
#include "generation.h"

#include <errno.h>
#include <inttypes.h>

int pg_check_generation(const struct pg_managed *managed, uint64_t expected, struct pg_reply *reply)
{
	const struct pg_environment *environment = managed->environment;
	const uint64_t generation = pg_environment_generation(environment);
	struct pg_json_writer *json;

	if (expected == PG_ANY_GENERATION || expected == generation)
		return 0;
	json = pg_reply_open_error(reply, PG_API_GENERATION_MISMATCH,
				   pg_environment_name(environment), NULL,
				   "generation %" PRIu64 " is in force, not %" PRIu64, generation,
				   expected);
	if (!json)
		return -EINVAL;
	pg_json_write_string(json, "phase", pg_phase_name(pg_environment_phase(environment)));
	pg_json_write_bool(json, "denied", pg_environment_denied(environment));
	pg_json_write_number(json, "generation", generation);
	pg_reply_close(reply);
	return -EINVAL;
}
