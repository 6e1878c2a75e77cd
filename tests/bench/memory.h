/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of address sets, as the kernel accounts for maps. */
#pragma once

#include <stdint.h>

#include "environment/environment.h"

/* Octets of the tables of all phases, by memlock in fdinfo. */
uint64_t memory_of_sets(const struct pg_host *host, const struct pg_environment *environment);
