/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/content.h"

#include "dataplane/fec/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LENGTH = 3 * 8192 + 5 };

static uint8_t buf[LENGTH + 8];

static void every_byte_counts(void **state)
{
	(void)state;
	content_fill(7, buf, LENGTH);
	assert_true(content_is(7, buf, LENGTH));
	assert_false(content_is(8, buf, LENGTH));
	for (size_t i = 0; i < LENGTH; i += i < 20 || i > LENGTH - 20 ? 1 : 997) {
		buf[i] ^= 1;
		assert_false(content_is(7, buf, LENGTH));
		buf[i] ^= 1;
	}
	assert_true(content_is(7, buf, LENGTH));
}

static void nothing_is_written_past_the_end(void **state)
{
	(void)state;
	for (size_t len = 0; len < 20; len++) {
		for (size_t i = 0; i < sizeof(buf); i++)
			buf[i] = 0xee;
		content_fill(9, buf, len);
		for (size_t i = len; i < sizeof(buf); i++)
			assert_int_equal(buf[i], 0xee);
	}
}

static void digest_is_that_of_the_bytes(void **state)
{
	static const size_t lengths[] = { 1, 7, 8, 9, 8191, 8192, 8193, 16384, LENGTH };

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		content_fill(3, buf, lengths[i]);
		assert_int_equal(content_digest(3, lengths[i]), digest_bytes(buf, lengths[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_counts),
		cmocka_unit_test(nothing_is_written_past_the_end),
		cmocka_unit_test(digest_is_that_of_the_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
