/* SPDX-License-Identifier: Apache-2.0 */
/* What tests may turn to see in milliseconds what takes half a minute in life. */
#pragma once

#include "names.h"

struct pg_names_tuning {
	uint64_t ttl_floor_ms;
	uint64_t retry_ms;
	unsigned int attempt_ms;
};

int pg_names_new_tuned(const struct pg_names_tuning *tuning, const struct pg_endpoint *servers,
		       size_t server_count, const char *const *names, size_t name_count,
		       pg_names_learned learned, void *userdata, struct pg_names **ret_names,
		       struct pg_error *err) PG_MUST_CHECK;
