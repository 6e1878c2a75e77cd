/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (phase) -> the addresses it allows: sorted, without duplicates and without ranges that another
 * range covers. Pure: no I/O, no global state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "net/prefix.h"
#include "policy/policy.h"

/*
 * A sorted array of disjoint ranges for each family. Two halves of a wider range are merged into
 * it, also two exact addresses, so that the same set of addresses always compiles to the same
 * arrays.
 */
struct pg_address_set {
	struct pg_prefix *v4, *v6;
	size_t v4_count, v6_count;
};

/*
 * Compiles the address entries of the phase; names are left out, but for localhost, which means
 * 127.0.0.1 and ::1 by definition (RFC 6761, 6.3). -ENOMEM leaves *ret_set untouched. An IPv6 range
 * that holds IPv4-mapped addresses does not allow IPv4 destinations.
 */
int pg_compile_phase(const struct pg_phase_policy *phase, struct pg_address_set *ret_set,
		     struct pg_error *err) PG_MUST_CHECK;

/* The same from plain prefixes, which are left as they are. */
int pg_compile_prefixes(const struct pg_prefix *prefixes, size_t count,
			struct pg_address_set *ret_set, struct pg_error *err) PG_MUST_CHECK;

bool pg_address_set_contains(const struct pg_address_set *set, const struct pg_addr *addr);
bool pg_address_set_is_empty(const struct pg_address_set *set);
bool pg_address_set_equal(const struct pg_address_set *a, const struct pg_address_set *b);
void pg_address_set_clear(struct pg_address_set *set);

/*
 * Finds an address (of either family) that the set does not hold; for the self-probe. Returns
 * false if it holds every one of the few that are tried (documentation ranges of RFC 5737 and
 * RFC 3849 first).
 */
bool pg_address_set_find_outside(const struct pg_address_set *set, struct pg_addr *ret_addr);
