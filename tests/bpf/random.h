/* SPDX-License-Identifier: Apache-2.0 */
/* SplitMix64: a seed gives the same cases on every machine. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t z = rng->state += 0x9e3779b97f4a7c15U;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
	z = (z ^ z >> 27) * 0x94d049bb133111ebU;
	return z ^ z >> 31;
}

static inline unsigned int rng_below(struct rng *rng, unsigned int bound)
{
	return (unsigned int)(rng_next(rng) % bound);
}

static inline bool rng_one_in(struct rng *rng, unsigned int n)
{
	return rng_below(rng, n) == 0;
}

#define RNG_PICK(rng, array) ((array)[rng_below((rng), sizeof(array) / sizeof((array)[0]))])
