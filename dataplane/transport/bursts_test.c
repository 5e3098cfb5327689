/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/bursts.h"

#include "tools/link/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* n packets of a path that loses each with chance p, and goes on losing with chance `stay`. */
static void path(struct bursts *b, struct prng *random, uint32_t n, double p, double stay)
{
	bool lost = false;

	for (uint32_t i = 0; i < n; i++) {
		bool follows = lost;

		lost = prng_chance(random, lost ? stay : p);
		if (lost)
			bursts_lost(b, follows);
	}
}

static void nothing_is_said_before_enough_was_lost(void **state)
{
	struct bursts b = { 0 };

	(void)state;
	assert_false(bursts_are_none(&b, 0.01));
	for (int i = 0; i < 31; i++)
		bursts_lost(&b, false);
	assert_false(bursts_are_none(&b, 0.01));
	bursts_lost(&b, false);
	assert_true(bursts_are_none(&b, 0.01));
}

static void independent_losses_are_no_bursts(void **state)
{
	const double loss[] = { 0.001, 0.01, 0.05, 0.1, 0.2 };
	struct prng random;

	(void)state;
	for (int i = 0; i < 5; i++) {
		struct bursts b = { 0 };
		uint32_t none = 0;

		prng_init(&random, 1, (uint64_t)i);
		for (int j = 0; j < 300; j++) {
			path(&b, &random, (uint32_t)(400 / loss[i]), loss[i], loss[i]);
			none += bursts_are_none(&b, loss[i]);
		}
		assert_in_range(none, 297, 300);
	}
}

static void bursts_are_seen(void **state)
{
	const double length[] = { 3, 8, 64 };
	struct prng random;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct bursts b = { 0 };

		prng_init(&random, 2, (uint64_t)i);
		for (int j = 0; j < 300; j++) {
			/* 1 % of the packets */
			path(&b, &random, 40000, 0.01 / length[i], 1 - 1 / length[i]);
			assert_false(bursts_are_none(&b, 0.01));
		}
	}
}

/* The mean over runs would be 1.2. */
static void one_long_run_among_single_losses_counts(void **state)
{
	struct bursts b = { 0 };

	(void)state;
	for (int i = 0; i < 200; i++)
		bursts_lost(&b, false);
	assert_true(bursts_are_none(&b, 0.01));
	for (int i = 0; i < 20; i++)
		bursts_lost(&b, i > 0);
	assert_false(bursts_are_none(&b, 0.01));
	/* It is forgotten after some hundred more. */
	for (int i = 0; i < 100; i++)
		bursts_lost(&b, false);
	assert_false(bursts_are_none(&b, 0.01));
	for (int i = 0; i < 300; i++)
		bursts_lost(&b, false);
	assert_true(bursts_are_none(&b, 0.01));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_said_before_enough_was_lost),
		cmocka_unit_test(independent_losses_are_no_bursts),
		cmocka_unit_test(bursts_are_seen),
		cmocka_unit_test(one_long_run_among_single_losses_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
