/* SPDX-License-Identifier: Apache-2.0 */
#include "siphash.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

static uint64_t rotate(uint64_t value, unsigned int bits)
{
	return value << bits | value >> (64 - bits);
}

static void round_once(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

static void mix(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	round_once(v);
	round_once(v);
	v[0] ^= word;
}

int pg_siphash_key_make(struct pg_siphash_key *ret_key)
{
	struct pg_siphash_key key;

	/* So few octets come whole once the kernel's generator is ready (getrandom(2)). */
	if (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key))
		return -EIO;
	*ret_key = key;
	return 0;
}

uint64_t pg_siphash(const struct pg_siphash_key *key, const void *data, size_t size)
{
	uint64_t v[4] = {
		key->word[0] ^ 0x736f6d6570736575ULL,
		key->word[1] ^ 0x646f72616e646f6dULL,
		key->word[0] ^ 0x6c7967656e657261ULL,
		key->word[1] ^ 0x7465646279746573ULL,
	};
	const uint8_t *octets = data;
	uint64_t word, last = 0;
	size_t at = 0;

	for (; at + sizeof(word) <= size; at += sizeof(word)) {
		memcpy(&word, octets + at, sizeof(word));
		mix(v, le64toh(word));
	}
	for (size_t i = at; i < size; i++)
		last |= (uint64_t)octets[i] << 8 * (i - at);
	mix(v, last | (uint64_t)size << 56);
	v[2] ^= 0xff;
	for (unsigned int i = 0; i < 4; i++)
		round_once(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
