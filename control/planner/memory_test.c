/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/memory.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KEEP_S = 600, T = 1800000000 };

static struct digest128 key(uint64_t n)
{
	n *= UINT64_C(0x9e3779b97f4a7c15);
	n ^= n >> 29;
	return (struct digest128){ n * 5, n * UINT64_C(0xbf58476d1ce4e5b9) };
}

static void marks_count_and_fade(void **state)
{
	struct memory *m = memory_create(1000, KEEP_S);

	(void)state;
	assert_int_equal(memory_get(m, key(1), T), 0);
	assert_int_equal(memory_mark(m, key(1), T), 1);
	assert_int_equal(memory_mark(m, key(1), T + 500), 2);
	assert_int_equal(memory_get(m, key(1), T + 500 + KEEP_S - 1), 2);
	assert_int_equal(memory_get(m, key(1), T + 500 + KEEP_S), 0);
	assert_int_equal(memory_mark(m, key(1), T + 500 + KEEP_S), 1);
	memory_forget(m, key(1));
	assert_int_equal(memory_get(m, key(1), T + 500 + KEEP_S), 0);
	for (int i = 0; i < 300; i++)
		(void)memory_mark(m, key(2), T);
	assert_int_equal(memory_get(m, key(2), T), 255);
	memory_destroy(m);
}

static void clock_that_steps_back_forgets_nothing(void **state)
{
	struct memory *m = memory_create(1000, KEEP_S);

	(void)state;
	(void)memory_mark(m, key(1), T);
	assert_int_equal(memory_get(m, key(1), T - 100), 1);
	/* 24 bits of seconds come round after 194 days: older than any keep. */
	assert_int_equal(memory_get(m, key(1), T + (UINT64_C(1) << 23)), 0);
	memory_destroy(m);
}

static void full_memory_keeps_the_newest(void **state)
{
	enum { N = 65536 };
	struct memory *m = memory_create(N, KEEP_S);
	uint32_t kept = 0, recent = 0;

	(void)state;
	for (uint32_t i = 0; i < 2 * N; i++)
		(void)memory_mark(m, key(i), T + i * 300 / N);
	for (uint32_t i = 0; i < 2 * N; i++) {
		uint32_t is = memory_get(m, key(i), T + 600 - 1) > 0;

		kept += is;
		recent += is && i >= 2 * N - N / 2;
	}
	assert_true(kept > N * 9 / 10);
	assert_true(recent > N / 2 * 98 / 100);
	memory_destroy(m);
}

static void restored_image_remembers_the_same(void **state)
{
	struct memory *a = memory_create(5000, KEEP_S), *b = memory_create(5000, KEEP_S);
	const void *image;
	size_t len;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		(void)memory_mark(a, key(i), T);
	image = memory_image(a, &len);
	assert_int_equal(memory_restore(b, image, len - 8), -EINVAL);
	assert_int_equal(memory_restore(b, image, len), 0);
	for (uint32_t i = 0; i < 2000; i++)
		assert_int_equal(memory_get(b, key(i), T), memory_get(a, key(i), T));
	memory_destroy(a);
	memory_destroy(b);
	assert_null(memory_create(10, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks_count_and_fade),
		cmocka_unit_test(clock_that_steps_back_forgets_nothing),
		cmocka_unit_test(full_memory_keeps_the_newest),
		cmocka_unit_test(restored_image_remembers_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
