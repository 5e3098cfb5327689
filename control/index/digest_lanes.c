/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/digest.h"

#include <string.h>

/*
 * SipHash is a chain: each step waits for the one before it, and a core that hashes one key is
 * idle most of the time. So keys of one length are hashed eight at a time, each in a lane of its
 * own; caches' keys have one length, being hashes themselves. Others go one by one.
 */
enum { LANES = 8 };

#if defined(__x86_64__)

typedef uint64_t lanes_t __attribute__((vector_size(LANES * sizeof(uint64_t))));

#define ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))
#define ROUND(a, b, c, d)                                                                          \
	do {                                                                                       \
		(a) += (b);                                                                        \
		(b) = ROTATE(b, 13) ^ (a);                                                         \
		(a) = ROTATE(a, 32);                                                               \
		(c) += (d);                                                                        \
		(d) = ROTATE(d, 16) ^ (c);                                                         \
		(a) += (d);                                                                        \
		(d) = ROTATE(d, 21) ^ (a);                                                         \
		(c) += (b);                                                                        \
		(b) = ROTATE(b, 17) ^ (c);                                                         \
		(c) = ROTATE(c, 32);                                                               \
	} while (0)

static inline uint64_t load_le(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The bytes after the last whole word, and the length. */
static inline uint64_t load_last(const uint8_t *p, size_t len)
{
	size_t left = len % 8;
	uint64_t v = (uint64_t)len << 56;

	if (left > 0 && len >= 8)
		return v | load_le(p + len - 8) >> (64 - 8 * left);
	for (size_t i = 0; i < left; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

#define WORD(i)   load_le((const uint8_t *)keys[i].data + at)
#define LAST(i)   load_last(keys[i].data, keys[i].len)
#define EIGHT(of) ((lanes_t){ of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7) })
#define BLOCK(words)                                                                               \
	do {                                                                                       \
		m = (words);                                                                       \
		d ^= m;                                                                            \
		ROUND(a, b, c, d);                                                                 \
		ROUND(a, b, c, d);                                                                 \
		a ^= m;                                                                            \
	} while (0)
#define FINISH(part)                                                                               \
	do {                                                                                       \
		ROUND(a, b, c, d);                                                                 \
		ROUND(a, b, c, d);                                                                 \
		ROUND(a, b, c, d);                                                                 \
		ROUND(a, b, c, d);                                                                 \
		m = a ^ b ^ c ^ d;                                                                 \
		for (int i = 0; i < LANES; i++)                                                    \
			out[i].part = m[i];                                                        \
	} while (0)

/*
 * The steps of digest_of_key(), eight abreast. A macro, because vectors of an inline function are
 * taken apart for the plainest processor before it is inlined.
 */
#define HASH(name, features)                                                                       \
	__attribute__((target(features))) static void name(const struct digest_key *k,             \
		const struct digest_text *keys, struct digest128 *out)                             \
	{                                                                                          \
		const lanes_t zero = { 0 };                                                        \
		uint64_t k0 = load_le(k->bytes), k1 = load_le(k->bytes + 8);                       \
		lanes_t a = zero + (UINT64_C(0x736f6d6570736575) ^ k0);                            \
		lanes_t b = zero + (UINT64_C(0x646f72616e646f6d) ^ k1 ^ 0xee);                     \
		lanes_t c = zero + (UINT64_C(0x6c7967656e657261) ^ k0);                            \
		lanes_t d = zero + (UINT64_C(0x7465646279746573) ^ k1);                            \
		lanes_t m;                                                                         \
                                                                                                   \
		for (size_t at = 0; at + 8 <= keys[0].len; at += 8)                                \
			BLOCK(EIGHT(WORD));                                                        \
		BLOCK(EIGHT(LAST));                                                                \
		c ^= zero + 0xee;                                                                  \
		FINISH(lo);                                                                        \
		b ^= zero + 0xdd;                                                                  \
		FINISH(hi);                                                                        \
	}

HASH(hash_512, "avx512f,avx512vl,avx512dq")
HASH(hash_256, "avx2")

static bool is_of_one_length(const struct digest_text *keys)
{
	size_t other = 0;

	for (int i = 1; i < LANES; i++)
		other |= keys[i].len ^ keys[0].len;
	return other == 0;
}

void digest_of_keys(const struct digest_key *k, const struct digest_text *keys, size_t n,
	struct digest128 *out)
{
	bool avx2 = __builtin_cpu_supports("avx2");
	bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
		__builtin_cpu_supports("avx512dq");
	size_t i = 0;

	while (i < n) {
		if (n - i >= LANES && (wide || avx2) && is_of_one_length(keys + i)) {
			if (wide)
				hash_512(k, keys + i, out + i);
			else
				hash_256(k, keys + i, out + i);
			i += LANES;
		} else {
			out[i] = digest_of_key(k, keys[i].data, keys[i].len);
			i++;
		}
	}
}

#else

void digest_of_keys(const struct digest_key *k, const struct digest_text *keys, size_t n,
	struct digest128 *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = digest_of_key(k, keys[i].data, keys[i].len);
}

#endif
