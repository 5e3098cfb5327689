/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/fec/gf.h"

#include <isa-l/erasure_code.h>

#include <pthread.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

static pthread_once_t tables_once = PTHREAD_ONCE_INIT;
static uint64_t matrix[256]; /* multiplication by a constant, as GF2P8AFFINEQB takes it */
static uint8_t inverse[256];
static bool has_gfni;

/* Row i of the 8 x 8 bit matrix, in byte 7 - i, says which input bits make output bit i. */
static uint64_t make_matrix(uint8_t c)
{
	uint64_t m = 0;

	for (int i = 0; i < 8; i++) {
		uint64_t row = 0;

		for (int j = 0; j < 8; j++)
			row |= (uint64_t)(gf_mul(c, (uint8_t)(1 << j)) >> i & 1) << j;
		m |= row << (8 * (7 - i));
	}
	return m;
}

static void make_tables(void)
{
	for (int c = 0; c < 256; c++) {
		matrix[c] = make_matrix((uint8_t)c);
		inverse[c] = gf_inv((unsigned char)c);
	}
#ifdef __x86_64__
	has_gfni = __builtin_cpu_supports("gfni") && __builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512bw");
#endif
}

const uint64_t *gf_matrices(void)
{
	pthread_once(&tables_once, make_tables);
	return matrix;
}

const uint8_t *gf_inverses(void)
{
	pthread_once(&tables_once, make_tables);
	return inverse;
}

void gf_fetch(const uint8_t *const *src, uint32_t n, size_t len)
{
	for (uint32_t j = 0; j < n; j++)
		for (size_t at = 0; at < len; at += 64)
			(void)*(const volatile uint8_t *)(src[j] + at);
}

bool gf_is_wide(void)
{
	pthread_once(&tables_once, make_tables);
	return has_gfni;
}

#ifdef __x86_64__

#define GFNI   __attribute__((target("avx512f,avx512bw,gfni")))
#define UNROLL _Pragma("GCC unroll 8")
#define XOR3   0x96 /* truth table of a ^ b ^ c */

/* rows is a constant in every copy of this, so that the sums live in registers. */
GFNI static inline __attribute__((always_inline)) void sum(uint32_t rows, uint32_t n, size_t len,
	const uint64_t *m, const uint8_t *const *src, uint8_t *const *dst, bool add)
{
	__m512i low[8], high[8];
	size_t at = 0;

	for (; at + 128 <= len; at += 128) {
		UNROLL for (uint32_t r = 0; r < rows; r++)
		{
			low[r] = add ? _mm512_loadu_si512(dst[r] + at) : _mm512_setzero_si512();
			high[r] =
				add ? _mm512_loadu_si512(dst[r] + at + 64) : _mm512_setzero_si512();
		}
		/* Two sources at a time: one operation adds both products to a sum. */
		for (uint32_t j = 0; j + 1 < n; j += 2) {
			__m512i a = _mm512_loadu_si512(src[j] + at);
			__m512i b = _mm512_loadu_si512(src[j] + at + 64);
			__m512i e = _mm512_loadu_si512(src[j + 1] + at);
			__m512i f = _mm512_loadu_si512(src[j + 1] + at + 64);

			UNROLL for (uint32_t r = 0; r < rows; r++)
			{
				__m512i c = _mm512_set1_epi64((long long)m[j * rows + r]);
				__m512i d = _mm512_set1_epi64((long long)m[(j + 1) * rows + r]);

				low[r] = _mm512_ternarylogic_epi64(low[r],
					_mm512_gf2p8affine_epi64_epi8(a, c, 0),
					_mm512_gf2p8affine_epi64_epi8(e, d, 0), XOR3);
				high[r] = _mm512_ternarylogic_epi64(high[r],
					_mm512_gf2p8affine_epi64_epi8(b, c, 0),
					_mm512_gf2p8affine_epi64_epi8(f, d, 0), XOR3);
			}
		}
		for (uint32_t j = n & ~1u; j < n; j++) {
			__m512i a = _mm512_loadu_si512(src[j] + at);
			__m512i b = _mm512_loadu_si512(src[j] + at + 64);

			UNROLL for (uint32_t r = 0; r < rows; r++)
			{
				__m512i c = _mm512_set1_epi64((long long)m[j * rows + r]);

				low[r] = _mm512_xor_si512(low[r],
					_mm512_gf2p8affine_epi64_epi8(a, c, 0));
				high[r] = _mm512_xor_si512(high[r],
					_mm512_gf2p8affine_epi64_epi8(b, c, 0));
			}
		}
		UNROLL for (uint32_t r = 0; r < rows; r++)
		{
			_mm512_storeu_si512(dst[r] + at, low[r]);
			_mm512_storeu_si512(dst[r] + at + 64, high[r]);
		}
	}
	for (; at < len; at += 64) {
		__mmask64 some = len - at >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << (len - at)) - 1;

		UNROLL for (uint32_t r = 0; r < rows; r++) low[r] =
			add ? _mm512_maskz_loadu_epi8(some, dst[r] + at) : _mm512_setzero_si512();
		for (uint32_t j = 0; j < n; j++) {
			__m512i a = _mm512_maskz_loadu_epi8(some, src[j] + at);

			UNROLL for (uint32_t r = 0; r < rows; r++) low[r] = _mm512_xor_si512(low[r],
				_mm512_gf2p8affine_epi64_epi8(a,
					_mm512_set1_epi64((long long)m[j * rows + r]), 0));
		}
		UNROLL for (uint32_t r = 0; r < rows; r++)
			_mm512_mask_storeu_epi8(dst[r] + at, some, low[r]);
	}
}

GFNI static void sum_gfni(uint32_t rows, uint32_t n, size_t len, const uint8_t *coefficient,
	const uint8_t *const *src, uint8_t *const *dst, bool add)
{
	uint64_t m[8 * GF_SOURCES_MAX];

	for (uint32_t first = 0; first < rows; first += 8) {
		uint32_t some = rows - first < 8 ? rows - first : 8;

		for (uint32_t j = 0; j < n; j++)
			for (uint32_t r = 0; r < some; r++)
				m[j * some + r] = matrix[coefficient[j * rows + first + r]];
		switch (some) {
		case 1:
			sum(1, n, len, m, src, dst + first, add);
			break;
		case 2:
			sum(2, n, len, m, src, dst + first, add);
			break;
		case 3:
			sum(3, n, len, m, src, dst + first, add);
			break;
		case 4:
			sum(4, n, len, m, src, dst + first, add);
			break;
		case 5:
			sum(5, n, len, m, src, dst + first, add);
			break;
		case 6:
			sum(6, n, len, m, src, dst + first, add);
			break;
		case 7:
			sum(7, n, len, m, src, dst + first, add);
			break;
		default:
			sum(8, n, len, m, src, dst + first, add);
		}
	}
}

void gf_sum(uint32_t rows, uint32_t n, size_t len, const uint8_t *coefficient,
	const uint8_t *const *src, uint8_t *const *dst, bool add)
{
	sum_gfni(rows, n, len, coefficient, src, dst, add);
}

#else

void gf_sum(uint32_t rows, uint32_t n, size_t len, const uint8_t *coefficient,
	const uint8_t *const *src, uint8_t *const *dst, bool add)
{
	for (size_t at = 0; at < len; at++)
		for (uint32_t r = 0; r < rows; r++) {
			uint8_t v = add ? dst[r][at] : 0;

			for (uint32_t j = 0; j < n; j++)
				v ^= gf_mul(coefficient[j * rows + r], src[j][at]);
			dst[r][at] = v;
		}
}

#endif
