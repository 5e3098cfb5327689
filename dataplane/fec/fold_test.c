/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/fec/fold.h"

#include "dataplane/fec/digest.h"
#include "dataplane/fec/rs.h"

#include "tools/link/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { K_MAX = STRAIT_BLOCK_SYMBOLS_MAX, LEN_MAX = 1500, GUARD = 64 };

static uint8_t block[K_MAX * LEN_MAX];
static uint8_t rows[FOLD_ROWS_MAX][LEN_MAX + GUARD], want[FOLD_ROWS_MAX][LEN_MAX + GUARD];

static void shuffle(struct prng *r, uint8_t *order, uint32_t k)
{
	for (uint32_t j = 0; j < k; j++)
		order[j] = (uint8_t)j;
	for (uint32_t j = k - 1; j > 0; j--) {
		uint32_t other = (uint32_t)prng_below(r, j + 1);
		uint8_t x = order[j];

		order[j] = order[other];
		order[other] = x;
	}
}

/* The block's symbols in some order, some at a time; then compare with digest.h and rs.h. */
static void check(const struct fold *f, struct prng *r, uint32_t k, uint32_t n_rows, bool in_order)
{
	static struct rs rs;
	struct fold_digest d = { { 0 } };
	const uint8_t *src[K_MAX];
	uint8_t order[K_MAX], *dst[FOLD_ROWS_MAX], *expect[FOLD_ROWS_MAX];

	rs_init(&rs);
	shuffle(r, order, k);
	for (uint32_t i = 0; i < FOLD_ROWS_MAX; i++) {
		memset(rows[i], 0xaa, sizeof(rows[i]));
		memset(want[i], 0xaa, sizeof(want[i]));
		dst[i] = rows[i];
		expect[i] = want[i];
	}
	for (uint32_t at = 0, n; at < k; at += n) {
		const uint8_t *some[FOLD_TOGETHER];
		uint8_t column[FOLD_TOGETHER];

		n = in_order ? FOLD_TOGETHER : 1 + (uint32_t)prng_below(r, FOLD_TOGETHER);
		n = n < k - at ? n : k - at;
		for (uint32_t i = 0; i < n; i++) {
			column[i] = in_order ? (uint8_t)(at + i) : order[at + i];
			some[i] = block + column[i] * f->len;
		}
		fold_add(f, k, n, column, some, n_rows, dst, at == 0, &d);
	}
	assert_int_equal(fold_digest(&d), digest_bytes(block, k * f->len));
	for (uint32_t j = 0; j < k; j++)
		src[j] = block + j * f->len;
	assert_int_equal(rs_encode(&rs, k, 0, n_rows, f->len, src, expect), 0);
	for (uint32_t i = 0; i < FOLD_ROWS_MAX; i++)
		assert_memory_equal(rows[i], want[i], sizeof(rows[i]));
}

static void digest_and_rows_are_those_of_the_whole_block(void **state)
{
	static const size_t lens[] = { 64, 65, 79, 127, 128, 512, 1412, 1432, 1499 };
	static const uint32_t ks[] = { 1, 2, 3, 4, 5, 31, 64, 127, 128 };
	static struct fold f;
	struct prng r;

	(void)state;
	if (!fold_is_wide())
		skip();
	prng_init(&r, 9, 0);
	for (size_t b = 0; b < sizeof(block); b++)
		block[b] = (uint8_t)prng_next(&r);
	for (size_t l = 0; l < sizeof(lens) / sizeof(lens[0]); l++) {
		fold_init(&f, lens[l]);
		for (size_t i = 0; i < sizeof(ks) / sizeof(ks[0]); i++)
			for (uint32_t n_rows = 0; n_rows <= FOLD_ROWS_MAX; n_rows++) {
				check(&f, &r, ks[i], n_rows, true);
				check(&f, &r, ks[i], n_rows, false);
			}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digest_and_rows_are_those_of_the_whole_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
