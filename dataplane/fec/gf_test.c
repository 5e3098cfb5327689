/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/fec/gf.h"

#include "tools/link/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LEN_MAX = 1500 };

/* The field's definition: shift, and subtract 0x11d on overflow. */
static uint8_t product(uint8_t a, uint8_t b)
{
	unsigned p = 0, x = a;

	for (int i = 0; i < 8; i++, x = x << 1 ^ (x & 0x80 ? 0x11d : 0))
		if (b >> i & 1)
			p ^= x;
	return (uint8_t)p;
}

static void inverses_are_inverse(void **state)
{
	(void)state;
	assert_int_equal(gf_inverses()[0], 0);
	for (unsigned a = 1; a < 256; a++)
		assert_int_equal(product((uint8_t)a, gf_inverses()[a]), 1);
}

static void sums_agree_with_plain_arithmetic(void **state)
{
	static uint8_t in[GF_SOURCES_MAX][LEN_MAX], out[GF_ROWS_MAX][LEN_MAX], want[LEN_MAX];
	uint8_t c[GF_SOURCES_MAX * GF_ROWS_MAX], *dst[GF_ROWS_MAX];
	const uint8_t *src[GF_SOURCES_MAX];
	struct prng r;

	(void)state;
	if (!gf_is_wide())
		skip();
	prng_init(&r, 5, 0);
	for (int round = 0; round < 200; round++) {
		uint32_t rows = 1 + (uint32_t)round % GF_ROWS_MAX;
		uint32_t n = 1 + (uint32_t)prng_below(&r, GF_SOURCES_MAX);
		size_t len = 64 + prng_below(&r, LEN_MAX - 64), skew = prng_below(&r, 60);
		bool add = round % 3 != 0;

		len = len + skew > LEN_MAX ? LEN_MAX - skew : len;
		for (uint32_t j = 0; j < n; j++) {
			for (size_t b = 0; b < LEN_MAX; b++)
				in[j][b] = (uint8_t)prng_next(&r);
			src[j] = in[j] + skew;
		}
		for (uint32_t i = 0; i < rows; i++) {
			memset(out[i], (int)i, LEN_MAX);
			dst[i] = out[i] + skew;
		}
		for (uint32_t i = 0; i < rows * n; i++)
			c[i] = (uint8_t)(round == 1 ? 0 : prng_next(&r));
		gf_sum(rows, n, len, c, src, dst, add);
		for (uint32_t i = 0; i < rows; i++) {
			memset(want, (int)i, LEN_MAX); /* and nothing beside it is touched */
			for (size_t b = skew; b < skew + len; b++) {
				want[b] = add ? want[b] : 0;
				for (uint32_t j = 0; j < n; j++)
					want[b] ^= product(c[j * rows + i], in[j][b]);
			}
			assert_memory_equal(out[i], want, LEN_MAX);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inverses_are_inverse),
		cmocka_unit_test(sums_agree_with_plain_arithmetic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
