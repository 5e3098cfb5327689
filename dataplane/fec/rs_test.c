/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/fec/rs.h"

#include "tools/link/prng.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LEN_MAX = 1500, SYMBOLS = STRAIT_ESI_COUNT };

/* Plain GF(2^8) with polynomial 0x11d by logarithms, to check against. */
static uint8_t gf_log[256], gf_exp[512];

static struct rs rs;
static uint8_t source[STRAIT_BLOCK_SYMBOLS_MAX][LEN_MAX], repair[SYMBOLS][LEN_MAX];
static uint8_t work[SYMBOLS][LEN_MAX];

static int setup(void **state)
{
	unsigned x = 1;
	struct prng r;

	(void)state;
	for (unsigned i = 0; i < 255; i++) {
		gf_exp[i] = gf_exp[i + 255] = (uint8_t)x;
		gf_log[x] = (uint8_t)i;
		x <<= 1;
		if (x & 0x100)
			x ^= 0x11d;
	}
	prng_init(&r, 1, 0);
	for (size_t i = 0; i < STRAIT_BLOCK_SYMBOLS_MAX; i++)
		for (size_t b = 0; b < LEN_MAX; b++)
			source[i][b] = (uint8_t)prng_next(&r);
	rs_init(&rs);
	return 0;
}

static uint8_t plain_mul(uint8_t a, uint8_t b)
{
	return a == 0 || b == 0 ? 0 : gf_exp[gf_log[a] + gf_log[b]];
}

static uint8_t plain_inverse(uint8_t a)
{
	return gf_exp[255 - gf_log[a]];
}

static void plain_row(uint32_t k, uint32_t row, size_t len, uint8_t *out)
{
	memset(out, 0, len);
	for (uint32_t j = 0; j < k; j++) {
		uint8_t c = plain_inverse((uint8_t)((k + row) ^ j));

		for (size_t b = 0; b < len; b++)
			out[b] ^= plain_mul(c, source[j][b]);
	}
}

static int encode(uint32_t k, uint32_t first, uint32_t rows, size_t len)
{
	const uint8_t *src[STRAIT_BLOCK_SYMBOLS_MAX];
	uint8_t *dst[SYMBOLS];

	for (uint32_t j = 0; j < k && j < STRAIT_BLOCK_SYMBOLS_MAX; j++)
		src[j] = source[j];
	for (uint32_t i = 0; i < rows && i < SYMBOLS; i++)
		dst[i] = repair[first + i];
	return rs_encode(&rs, k, first, rows, len, src, dst);
}

/* Loses the symbols `lost` says and decodes with these rows, which must be encoded in repair[]. */
static int decode(uint32_t k, size_t len, const uint64_t lost[2], const uint8_t *esi, uint32_t n)
{
	uint64_t present[2] = { ~lost[0], ~lost[1] };
	uint8_t *src[STRAIT_BLOCK_SYMBOLS_MAX], *rows[SYMBOLS];

	for (uint32_t j = 0; j < k; j++) {
		src[j] = work[j];
		if (lost[j / 64] >> (j % 64) & 1)
			memset(work[j], 0xee, len);
		else
			memcpy(work[j], source[j], len);
	}
	for (uint32_t i = 0; i < n; i++) {
		rows[i] = work[k + i];
		if (esi[i] >= k && esi[i] < SYMBOLS)
			memcpy(rows[i], repair[esi[i] - k], len);
	}
	return rs_decode(&rs, k, len, src, present, esi, rows, n);
}

static void assert_whole(uint32_t k, size_t len)
{
	for (uint32_t j = 0; j < k; j++)
		assert_memory_equal(work[j], source[j], len);
}

static void coefficients_are_cauchy(void **state)
{
	(void)state;
	for (uint32_t esi = 1; esi < SYMBOLS; esi++)
		for (uint32_t j = 0; j < esi && j < STRAIT_BLOCK_SYMBOLS_MAX; j++)
			assert_int_equal(plain_mul(rs_coefficient(esi, j), (uint8_t)(esi ^ j)), 1);
}

static void encode_agrees_with_plain_arithmetic(void **state)
{
	static const uint32_t ks[] = { 1, 2, 3, 7, 16, 31, 64, 127, 128 };
	static const size_t lens[] = { 64, 65, 79, 127, 512, 1432, 1499 };
	static uint8_t want[LEN_MAX];

	(void)state;
	for (size_t i = 0; i < 9; i++) {
		for (size_t l = 0; l < 7; l++) {
			uint32_t rows = 1 + (uint32_t)(i * 5 + l) % 20;

			assert_int_equal(encode(ks[i], 0, rows, lens[l]), 0);
			for (uint32_t r = 0; r < rows; r++) {
				plain_row(ks[i], r, lens[l], want);
				assert_memory_equal(repair[r], want, lens[l]);
			}
		}
	}
}

