/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/redundancy.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/*
 * P[ Binomial(n, p) > m ] in long double with lgamma: slow, independent of the module's recurrence.
 */
static long double tail(uint32_t n, uint32_t m, long double p)
{
	long double sum = 0;

	for (uint32_t i = n; i > m; i--)
		sum += expl(lgammal(n + 1.0L) - lgammal(i + 1.0L) - lgammal(n - i + 1.0L) +
			i * logl(p) + (n - i) * logl(1 - p));
	return sum;
}

static void known_operating_points(void **state)
{
	static const double loss[] = { 1e-4, 1e-3, 5e-3, 1e-2, 2e-2, 5e-2 };
	static const struct {
		uint32_t n;
		double target;
		uint32_t rows[6];
	} points[] = {
		{ 32, 1e-5, { 1, 2, 4, 5, 6, 10 } },
		{ 64, 1e-5, { 2, 3, 5, 6, 9, 14 } },
		{ 128, 1e-5, { 2, 4, 6, 9, 12, 21 } },
		{ 64, 1e-7, { 2, 4, 6, 8, 11, 17 } },
		{ 128, 1e-7, { 3, 5, 8, 11, 15, 25 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		for (size_t l = 0; l < 6; l++)
			assert_int_equal(redundancy_compute(points[i].n, loss[l], points[i].target),
				points[i].rows[l]);
}

static void answer_is_the_smallest_that_meets_the_target(void **state)
{
	/* But for rounding where the tail is the target. */
	static const double losses[] = { 1e-6, 1e-4, 3e-3, 0.01, 0.07, 0.2, 0.5 };
	static const double targets[] = { 1e-2, 1e-4, 1e-6, 1e-9 };

	(void)state;
	for (uint32_t n = 1; n <= 128; n += 9) {
		for (size_t l = 0; l < 7; l++) {
			for (size_t t = 0; t < 4; t++) {
				uint32_t m = redundancy_compute(n, losses[l], targets[t]);

				assert_in_range(m, 0, 255 - n);
				if (m < 255 - n)
					assert_true(tail(n + m, m, losses[l]) <=
						targets[t] * (1 + 1e-9L));
				if (m > 0)
					assert_true(tail(n + m - 1, m - 1, losses[l]) >
						targets[t] * (1 - 1e-9L));
			}
		}
	}
}

static void table_is_never_below_and_little_above_the_function(void **state)
{
	static struct redundancy r;

	(void)state;
	assert_int_equal(redundancy_init(&r, 1e-5), 0);
	for (uint32_t n = 1; n <= 128; n += 3) {
		for (double loss = 1e-5; loss < 0.5; loss *= 1.07) {
			uint32_t rows = redundancy_rows(&r, n, loss);

			assert_in_range(rows, redundancy_compute(n, loss, 1e-5),
				redundancy_compute(n, loss * 1.0443, 1e-5));
		}
	}
}

static void losses_out_of_range_are_clamped(void **state)
{
	static struct redundancy r;

	(void)state;
	assert_int_equal(redundancy_init(&r, 1e-3), 0);
	assert_int_equal(redundancy_rows(&r, 64, 0), 0);
	assert_int_equal(redundancy_rows(&r, 64, -1), 0);
	assert_int_equal(redundancy_rows(&r, 64, NAN), 0);
	assert_int_equal(redundancy_rows(&r, 0, 0.1), 0);
	assert_int_equal(redundancy_rows(&r, 129, 0.1), 0);
	assert_int_equal(redundancy_rows(&r, 64, 0.5), redundancy_compute(64, 0.5, 1e-3));
	assert_int_equal(redundancy_rows(&r, 64, 0.9), redundancy_compute(64, 0.5, 1e-3));
	assert_int_equal(redundancy_rows(&r, 128, 0.5), 127);
	assert_in_range(redundancy_rows(&r, 128, 1e-300), 0, 2);
	assert_int_equal(redundancy_compute(255, 0.1, 1e-3), 0);
}

static void targets_must_be_probabilities(void **state)
{
	static struct redundancy r;

	(void)state;
	assert_int_equal(redundancy_init(&r, 0), -EINVAL);
	assert_int_equal(redundancy_init(&r, 1), -EINVAL);
	assert_int_equal(redundancy_init(&r, NAN), -EINVAL);
	assert_int_equal(redundancy_init(&r, 1e-12), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_operating_points),
		cmocka_unit_test(answer_is_the_smallest_that_meets_the_target),
		cmocka_unit_test(table_is_never_below_and_little_above_the_function),
		cmocka_unit_test(losses_out_of_range_are_clamped),
		cmocka_unit_test(targets_must_be_probabilities),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
