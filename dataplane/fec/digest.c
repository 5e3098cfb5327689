/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/fec/digest.h"

#include <isa-l/crc64.h>

#include <pthread.h>
#include <stdbool.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* x^64 + POLY; bit 63 is x^63, since the CRC takes the most significant bit first. */
#define POLY 0x42F0E1EBA9EA3693ULL

static pthread_once_t tables_once = PTHREAD_ONCE_INIT;
static uint64_t power[16][16]; /* [i][d] = x^(8 * d * 16^i) mod P */
static uint64_t barrett;       /* low 64 bits of floor(x^128 / P); bit 64 is 1 */
static bool has_clmul;

uint64_t digest_bytes(const void *data, size_t len)
{
	/* ISA-L inverts the register before and after; init 0 and no final xor undo both. */
	return ~crc64_ecma_norm(~0ULL, data, len);
}

static uint64_t multiply_plain(uint64_t a, uint64_t b)
{
	uint64_t product = 0;

	for (int i = 63; i >= 0; i--) {
		product = (product << 1) ^ (POLY & -(product >> 63));
		product ^= a & -((b >> i) & 1);
	}
	return product;
}

#ifdef __x86_64__
/*
 * Barrett reduction: quotient = high + floor(high * barrett / x^64), remainder = low + quotient *
 * POLY.
 */
__attribute__((target("pclmul,sse4.1"))) static uint64_t multiply_clmul(uint64_t a, uint64_t b)
{
	__m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a),
		_mm_cvtsi64_si128((long long)b), 0);
	__m128i constants = _mm_set_epi64x((long long)POLY, (long long)barrett);
	__m128i quotient = _mm_xor_si128(product, _mm_clmulepi64_si128(product, constants, 0x01));
	__m128i multiple = _mm_clmulepi64_si128(quotient, constants, 0x11);

	return (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(product, multiple));
}
#else
static uint64_t multiply_clmul(uint64_t a, uint64_t b)
{
	return multiply_plain(a, b);
}
#endif

static void make_tables(void)
{
	uint64_t base = 1 << 8;    /* x^8 */
	uint64_t remainder = POLY; /* of x^64 */

	for (int i = 0; i < 16; i++) {
		power[i][0] = 1;
		for (int d = 1; d < 16; d++)
			power[i][d] = multiply_plain(power[i][d - 1], base);
		base = multiply_plain(power[i][15], base);
	}
	for (int i = 63; i >= 0; i--) {
		barrett |= (remainder >> 63) << i;
		remainder = (remainder << 1) ^ (POLY & -(remainder >> 63));
	}
#ifdef __x86_64__
	has_clmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

uint64_t digest_shift(uint64_t digest, uint64_t zeros)
{
	pthread_once(&tables_once, make_tables);
	for (int i = 0; zeros != 0 && digest != 0; i++, zeros >>= 4) {
		if ((zeros & 15) == 0)
			continue;
		digest = has_clmul ? multiply_clmul(digest, power[i][zeros & 15])
				   : multiply_plain(digest, power[i][zeros & 15]);
	}
	return digest;
}
