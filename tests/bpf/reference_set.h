/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a list of prefixes contains, told without sorting or merging: a hash table of the prefixes
 * themselves, asked for each length that there is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/prefix.h"

struct reference_set {
	struct pg_prefix *slots; /* open addressing; .length 255: free */
	size_t mask;
	bool lengths[2][129]; /* of IPv6, of IPv4 */
};

/* false: no memory. */
bool reference_set_make(struct reference_set *ret_set, const struct pg_prefix *prefixes,
			size_t count);
void reference_set_clear(struct reference_set *set);
bool reference_set_contains(const struct reference_set *set, const struct pg_addr *addr);

/* The first and the last address of the prefix. */
struct pg_addr reference_first(const struct pg_prefix *prefix);
struct pg_addr reference_last(const struct pg_prefix *prefix);
/* One further, or one back, around the end of all addresses. */
struct pg_addr reference_beside(struct pg_addr addr, bool further);
