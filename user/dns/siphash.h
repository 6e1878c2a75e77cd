/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4 (Aumasson, Bernstein 2012): a keyed hash for tables whose keys an enemy chooses.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct pg_siphash_key {
	uint64_t word[2];
};

/* A random key. */
int pg_siphash_key_make(struct pg_siphash_key *ret_key) PG_MUST_CHECK;

uint64_t pg_siphash(const struct pg_siphash_key *key, const void *data, size_t size);
