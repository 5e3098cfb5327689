/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/progress_rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MB UINT64_C(1000000)

/* Objects of so many bytes at 40 Mbit/s, told every 100 ms: from the second on that is it. */
static void check_steady(uint64_t object)
{
	struct progress_rate r = { .count = 0 };
	uint64_t each_ms = object / 5000;

	for (uint64_t ms = 0; ms < 20 * each_ms + 10000; ms += 100) {
		progress_rate_add(&r, 1000 + ms, ms / each_ms * object);
		assert_true(r.bps <= 60000000);
		if (ms > 2 * each_ms + 2000)
			assert_in_range(r.bps, 30000000, 50000000);
	}
}

static void whole_objects_make_neither_gaps_nor_peaks(void **state)
{
	(void)state;
	check_steady(100000);
	check_steady(6 * MB);
	check_steady(30 * MB);
	check_steady(100 * MB);
}

static void what_stands_still_goes_down(void **state)
{
	struct progress_rate r = { .count = 0 };
	uint64_t ms = 0;

	(void)state;
	for (; ms <= 10000; ms += 500)
		progress_rate_add(&r, ms, ms * 5000);
	assert_int_equal(r.bps, 40000000);
	progress_rate_add(&r, 14000, 10000 * 5000);
	assert_int_equal(r.bps, 40000000);
	progress_rate_add(&r, 60000, 10000 * 5000);
	assert_true(r.bps < 5000000);
	/* and is soon back */
	for (ms = 0; ms <= 6000; ms += 500)
		progress_rate_add(&r, 60000 + ms, (10000 + ms) * 5000);
	assert_in_range(r.bps, 39000000, 41000000);
}

static void fewer_bytes_or_an_earlier_time_begin_anew(void **state)
{
	struct progress_rate r = { .count = 0 };

	(void)state;
	progress_rate_add(&r, 1000, 0);
	progress_rate_add(&r, 2000, MB);
	assert_int_equal(r.bps, 8000000);
	progress_rate_add(&r, 3000, MB / 2);
	assert_int_equal(r.bps, 0);
	progress_rate_add(&r, 4000, MB);
	assert_int_equal(r.bps, 4000000);
	progress_rate_add(&r, 100, 2 * MB);
	assert_int_equal(r.bps, 0);
	progress_rate_add(&r, 100, 3 * MB);
	assert_int_equal(r.bps, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_objects_make_neither_gaps_nor_peaks),
		cmocka_unit_test(what_stands_still_goes_down),
		cmocka_unit_test(fewer_bytes_or_an_earlier_time_begin_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
