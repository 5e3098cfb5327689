/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Seeded pseudo random numbers for the link model: splitmix64 to spread a seed, xoshiro256** to
 * draw (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021). Not for
 * keys. One struct prng belongs to one thread. Only integer arithmetic and one exact division by
 * a power of two are used, so a seed gives the same numbers on every machine.
 */

#include <stdbool.h>
#include <stdint.h>

struct prng {
	uint64_t s[4];
};

/* One step of splitmix64: advances *state and returns the next value. */
static inline uint64_t prng_splitmix(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Streams of one seed are independent: switching one impairment on leaves the others' draws. */
static inline void prng_init(struct prng *p, uint64_t seed, uint64_t stream)
{
	uint64_t x = seed;
	uint64_t y = prng_splitmix(&x) ^ (stream * 0xd1342543de82ef95ULL);

	for (int i = 0; i < 4; i++)
		p->s[i] = prng_splitmix(&y);
}

static inline uint64_t prng_next(struct prng *p)
{
	uint64_t m = p->s[1] * 5;
	uint64_t result = ((m << 7) | (m >> 57)) * 9;
	uint64_t t = p->s[1] << 17;

	p->s[2] ^= p->s[0];
	p->s[3] ^= p->s[1];
	p->s[1] ^= p->s[2];
	p->s[0] ^= p->s[3];
	p->s[2] ^= t;
	p->s[3] = (p->s[3] << 45) | (p->s[3] >> 19);
	return result;
}

/* Uniform in [0, 1) with 53 bits. */
static inline double prng_unit(struct prng *p)
{
	return (double)(prng_next(p) >> 11) * 0x1.0p-53;
}

/* Uniform in [0, n) for n > 0, without modulo bias that matters (n is far below 2^64). */
static inline uint64_t prng_below(struct prng *p, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)prng_next(p) * n) >> 64);
}

static inline bool prng_chance(struct prng *p, double probability)
{
	return prng_unit(p) < probability;
}
