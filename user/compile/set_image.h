/* SPDX-License-Identifier: Apache-2.0 */
/* (address set) -> the nodes that the kernel looks it up in, as phasegate/abi/set.h has them. Pure.
 */
#pragma once

#include <phasegate/abi/set.h>

#include "address_set.h"

/*
 * How the nodes of a set are laid out: root, then for each family its levels and its hints. It
 * points into the set.
 */
struct pg_set_image {
	const struct pg_address_set *set;
	struct pg_set_root root;
	uint32_t bounds[PG_TABLE_COUNT]; /* of each family */
	uint32_t nodes;			 /* in all; 0: the set is empty */
	uint8_t tables;			 /* bit per enum pg_table that has addresses */
	uint64_t digest;		 /* equal for sets that have the same addresses; not 0 */
};

/* -E2BIG: more ranges than the tree has levels for. */
int pg_set_image_plan(const struct pg_address_set *set, struct pg_set_image *ret_image,
		      struct pg_error *err) PG_MUST_CHECK;

/* Writes all of image->nodes, which are zero before. */
void pg_set_image_write(const struct pg_set_image *image, struct pg_set_node *nodes);

/* Whether the nodes are of a set that has the same addresses. */
bool pg_set_image_is(const struct pg_set_image *image, const struct pg_set_node *nodes,
		     size_t count);

/* Looks the address up as bpf/set.bpf.h does, but for the hints; count: of the nodes that there
 * are. -EPROTO: they are not as they should be. */
int pg_set_nodes_contain(const struct pg_set_node *nodes, size_t count, const struct pg_addr *addr,
			 bool *ret_contained) PG_MUST_CHECK;
