/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_byte_is_zero_and_ours(void **state)
{
	static const size_t sizes[] = { 1, 4096, 4097, (1 << 20) - 1, 1 << 20, 3 << 20,
		(8 << 20) + 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t *p = pages_get(sizes[i]), *q = pages_get(sizes[i]);

		assert_non_null(p);
		assert_non_null(q);
		for (size_t at = 0; at < sizes[i]; at++)
			assert_int_equal(p[at], 0);
		memset(p, 1, sizes[i]);
		memset(q, 2, sizes[i]);
		assert_int_equal(p[0] + p[sizes[i] - 1], 2);
		pages_put(p, sizes[i]);
		assert_int_equal(q[0] + q[sizes[i] - 1], 4);
		pages_put(q, sizes[i]);
	}
	pages_put(NULL, 1 << 20);
}

static void large_ones_begin_at_a_huge_page(void **state)
{
	(void)state;
	for (size_t bytes = 1 << 20; bytes <= 16 << 20; bytes *= 2) {
		void *p = pages_get(bytes);

		assert_int_equal((uintptr_t)p % (2 << 20), 0);
		pages_put(p, bytes);
	}
}

static void sizes_that_cannot_be_are_refused(void **state)
{
	(void)state;
	assert_null(pages_get(0));
	assert_null(pages_get(SIZE_MAX));
	assert_null(pages_get(SIZE_MAX / 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_is_zero_and_ours),
		cmocka_unit_test(large_ones_begin_at_a_huge_page),
		cmocka_unit_test(sizes_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
