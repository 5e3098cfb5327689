/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/bursts.h"

#include "dataplane/transport/redundancy.h"

#include "tools/link/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum {
	MOST = 7,       /* rows of a block at 1 % */
	APART = 1 << 9, /* packets between losses that have nothing to do with each other */
};

/* n packets of a path that loses each with chance p, and goes on losing with chance `stay`. */
static void path(struct bursts *b, struct prng *random, uint32_t *at, uint32_t n, double p,
	double stay, uint32_t most)
{
	bool lost = false;

	for (uint32_t i = 0; i < n; i++, (*at)++) {
		lost = prng_chance(random, lost ? stay : p);
		if (lost)
			bursts_lost(b, *at, most);
	}
}

/* n single losses from packet *at on. */
static void singly(struct bursts *b, uint32_t *at, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, *at += APART)
		bursts_lost(b, *at, MOST);
}

static void nothing_is_said_before_enough_was_lost(void **state)
{
	struct bursts b = { 0 };
	uint32_t at = 0;

	(void)state;
	assert_false(bursts_are_none(&b, 0.01));
	singly(&b, &at, 31);
	assert_false(bursts_are_none(&b, 0.01));
	singly(&b, &at, 1);
	assert_true(bursts_are_none(&b, 0.01));
}

static void independent_losses_are_no_bursts(void **state)
{
	const double loss[] = { 0.001, 0.01, 0.05, 0.1, 0.2 };
	const struct redundancy *r = &redundancy_levels()[REDUNDANCY_LEVEL_URGENT];
	struct prng random;

	(void)state;
	for (int i = 0; i < 5; i++) {
		struct bursts b = { 0 };
		uint32_t none = 0, at = 0;

		prng_init(&random, 1, (uint64_t)i);
		for (int j = 0; j < 300; j++) {
			path(&b, &random, &at, (uint32_t)(400 / loss[i]), loss[i], loss[i],
				redundancy_rows(r, 128, loss[i]));
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
		uint32_t at = 0;

		prng_init(&random, 2, (uint64_t)i);
		for (int j = 0; j < 300; j++) {
			/* 1 % of the packets */
			path(&b, &random, &at, 40000, 0.01 / length[i], 1 - 1 / length[i], 200);
			assert_false(bursts_are_none(&b, 0.01));
		}
	}
}

/* The mean over runs would be 1.2. */
static void one_long_run_among_single_losses_counts(void **state)
{
	struct bursts b = { 0 };
	uint32_t at = 1;

	(void)state;
	singly(&b, &at, 200);
	assert_true(bursts_are_none(&b, 0.01));
	for (uint32_t i = 0; i < 20; i++)
		bursts_lost(&b, at++, 200); /* as if rows could repair it */
	assert_false(bursts_are_none(&b, 0.01));
	/* It is forgotten after some hundred more. */
	at += APART;
	singly(&b, &at, 100);
	assert_false(bursts_are_none(&b, 0.01));
	singly(&b, &at, 300);
	assert_true(bursts_are_none(&b, 0.01));
}

/* Every other packet for a while: no run is longer than 1. */
static void more_than_rows_repair_counts(void **state)
{
	(void)state;
	for (uint32_t from = 0; from < 128; from++) {
		struct bursts b = { 0 };
		uint32_t at = 0;

		singly(&b, &at, 200);
		for (uint32_t i = 0; i < MOST + 2; i++)
			bursts_lost(&b, at + from + 2 * i, MOST);
		assert_true(bursts_are_none(&b, 0.01)); /* that may be chance */
		bursts_lost(&b, at + from + 2 * (MOST + 2), MOST);
		assert_false(bursts_are_none(&b, 0.01));
		at += 2 * APART;
		singly(&b, &at, 1999);
		assert_false(bursts_are_none(&b, 0.01));
		singly(&b, &at, 1);
		assert_true(bursts_are_none(&b, 0.01));
	}
}

/* As many over more than a block and a half are none. */
static void what_is_spread_over_blocks_does_not(void **state)
{
	struct bursts b = { 0 };
	uint32_t at = 0;

	(void)state;
	singly(&b, &at, 200);
	for (uint32_t i = 0; i < 100; i++, at += 16)
		bursts_lost(&b, at, MOST + 1);
	assert_true(bursts_are_none(&b, 0.05));
	/* Nor does a new beginning of the numbers join what lies apart. */
	for (uint32_t i = 0; i < 100; i++) {
		bursts_lost(&b, i % 2 == 0 ? 1 << 20 : 0, MOST);
		assert_true(bursts_are_none(&b, 0.05));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_said_before_enough_was_lost),
		cmocka_unit_test(independent_losses_are_no_bursts),
		cmocka_unit_test(bursts_are_seen),
		cmocka_unit_test(one_long_run_among_single_losses_counts),
		cmocka_unit_test(more_than_rows_repair_counts),
		cmocka_unit_test(what_is_spread_over_blocks_does_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
