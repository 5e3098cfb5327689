/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rtt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS 1000000ULL

static void initial_estimate_holds_until_a_sample(void **state)
{
	struct rtt r;

	(void)state;
	rtt_init(&r, 333 * MS);
	assert_false(r.measured);
	assert_int_equal(r.smoothed_ns, 333 * MS);
	assert_int_equal(r.variation_ns, 333 * MS / 2);
	rtt_sample(&r, 5 * MS, 20 * MS);
	assert_true(r.measured);
	assert_int_equal(r.smoothed_ns, 20 * MS);
	assert_int_equal(r.variation_ns, 10 * MS);
	assert_int_equal(r.min_ns, 20 * MS);
}

static void smoothing_follows_rfc_9002(void **state)
{
	struct rtt r;

	(void)state;
	rtt_init(&r, 333 * MS);
	rtt_sample(&r, 0, 100 * MS);
	rtt_sample(&r, 1 * MS, 180 * MS);
	/* 3/4 * 50 + 1/4 * |100 - 180|; 7/8 * 100 + 1/8 * 180 */
	assert_int_equal(r.variation_ns, 57500000);
	assert_int_equal(r.smoothed_ns, 110 * MS);
	rtt_sample(&r, 2 * MS, 70 * MS);
	/* 3/4 * 57.5 + 1/4 * |110 - 70|; 7/8 * 110 + 1/8 * 70 */
	assert_int_equal(r.variation_ns, 53125000);
	assert_int_equal(r.smoothed_ns, 105 * MS);
	assert_int_equal(r.latest_ns, 70 * MS);
}

static void constant_path_converges(void **state)
{
	struct rtt r;

	(void)state;
	rtt_init(&r, 333 * MS);
	for (uint64_t i = 0; i < 200; i++)
		rtt_sample(&r, i * MS, i == 0 ? 90 * MS : 50 * MS);
	assert_in_range(r.smoothed_ns, 50 * MS - 100, 50 * MS + 100);
	assert_in_range(r.variation_ns, 0, 100);
}

static void minimum_expires_after_two_windows(void **state)
{
	struct rtt r;
	uint64_t t;

	(void)state;
	rtt_init(&r, 333 * MS);
	for (t = 0; t < 5000; t += 100)
		rtt_sample(&r, t * MS, 50 * MS);
	for (; t < 9900; t += 100) {
		rtt_sample(&r, t * MS, 80 * MS); /* the path got longer */
		assert_int_equal(r.min_ns, 50 * MS);
	}
	for (; t < 40000; t += 100)
		rtt_sample(&r, t * MS, 80 * MS);
	assert_int_equal(r.min_ns, 80 * MS);
	rtt_sample(&r, t * MS, 60 * MS); /* and shorter */
	assert_int_equal(r.min_ns, 60 * MS);
}

static void minimum_of_the_last_window_survives_a_roll(void **state)
{
	struct rtt r;

	(void)state;
	rtt_init(&r, 1);
	rtt_sample(&r, 0, 70 * MS);
	rtt_sample(&r, 9999 * MS, 50 * MS);
	rtt_sample(&r, 10001 * MS, 70 * MS);
	assert_int_equal(r.min_ns, 50 * MS);
	rtt_sample(&r, 20002 * MS, 70 * MS);
	assert_int_equal(r.min_ns, 70 * MS);
}

static void silence_forgets_the_minimum(void **state)
{
	struct rtt r;

	(void)state;
	rtt_init(&r, 1);
	rtt_sample(&r, 0, 50 * MS);
	rtt_sample(&r, 60000 * MS, 90 * MS);
	assert_int_equal(r.min_ns, 90 * MS);
}

static void absurdly_small_samples_count_as_a_microsecond(void **state)
{
	struct rtt r;

	(void)state;
	rtt_init(&r, 1);
	rtt_sample(&r, 0, 0);
	assert_int_equal(r.latest_ns, 1000);
	assert_int_equal(r.min_ns, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(initial_estimate_holds_until_a_sample),
		cmocka_unit_test(smoothing_follows_rfc_9002),
		cmocka_unit_test(constant_path_converges),
		cmocka_unit_test(minimum_expires_after_two_windows),
		cmocka_unit_test(minimum_of_the_last_window_survives_a_roll),
		cmocka_unit_test(silence_forgets_the_minimum),
		cmocka_unit_test(absurdly_small_samples_count_as_a_microsecond),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
