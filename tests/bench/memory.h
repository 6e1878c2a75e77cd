/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of address sets, as the kernel accounts for maps. */
#pragma once

#include <stdint.h>

struct memory_mark {
	uint32_t last_map; /* ids of maps only grow */
};

struct memory_mark memory_mark(void);
/* Octets of the set's tables that came after the mark, by memlock in fdinfo. */
uint64_t memory_of_sets_since(const struct memory_mark *mark);