static void rows_are_rate_compatible(void **state)
{
	static uint8_t whole[SYMBOLS][LEN_MAX];

	(void)state;
	for (uint32_t k = 1; k <= 128; k += k < 120 ? 17 : 1) {
		assert_int_equal(encode(k, 0, 10, 200), 0);
		memcpy(whole, repair, sizeof(whole));
		memset(repair, 0, sizeof(repair));
		assert_int_equal(encode(k, 0, 4, 200), 0);
		assert_int_equal(encode(k, 4, 6, 200), 0);
		for (uint32_t r = 0; r < 10; r++)
			assert_memory_equal(repair[r], whole[r], 200);
	}
}

static void every_row_of_the_largest_block_can_be_made(void **state)
{
	static uint8_t want[LEN_MAX];

	(void)state;
	assert_int_equal(encode(128, 0, 127, 96), 0);
	for (uint32_t r = 0; r < 127; r += 9) {
		plain_row(128, r, 96, want);
		assert_memory_equal(repair[r], want, 96);
	}
	plain_row(128, 126, 96, want);
	assert_memory_equal(repair[126], want, 96);
}

static void updates_in_any_order_and_number_make_the_same_rows(void **state)
{
	const uint8_t *src[STRAIT_BLOCK_SYMBOLS_MAX];
	uint8_t *dst[RS_BATCH_ROWS];

	(void)state;
	for (uint32_t k = 1; k <= 128; k = k * 2 + 1) {
		uint32_t rows = k % RS_BATCH_ROWS + 1;

		assert_int_equal(encode(k, 3, rows, 300), 0);
		for (uint32_t i = 0; i < k; i++)
			src[i] = source[i];
		for (uint32_t i = 0; i < rows; i++) {
			dst[i] = work[i];
			memset(work[i], 0xee, 300);
		}
		/* From the end, 1 to 19 at a time; the first of them begins the rows. */
		for (uint32_t j = k, n; j > 0; j -= n) {
			n = 1 + j * 7 % 19 < j ? 1 + j * 7 % 19 : j;
			assert_int_equal(rs_encode_update(&rs, k, 3, rows, 300, j - n, n,
						 src + j - n, dst, j == k),
				0);
		}
		for (uint32_t i = 0; i < rows; i++)
			assert_memory_equal(work[i], repair[3 + i], 300);
	}
	assert_int_equal(rs_encode_update(&rs, 4, 0, 1, 300, 4, 1, src, dst, true), -EINVAL);
	assert_int_equal(rs_encode_update(&rs, 4, 0, 1, 300, 3, 2, src, dst, true), -EINVAL);
	assert_int_equal(rs_encode_update(&rs, 4, 0, 17, 300, 0, 1, src, dst, true), -EINVAL);
	assert_int_equal(rs_encode_update(&rs, 4, 0, 1, 300, 4, 0, src, dst, true), 0);
}

static void every_loss_pattern_of_small_blocks_is_repaired(void **state)
{
	static const uint8_t first_rows[] = { 0, 1, 5 };

	(void)state;
	for (uint32_t k = 1; k <= 8; k++) {
		assert_int_equal(encode(k, 0, 20, 64), 0);
		for (uint64_t mask = 0; mask < 1ULL << k; mask++) {
			for (size_t f = 0; f < 3; f++) {
				uint32_t e = (uint32_t)__builtin_popcountll(mask);
				uint64_t lost[2] = { mask, 0 };
				uint8_t esi[8];

				for (uint32_t i = 0; i < e; i++) /* every other row, downward */
					esi[i] = (uint8_t)(k + first_rows[f] + 2 * (e - 1 - i));
				if (e > 1)
					assert_int_equal(decode(k, 64, lost, esi, e - 1), -EAGAIN);
				assert_int_equal(decode(k, 64, lost, esi, e), (int)e);
				assert_whole(k, 64);
			}
		}
	}
}

