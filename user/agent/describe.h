/* SPDX-License-Identifier: Apache-2.0 */
/* An Environment as the API shows it. */
#pragma once

#include "agent.h"

enum pg_detail {
	PG_DETAIL_LIST,
	PG_DETAIL_WHOLE, /* with its policy, warnings and counters */
};

/* The members of an object. */
void pg_describe(const struct pg_managed *managed, enum pg_detail detail,
		 struct pg_json_writer *json);
void pg_describe_lease(const struct pg_lease *lease, struct pg_json_writer *json);
void pg_describe_survivors(const struct pg_survivors *survivors, struct pg_json_writer *json);
