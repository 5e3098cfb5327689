/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/digest.h"

#include <string.h>

static inline uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static inline void rounds(uint64_t v[4], int n)
{
	while (n-- > 0) {
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
}

static inline uint64_t load_le(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v; /* little-endian machines only, as the rest of the tree */
}

struct digest128 digest_of_key(const struct digest_key *k, const void *key, size_t len)
{
	const uint8_t *p = key;
	uint64_t k0 = load_le(k->bytes), k1 = load_le(k->bytes + 8), m;
	uint64_t v[4] = { UINT64_C(0x736f6d6570736575) ^ k0, UINT64_C(0x646f72616e646f6d) ^ k1,
		UINT64_C(0x6c7967656e657261) ^ k0, UINT64_C(0x7465646279746573) ^ k1 };
	uint8_t last[8] = { 0 };
	struct digest128 out;
	size_t left = len;

	v[1] ^= 0xee;
	for (; left >= 8; left -= 8, p += 8) {
		m = load_le(p);
		v[3] ^= m;
		rounds(v, 2);
		v[0] ^= m;
	}
	if (left > 0)
		memcpy(last, p, left);
	last[7] = (uint8_t)len;
	m = load_le(last);
	v[3] ^= m;
	rounds(v, 2);
	v[0] ^= m;
	v[2] ^= 0xee;
	rounds(v, 4);
	out.lo = v[0] ^ v[1] ^ v[2] ^ v[3];
	v[1] ^= 0xdd;
	rounds(v, 4);
	out.hi = v[0] ^ v[1] ^ v[2] ^ v[3];
	return out;
}
