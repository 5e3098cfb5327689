/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/link/delayq.h"
#include "tools/link/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

static void random_pushes_leave_in_order_of_time(void **state)
{
	struct delayq q;
	struct prng rnd;
	uint64_t prev_due = 0;
	uint64_t prev_payload = 0;
	uint64_t due, payload;

	(void)state;
	prng_init(&rnd, 1, 0);
	assert_int_equal(delayq_init(&q, 4, 100000), 0);
	/* Few distinct times, so that equal ones are common and their order is tested too. */
	for (uint64_t i = 1; i <= 100000; i++)
		assert_int_equal(delayq_push(&q, prng_below(&rnd, 1000), i), 0);
	assert_int_equal(delayq_push(&q, 0, 0), -ENOSPC);
	for (int i = 0; i < 100000; i++) {
		assert_true(delayq_pop_due(&q, UINT64_MAX, &due, &payload));
		assert_true(due > prev_due || (due == prev_due && payload > prev_payload));
		prev_due = due;
		prev_payload = payload;
	}
	assert_false(delayq_pop_due(&q, UINT64_MAX, &due, &payload));
	delayq_fini(&q);
}

static void nothing_leaves_before_it_is_due(void **state)
{
	struct delayq q;
	uint64_t due, payload;

	(void)state;
	assert_int_equal(delayq_init(&q, 8, 8), 0);
	assert_true(delayq_next_ns(&q) == UINT64_MAX);
	assert_int_equal(delayq_push(&q, 200, 2), 0);
	assert_int_equal(delayq_push(&q, 100, 1), 0);
	assert_int_equal(delayq_next_ns(&q), 100);
	assert_false(delayq_pop_due(&q, 99, &due, &payload));
	assert_true(delayq_pop_due(&q, 100, &due, &payload));
	assert_int_equal(payload, 1);
	assert_int_equal(due, 100);
	assert_false(delayq_pop_due(&q, 199, &due, &payload));
	delayq_fini(&q);
}

static void interleaved_use_matches_a_sorted_list(void **state)
{
	struct delayq q;
	struct prng rnd;
	uint64_t now = 0;
	uint64_t due, payload;
	size_t in = 0, out = 0;

	(void)state;
	prng_init(&rnd, 2, 0);
	assert_int_equal(delayq_init(&q, 1, 1 << 20), 0);
	for (int i = 0; i < 200000; i++) {
		uint64_t last = 0;

		now += prng_below(&rnd, 10);
		if (prng_chance(&rnd, 0.7)) {
			assert_int_equal(delayq_push(&q, now + prng_below(&rnd, 500), now), 0);
			in++;
		}
		while (delayq_pop_due(&q, now, &due, &payload)) {
			assert_true(due >= last && due <= now && payload <= due);
			last = due;
			out++;
		}
		assert_true(delayq_next_ns(&q) > now);
	}
	assert_int_equal(in - out, q.len);
	delayq_fini(&q);
}

static void bad_sizes_are_refused(void **state)
{
	struct delayq q;

	(void)state;
	assert_int_equal(delayq_init(&q, 0, 10), -EINVAL);
	assert_int_equal(delayq_init(&q, 11, 10), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_pushes_leave_in_order_of_time),
		cmocka_unit_test(nothing_leaves_before_it_is_due),
		cmocka_unit_test(interleaved_use_matches_a_sorted_list),
		cmocka_unit_test(bad_sizes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