static void random_losses_of_large_blocks_are_repaired(void **state)
{
	struct prng r;

	(void)state;
	prng_init(&r, 4, 0);
	for (int round = 0; round < 60; round++) {
		uint32_t k = round % 3 == 0 ? 128 : 1 + (uint32_t)prng_below(&r, 128);
		uint32_t rows = STRAIT_ESI_COUNT - k < k ? STRAIT_ESI_COUNT - k : k;
		uint32_t e = round < 4 ? rows : (uint32_t)prng_below(&r, rows + 1), n = 0;
		size_t len = 64 + prng_below(&r, 200);
		uint64_t lost[2] = { 0 };
		uint8_t esi[SYMBOLS];

		assert_int_equal(encode(k, 0, STRAIT_ESI_COUNT - k, len), 0);
		while (n < e) {
			uint32_t j = (uint32_t)prng_below(&r, k);

			if (lost[j / 64] >> (j % 64) & 1)
				continue;
			lost[j / 64] |= 1ULL << (j % 64);
			n++;
		}
		/* A random choice of rows in random order, some more than needed. */
		for (uint32_t i = 0; i < STRAIT_ESI_COUNT - k; i++)
			esi[i] = (uint8_t)(k + i);
		for (uint32_t i = STRAIT_ESI_COUNT - k - 1; i > 0; i--) {
			uint32_t j = (uint32_t)prng_below(&r, i + 1);
			uint8_t t = esi[i];

			esi[i] = esi[j];
			esi[j] = t;
		}
		n = e + (uint32_t)prng_below(&r, STRAIT_ESI_COUNT - k - e + 1);
		assert_int_equal(decode(k, len, lost, esi, n), (int)e);
		assert_whole(k, len);
	}
}

static void encoding_after_decoding_uses_fresh_tables(void **state)
{
	static uint8_t want[LEN_MAX];
	const uint64_t lost[2] = { 5, 0 };
	const uint8_t esi[2] = { 10, 11 };

	(void)state;
	assert_int_equal(encode(10, 0, 2, 64), 0);
	assert_int_equal(decode(10, 64, lost, esi, 2), 2);
	assert_int_equal(encode(10, 0, 2, 64), 0);
	plain_row(10, 1, 64, want);
	assert_memory_equal(repair[1], want, 64);
}

static void nonsense_is_refused_and_changes_nothing(void **state)
{
	static uint8_t before[SYMBOLS][LEN_MAX];
	const uint64_t lost[2] = { 3, 0 };
	const uint8_t twice[2] = { 8, 8 }, low[2] = { 8, 7 }, high[2] = { 8, 255 };

	(void)state;
	assert_int_equal(encode(0, 0, 1, 64), -EINVAL);
	assert_int_equal(encode(129, 0, 1, 64), -EINVAL);
	assert_int_equal(encode(128, 0, 128, 64), -EINVAL);
	assert_int_equal(encode(128, 127, 1, 64), -EINVAL);
	assert_int_equal(rs_encode(&rs, 1, UINT32_MAX, 2, 64, NULL, NULL), -EINVAL);
	assert_int_equal(encode(8, 0, 1, 63), -EINVAL);
	assert_int_equal(encode(8, 0, 2, 64), 0);

	memset(work, 0, sizeof(work));
	assert_int_equal(decode(8, 64, lost, twice, 2), -EINVAL);
	memcpy(before, work, sizeof(before));
	assert_int_equal(decode(8, 64, lost, twice, 2), -EINVAL);
	assert_memory_equal(before, work, sizeof(before));
	assert_int_equal(decode(8, 64, lost, low, 2), -EINVAL);
	assert_int_equal(decode(8, 64, lost, high, 2), -EINVAL);
	assert_int_equal(rs_decode(&rs, 0, 64, NULL, lost, NULL, NULL, 0), -EINVAL);
	assert_int_equal(rs_decode(&rs, 129, 64, NULL, lost, NULL, NULL, 0), -EINVAL);
}

static void a_whole_block_needs_nothing(void **state)
{
	const uint64_t lost[2] = { 0, 0 };

	(void)state;
	assert_int_equal(decode(20, 64, lost, NULL, 0), 0);
	assert_whole(20, 64);
}

/* Once more as on a CPU that gf.h does not know. */
static int setup_narrow(void **state)
{
	int ret = setup(state);

	rs.wide = false;
	return ret;
}

int main(void)
{
	int failed;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(coefficients_are_cauchy),
		cmocka_unit_test(encode_agrees_with_plain_arithmetic),
		cmocka_unit_test(rows_are_rate_compatible),
		cmocka_unit_test(every_row_of_the_largest_block_can_be_made),
		cmocka_unit_test(updates_in_any_order_and_number_make_the_same_rows),
		cmocka_unit_test(every_loss_pattern_of_small_blocks_is_repaired),
		cmocka_unit_test(random_losses_of_large_blocks_are_repaired),
		cmocka_unit_test(encoding_after_decoding_uses_fresh_tables),
		cmocka_unit_test(nonsense_is_refused_and_changes_nothing),
		cmocka_unit_test(a_whole_block_needs_nothing),
	};
	failed = cmocka_run_group_tests_name("by gf.h", tests, setup, NULL);
	return failed + cmocka_run_group_tests_name("by ISA-L", tests, setup_narrow, NULL);
}
