/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct histogram h;

static void small_values_are_exact(void **state)
{
	(void)state;
	h = (struct histogram){ 0 };
	assert_int_equal(histogram_quantile(&h, 0.5), 0);
	for (uint64_t i = 1; i <= 60; i++)
		histogram_add(&h, i);
	assert_int_equal(histogram_quantile(&h, 0.5), 30);
	assert_int_equal(histogram_quantile(&h, 0.95), 57);
	assert_int_equal(histogram_quantile(&h, 1), 60);
}

static void large_values_are_within_two_percent(void **state)
{
	(void)state;
	for (uint64_t v = 100; v < UINT64_MAX / 3; v = v * 2 + v / 7) {
		h = (struct histogram){ 0 };
		histogram_add(&h, v);
		histogram_add(&h, UINT64_MAX);
		assert_true(histogram_quantile(&h, 0.5) <= v);
		assert_true((double)histogram_quantile(&h, 0.5) > 0.98 * (double)v);
		assert_true(histogram_quantile(&h, 1) == UINT64_MAX);
	}
}

static void merged_counts_are_those_of_both(void **state)
{
	static struct histogram other;

	(void)state;
	h = other = (struct histogram){ 0 };
	for (uint64_t v = 1; v <= 10; v++)
		histogram_add(v <= 5 ? &h : &other, v);
	histogram_merge(&h, &other);
	assert_int_equal(h.n, 10);
	assert_int_equal(histogram_quantile(&h, 0.5), 5);
	assert_int_equal(histogram_quantile(&h, 1), 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_values_are_exact),
		cmocka_unit_test(merged_counts_are_those_of_both),
		cmocka_unit_test(large_values_are_within_two_percent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
