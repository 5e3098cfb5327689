/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/fec/digest.h"

#include "tools/link/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 5000 };

static uint8_t data[BYTES];

static int setup(void **state)
{
	struct prng r;

	(void)state;
	prng_init(&r, 1, 0);
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)prng_next(&r);
	return 0;
}

/* One bit at a time, from the definition. */
static uint64_t bitwise(uint64_t crc, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		crc ^= (uint64_t)p[i] << 56;
		for (int bit = 0; bit < 8; bit++)
			crc = crc << 1 ^ (crc >> 63 ? 0x42F0E1EBA9EA3693 : 0);
	}
	return crc;
}

static void check_value_is_that_of_the_catalogue(void **state)
{
	(void)state;
	assert_true(digest_bytes("123456789", 9) == 0x6C40DF5F0B497347);
}

static void digest_follows_the_definition(void **state)
{
	(void)state;
	for (size_t n = 0; n < 600; n++)
		assert_true(digest_bytes(data + n % 7, n) == bitwise(0, data + n % 7, n));
	assert_true(digest_bytes(data, BYTES) == bitwise(0, data, BYTES));
}

static void shift_is_the_digest_of_appended_zeros(void **state)
{
	static uint8_t padded[40 + 5000];

	(void)state;
	memcpy(padded, data, 40);
	for (size_t zeros = 0; zeros < 5000; zeros += zeros < 300 ? 1 : 97)
		assert_true(digest_shift(digest_bytes(data, 40), zeros) ==
			digest_bytes(padded, 40 + zeros));
}

static void shifts_add_up(void **state)
{
	struct prng r;

	(void)state;
	prng_init(&r, 2, 0);
	for (int i = 0; i < 2000; i++) {
		uint64_t d = prng_next(&r), a = prng_next(&r) >> (1 + prng_below(&r, 63)),
			 b = prng_next(&r) >> (1 + prng_below(&r, 63));

		assert_true(digest_shift(digest_shift(d, a), b) == digest_shift(d, a + b));
		assert_true((digest_shift(d, a) ^ digest_shift(b, a)) == digest_shift(d ^ b, a));
	}
	assert_true(digest_shift(0, 123) == 0);
	assert_true(digest_shift(77, 0) == 77);
}

static void pieces_in_any_order_give_the_whole(void **state)
{
	struct prng r;

	(void)state;
	prng_init(&r, 3, 0);
	for (int round = 0; round < 100; round++) {
		size_t cut[21], n = 1 + prng_below(&r, 20);
		uint64_t sum = 0;

		cut[0] = 0;
		cut[n] = BYTES;
		for (size_t i = 1; i < n; i++)
			cut[i] = cut[i - 1] + prng_below(&r, BYTES - cut[i - 1] + 1);
		for (size_t i = n; i-- > 0;) /* last piece first */
			sum ^= digest_shift(digest_bytes(data + cut[i], cut[i + 1] - cut[i]),
				BYTES - cut[i + 1]);
		assert_true(sum == digest_bytes(data, BYTES));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_value_is_that_of_the_catalogue),
		cmocka_unit_test(digest_follows_the_definition),
		cmocka_unit_test(shift_is_the_digest_of_appended_zeros),
		cmocka_unit_test(shifts_add_up),
		cmocka_unit_test(pieces_in_any_order_give_the_whole),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
