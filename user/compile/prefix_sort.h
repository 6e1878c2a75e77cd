/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting a million prefixes in a fraction of the time that qsort(3) takes. */
#pragma once

#include <stddef.h>

#include "net/prefix.h"

/*
 * Sorts prefixes of one family in place, in the order of pg_prefix_compare(). The time is linear in
 * count whatever the content: at most one pass for each octet of the key.
 */
void pg_prefix_sort(struct pg_prefix *prefixes, size_t count);
