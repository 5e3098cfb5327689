/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/turnover.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

static void pass(struct turnover *t, uint64_t *now_ns, int seconds, int removed)
{
	for (int i = 0; i < seconds; i++) {
		for (int k = 0; k < removed; k++)
			turnover_removed(t);
		*now_ns += SECOND;
		turnover_look(t, *now_ns);
	}
}

static void objects_over_removals_is_how_long_they_stay(void **state)
{
	struct turnover t = { 0 };
	uint64_t now_ns = 77 * SECOND;

	(void)state;
	turnover_look(&t, now_ns);
	pass(&t, &now_ns, 4, 10);
	assert_int_equal(turnover_age_ns(&t, 1000), 0); /* too early */
	pass(&t, &now_ns, 2, 10);
	assert_in_range(turnover_age_ns(&t, 1000) / 1000000, 99900, 100100);
	assert_int_equal(turnover_age_ns(&t, 0), 0);
	/* ten times as many go: seen within seconds, true after some minutes */
	pass(&t, &now_ns, 10, 100);
	assert_in_range(turnover_age_ns(&t, 1000) / SECOND, 10, 25);
	pass(&t, &now_ns, 400, 100);
	assert_in_range(turnover_age_ns(&t, 1000) / 1000000, 9900, 10100);
	/* and forgotten a minute after the last one went */
	pass(&t, &now_ns, 30, 0);
	assert_in_range(turnover_age_ns(&t, 1000) / SECOND, 15, 25);
	pass(&t, &now_ns, 31, 0);
	assert_int_equal(turnover_age_ns(&t, 1000), 0);
}

static void a_burst_is_forgotten_in_a_minute_though_some_still_go(void **state)
{
	struct turnover t = { 0 };
	uint64_t now_ns = 77 * SECOND;

	(void)state;
	turnover_look(&t, now_ns);
	pass(&t, &now_ns, 300, 0);
	pass(&t, &now_ns, 1, 5000);
	assert_in_range(turnover_age_ns(&t, 1000) / SECOND, 10, 13);
	for (int i = 0; i < 7; i++) {
		pass(&t, &now_ns, 1, 1);
		pass(&t, &now_ns, 9, 0);
	}
	assert_in_range(turnover_age_ns(&t, 1000) / SECOND, 9000, 13000);
	/* nobody looked for long: what went in all that time did not go in the last minute */
	for (int i = 0; i < 600; i++)
		turnover_removed(&t);
	now_ns += 600 * SECOND;
	turnover_look(&t, now_ns);
	assert_in_range(turnover_age_ns(&t, 1000) / SECOND, 900, 1100);
}

static void what_went_before_the_first_look_does_not_count(void **state)
{
	struct turnover t = { 0 };
	uint64_t now_ns = SECOND;

	(void)state;
	for (int i = 0; i < 1000; i++)
		turnover_removed(&t);
	turnover_look(&t, now_ns);
	turnover_look(&t, now_ns);
	pass(&t, &now_ns, 10, 0);
	assert_int_equal(turnover_age_ns(&t, 1000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_over_removals_is_how_long_they_stay),
		cmocka_unit_test(a_burst_is_forgotten_in_a_minute_though_some_still_go),
		cmocka_unit_test(what_went_before_the_first_look_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
