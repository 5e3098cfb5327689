/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/fec/fold.h"

#include "dataplane/fec/digest.h"
#include "dataplane/fec/gf.h"

#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define POLY 0x42F0E1EBA9EA3693ULL

enum { STEP = 64, LANE = 16, LANES = STEP / LANE };

/* v / x mod P: P has a constant term, so x has an inverse. */
static uint64_t divide_by_x(uint64_t v)
{
	return v & 1 ? (v ^ POLY) >> 1 | UINT64_C(1) << 63 : v >> 1;
}

/*
 * By lane, a pair of factors for the lower and the upper half of what it holds: the lane is
 * followed by the lanes after it and by `bytes`.
 */
static void make_factors(uint64_t base, uint64_t bytes, uint64_t out[8])
{
	for (uint64_t i = 0; i < LANES; i++) {
		uint64_t after = bytes + LANE * (LANES - 1 - i);

		out[2 * i] = digest_shift(base, after);
		out[2 * i + 1] = digest_shift(base, after + 8);
	}
}

void fold_init(struct fold *f, size_t len)
{
	uint64_t back = 1; /* x^-8 by bytes that the last step adds to a symbol */

	for (size_t i = 0; i < 8 * ((STEP - len % STEP) % STEP); i++)
		back = divide_by_x(back);
	f->len = len;
	for (uint32_t i = 0; i < LANES; i++) {
		f->step[2 * i] = digest_shift(1, STEP);
		f->step[2 * i + 1] = digest_shift(1, STEP + 8);
	}
	/* A CRC of 64 bits is the message times x^64. */
	for (uint64_t d = 0; d < STRAIT_BLOCK_SYMBOLS_MAX; d++)
		make_factors(back, 8 + d * len, f->shift[d]);
}

uint64_t fold_digest(const struct fold_digest *d)
{
	uint64_t low = 0, high = 0;

	for (uint32_t i = 0; i < LANES; i++) {
		low ^= d->lane[2 * i];
		high ^= d->lane[2 * i + 1];
	}
	return digest_shift(high, 8) ^ low;
}

#ifdef __x86_64__

#define WIDE   __attribute__((target("avx512f,avx512bw,gfni,vpclmulqdq")))
#define UNROLL _Pragma("GCC unroll 4")

struct pass {
	const struct fold *f;
	const uint8_t *const *src;
	uint8_t *const *dst;
	uint64_t matrix[FOLD_TOGETHER * FOLD_ROWS_MAX];
	uint32_t after[FOLD_TOGETHER]; /* symbols of the block that follow */
	bool add;
};

bool fold_is_wide(void)
{
	return gf_is_wide() && __builtin_cpu_supports("vpclmulqdq");
}

WIDE static inline __attribute__((always_inline)) __m512i times(__m512i a, __m512i factors,
	__m512i add)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, factors, 0x00),
		_mm512_clmulepi64_epi128(a, factors, 0x11), add, 0x96);
}

/* 64 bytes, or the last `some` of them, of every symbol. */
WIDE static inline __attribute__((always_inline)) void step(const struct pass *p, uint32_t rows,
	uint32_t n, size_t at, bool whole, __mmask64 some, __m512i factors, __m512i *crc)
{
	const __m512i swap = _mm512_broadcast_i32x4(
		_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
	__m512i sum[FOLD_ROWS_MAX];

	UNROLL for (uint32_t r = 0; r < rows; r++) sum[r] =
		p->add ? _mm512_maskz_loadu_epi8(some, p->dst[r] + at) : _mm512_setzero_si512();
	UNROLL for (uint32_t j = 0; j < n; j++)
	{
		__m512i a = whole ? _mm512_loadu_si512(p->src[j] + at)
				  : _mm512_maskz_loadu_epi8(some, p->src[j] + at);

		UNROLL for (uint32_t r = 0; r < rows; r++) sum[r] = _mm512_xor_si512(sum[r],
			_mm512_gf2p8affine_epi64_epi8(a,
				_mm512_set1_epi64((long long)p->matrix[j * rows + r]), 0));
		crc[j] = times(crc[j], factors, _mm512_shuffle_epi8(a, swap));
	}
	UNROLL for (uint32_t r = 0; r < rows; r++)
		_mm512_mask_storeu_epi8(p->dst[r] + at, some, sum[r]);
}

/* rows and n are constants in every copy of this, so that sums live in registers. */
WIDE static inline __attribute__((always_inline)) void run(const struct pass *p, uint32_t rows,
	uint32_t n, struct fold_digest *d)
{
	const __m512i factors = _mm512_load_si512(p->f->step);
	__m512i crc[FOLD_TOGETHER], sum = _mm512_load_si512(d->lane);
	size_t len = p->f->len, at = 0;

	UNROLL for (uint32_t j = 0; j < n; j++) crc[j] = _mm512_setzero_si512();
	for (; at + STEP <= len; at += STEP)
		step(p, rows, n, at, true, ~UINT64_C(0), factors, crc);
	if (at < len)
		step(p, rows, n, at, false, (UINT64_C(1) << (len - at)) - 1, factors, crc);
	UNROLL for (uint32_t j = 0; j < n; j++) sum =
		times(crc[j], _mm512_load_si512(p->f->shift[p->after[j]]), sum);
	_mm512_store_si512(d->lane, sum);
}

WIDE static inline __attribute__((always_inline)) void run_rows(const struct pass *p, uint32_t rows,
	uint32_t n, struct fold_digest *d)
{
	switch (rows) {
	case 0:
		run(p, 0, n, d);
		break;
	case 1:
		run(p, 1, n, d);
		break;
	case 2:
		run(p, 2, n, d);
		break;
	case 3:
		run(p, 3, n, d);
		break;
	default:
		run(p, FOLD_ROWS_MAX, n, d);
	}
}

WIDE void fold_add(const struct fold *f, uint32_t k, uint32_t n, const uint8_t *column,
	const uint8_t *const *src, uint32_t rows, uint8_t *const *dst, bool fresh,
	struct fold_digest *d)
{
	const uint8_t *inverses = gf_inverses();
	const uint64_t *matrices = gf_matrices();
	const uint32_t most = n == FOLD_TOGETHER ? n : 1;

	for (uint32_t i = 0; i < n; i += most) {
		struct pass p = { .f = f, .src = src + i, .dst = dst, .add = !fresh || i > 0 };

		for (uint32_t j = 0; j < most; j++) {
			uint8_t c = column[i + j];

			p.after[j] = k - 1 - c;
			for (uint32_t r = 0; r < rows; r++)
				p.matrix[j * rows + r] = matrices[inverses[(uint8_t)((k + r) ^ c)]];
		}
		if (most == 1)
			run_rows(&p, rows, 1, d);
		else
			run_rows(&p, rows, FOLD_TOGETHER, d);
	}
}

#else

bool fold_is_wide(void)
{
	return false;
}

void fold_add(const struct fold *f, uint32_t k, uint32_t n, const uint8_t *column,
	const uint8_t *const *src, uint32_t rows, uint8_t *const *dst, bool fresh,
	struct fold_digest *d)
{
	for (uint32_t j = 0; j < n; j++) {
		d->lane[0] ^= digest_shift(digest_bytes(src[j], f->len),
			(uint64_t)f->len * (k - 1 - column[j]));
		for (uint32_t r = 0; r < rows; r++) {
			uint8_t c = gf_inverses()[(uint8_t)((k + r) ^ column[j])];

			gf_sum(1, 1, f->len, &c, src + j, dst + r, !fresh || j > 0);
		}
	}
}

#endif
