/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/sizing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

static struct sizing in;
static struct sizing_side_result out[SIZING_SIDES];
static char err[160];

static int setup(void **state)
{
	(void)state;
	sizing_init(&in);
	in.tokens_per_s = 1000;
	in.block_tokens = 10;
	in.block_bytes = 1000;
	in.reuse = 0.4;
	in.remote = 0.75;
	in.evict_s[0] = in.evict_s[1] = 100;
	in.efficiency = 0.8;
	return 0;
}

static int plan(void)
{
	err[0] = '\0';
	return sizing_plan(&in, out, err, sizeof(err));
}

static void near(double got, double want)
{
	if (fabs(got - want) > 1e-9 * fabs(want))
		fail_msg("%.12g is not %.12g", got, want);
}

static void what_is_new_fills_both_pools_for_the_eviction_period(void **state)
{
	(void)state;
	assert_int_equal(plan(), 0);
	near(out[SIZING_DECODE].in_bytes_per_s, 60000);
	near(out[SIZING_PREFILL].in_bytes_per_s, 60000);
	near(out[SIZING_DECODE].pool_bytes, 6e6);
	in.span_s[SIZING_DECODE] = 50;
	assert_int_equal(plan(), 0);
	near(out[SIZING_DECODE].pool_bytes, 9e6);
	near(out[SIZING_PREFILL].pool_bytes, 6e6);
}

static void each_side_sends_what_it_prefilled(void **state)
{
	(void)state;
	in.line_bps = 1e6;
	in.peak = 2;
	assert_int_equal(plan(), 0);
	near(out[SIZING_PREFILL].wan_bps, 450000);
	near(out[SIZING_DECODE].wan_bps, 150000);
	near(out[SIZING_PREFILL].cap_bps, 900000);
	near(out[SIZING_PREFILL].cap_share, 0.9);
}

static void what_does_not_go_back_is_in_one_pool(void **state)
{
	(void)state;
	in.back = 0;
	assert_int_equal(plan(), 0);
	near(out[SIZING_DECODE].in_bytes_per_s, 60000);
	near(out[SIZING_PREFILL].in_bytes_per_s, 45000);
	assert_true(out[SIZING_DECODE].wan_bps == 0);
}

static void nonsense_is_refused_with_its_name(void **state)
{
	const struct {
		double *at, value;
		const char *word;
	} bad[] = { { &in.tokens_per_s, 0, "throughput" }, { &in.tokens_per_s, NAN, "throughput" },
		{ &in.block_bytes, -1, "block" }, { &in.block_tokens, 0, "block" },
		{ &in.reuse, 1.1, "reuse" }, { &in.remote, -0.1, "shares" },
		{ &in.back, NAN, "shares" }, { &in.evict_s[1], 0, "eviction" },
		{ &in.span_s[0], INFINITY, "eviction" }, { &in.efficiency, 0, "efficiency" },
		{ &in.peak, 0.5, "peak" }, { &in.line_bps, INFINITY, "line" } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setup(state);
		*bad[i].at = bad[i].value;
		assert_int_equal(plan(), -EINVAL);
		assert_non_null(strstr(err, bad[i].word));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_new_fills_both_pools_for_the_eviction_period, setup),
		cmocka_unit_test_setup(each_side_sends_what_it_prefilled, setup),
		cmocka_unit_test_setup(what_does_not_go_back_is_in_one_pool, setup),
		cmocka_unit_test_setup(nonsense_is_refused_with_its_name, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
