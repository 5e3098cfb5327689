/* SPDX-License-Identifier: Apache-2.0 */
#include "control/rpc/framing.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void header_is_big_endian(void **state)
{
	static const uint8_t want[FRAME_HEADER_BYTES] = { 0x01, 0x02, 0x03, 0x04, 0xab, 0xcd, 0,
		0 };
	struct frame_header h = { .len = 0x01020304, .type = 0xabcd }, back;
	uint8_t buf[FRAME_HEADER_BYTES];

	(void)state;
	frame_header_encode(buf, &h);
	assert_memory_equal(buf, want, sizeof(want));
	assert_int_equal(frame_header_decode(buf, UINT32_MAX, &back), 0);
	assert_int_equal(back.len, h.len);
	assert_int_equal(back.type, h.type);
}

static void reserved_bits_are_for_later_versions(void **state)
{
	static const uint8_t buf[FRAME_HEADER_BYTES] = { 0, 0, 0, 1, 0, 2, 0xff, 0xff };
	struct frame_header h;

	(void)state;
	assert_int_equal(frame_header_decode(buf, 10, &h), 0);
	assert_int_equal(h.len, 1);
}

static void length_over_the_limit_and_type_0_are_refused(void **state)
{
	uint8_t buf[FRAME_HEADER_BYTES] = { 0, 0, 0, 11, 0, 2 };
	struct frame_header h;

	(void)state;
	assert_int_equal(frame_header_decode(buf, 10, &h), -EMSGSIZE);
	assert_int_equal(frame_header_decode(buf, 11, &h), 0);
	buf[5] = 0;
	assert_int_equal(frame_header_decode(buf, 11, &h), -EPROTO);
}

/* 2^20 headers: what is accepted is within the limit and says the same when encoded again. */
static void random_headers_decode_within_limits(void **state)
{
	uint8_t buf[FRAME_HEADER_BYTES], again[FRAME_HEADER_BYTES];
	uint64_t x = 88172645463325252ull;
	struct frame_header h;

	(void)state;
	for (int i = 0; i < 1 << 20; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(buf, &x, sizeof(buf));
		if (frame_header_decode(buf, 1 << 26, &h) != 0)
			continue;
		assert_true(h.len <= 1 << 26 && h.type != 0);
		frame_header_encode(again, &h);
		assert_memory_equal(buf, again, 6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header_is_big_endian),
		cmocka_unit_test(reserved_bits_are_for_later_versions),
		cmocka_unit_test(length_over_the_limit_and_type_0_are_refused),
		cmocka_unit_test(random_headers_decode_within_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
