/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void gate_lets_in_as_many_as_it_has_permits(void **state)
{
	struct gate g;

	(void)state;
	gate_init(&g, 2, 1000, 1);
	assert_int_equal(gate_enter(&g), 0);
	assert_int_equal(gate_enter(&g), 0);
	assert_true(gate_enter(&g) > 0);
	gate_leave(&g);
	assert_int_equal(gate_enter(&g), 0);
	gate_leave(&g);
	gate_leave(&g);
	gate_leave(&g);
	assert_int_equal(g.taken, 0);
}

static void refused_ones_come_back_spread_over_the_time_their_turn_takes(void **state)
{
	struct gate g;
	uint64_t late = 0, early = UINT64_MAX;

	(void)state;
	gate_init(&g, 4, 1000000, 9);
	for (int i = 0; i < 4; i++)
		assert_int_equal(gate_enter(&g), 0);
	for (int i = 0; i < 100; i++) {
		uint64_t wait = gate_enter(&g);

		assert_true(wait > 0 && wait <= 27500000);
		late = wait > late ? wait : late;
		early = wait < early ? wait : early;
	}
	assert_true(early < 2000000);
	assert_true(late > 12000000);
}

static void backoff_doubles_to_its_limit_and_starts_over(void **state)
{
	struct backoff b;
	uint64_t step = 100;

	(void)state;
	backoff_init(&b, 100, 1000, 3);
	for (int i = 0; i < 20; i++) {
		uint64_t wait = backoff_next(&b);

		assert_true(wait >= step / 2 && wait <= step);
		step = step * 2 > 1000 ? 1000 : step * 2;
	}
	backoff_reset(&b);
	assert_true(backoff_next(&b) <= 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gate_lets_in_as_many_as_it_has_permits),
		cmocka_unit_test(refused_ones_come_back_spread_over_the_time_their_turn_takes),
		cmocka_unit_test(backoff_doubles_to_its_limit_and_starts_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
