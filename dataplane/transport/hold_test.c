/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/hold.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

enum { RTT_MS = 20, REPORT_MS = 5 };

struct run {
	struct hold h;
	struct hold_report p;
};

static void run_init(struct run *r)
{
	*r = (struct run){ .p = { .now_ns = 1000 * MS,
				   .rtt_ns = RTT_MS * MS,
				   .before_bps = 100000000,
				   .rate_bps = 40000000,
				   .over = true } };
}

/* Reports for so long; `lost` packets in the first of them. */
static uint64_t run_for(struct run *r, uint64_t ms, uint64_t lost)
{
	uint64_t least = 0;

	for (uint64_t t = 0; t < ms; t += REPORT_MS) {
		r->p.now_ns += REPORT_MS * MS;
		r->p.bytes = 25000;
		r->p.lost = t == 0 ? lost * 1538 : 0;
		least = hold_report(&r->h, &r->p);
	}
	return least;
}

static void a_queue_that_loses_nothing_is_followed(void **state)
{
	struct run r;

	(void)state;
	run_init(&r);
	assert_int_equal(run_for(&r, 5000, 0), 0);
}

static void a_queue_that_is_soon_gone_was_another_session(void **state)
{
	struct run r;

	(void)state;
	run_init(&r);
	assert_int_equal(run_for(&r, 300, 20), 0);
	r.p.over = false;
	assert_int_equal(run_for(&r, 100, 0), 0);
	r.p.over = true;
	assert_int_equal(run_for(&r, 5000, 0), 0);
}

static void beside_one_who_fills_the_queue_more_than_half_is_held(void **state)
{
	struct run r;
	uint64_t least;

	(void)state;
	run_init(&r);
	least = run_for(&r, 600, 3);
	assert_in_range(least, 55000000, 75000000);
}

static void each_loss_takes_three_tenths_and_time_brings_them_back(void **state)
{
	struct run r;
	uint64_t before, after;

	(void)state;
	run_init(&r);
	before = run_for(&r, 600, 3);
	after = run_for(&r, 40, 2);
	assert_in_range(after, before * 68 / 100, before * 75 / 100);
	assert_true(run_for(&r, 10000, 0) >= before * 95 / 100);
}

static void what_the_path_loses_is_no_overflow(void **state)
{
	struct run r;

	(void)state;
	run_init(&r);
	r.p.loss = 0.02;
	assert_int_equal(run_for(&r, 2000, 30), 0);
}

static void loss_that_the_path_is_known_for_takes_nothing(void **state)
{
	struct run r;
	uint64_t before, after = 0;

	(void)state;
	run_init(&r);
	before = run_for(&r, 600, 3);
	r.p.loss = 0.0015;
	r.p.bytes = 25000;
	for (int i = 0; i < 20; i++)
		after = run_for(&r, RTT_MS, i % 10 == 0 ? 1 : 0);
	assert_true(after >= before);
}

static void nothing_is_held_when_the_queue_is_gone(void **state)
{
	struct run r;

	(void)state;
	run_init(&r);
	assert_true(run_for(&r, 600, 3) > 0);
	r.p.over = false;
	assert_true(run_for(&r, RTT_MS, 0) > 0);
	assert_int_equal(run_for(&r, 2 * RTT_MS, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_that_loses_nothing_is_followed),
		cmocka_unit_test(a_queue_that_is_soon_gone_was_another_session),
		cmocka_unit_test(beside_one_who_fills_the_queue_more_than_half_is_held),
		cmocka_unit_test(each_loss_takes_three_tenths_and_time_brings_them_back),
		cmocka_unit_test(what_the_path_loses_is_no_overflow),
		cmocka_unit_test(loss_that_the_path_is_known_for_takes_nothing),
		cmocka_unit_test(nothing_is_held_when_the_queue_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
