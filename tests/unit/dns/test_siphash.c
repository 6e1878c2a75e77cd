/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "dns/siphash.h"

/* The vectors of the reference implementation: key 00..0f, data 00..n-1. */
Test(siphash, vectors)
{
	static const uint64_t expected[] = {
		0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
		0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
		0x93f5f5799a932462, 0x9e0082df0ba9e4b0,
	};
	const struct pg_siphash_key key = {.word = {0x0706050403020100, 0x0f0e0d0c0b0a0908}};
	uint8_t data[16];

	for (unsigned int i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	for (size_t size = 0; size < PG_ARRAY_SIZE(expected); size++)
		cr_expect_eq(pg_siphash(&key, data, size), expected[size], "%zu octets", size);
	cr_expect_eq(pg_siphash(&key, data, 15), 0xa129ca6149be45e5);
}

Test(siphash, keys_differ)
{
	struct pg_siphash_key a, b;

	cr_assert_eq(pg_siphash_key_make(&a), 0);
	cr_assert_eq(pg_siphash_key_make(&b), 0);
	cr_expect_neq(pg_siphash(&a, "x", 1), pg_siphash(&b, "x", 1));
}
