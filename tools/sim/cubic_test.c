/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/cubic.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS 1000000ULL
#define S  1000000000ULL

static void slow_start_doubles_a_round_until_the_delay_rises(void **state)
{
	struct cubic c;

	(void)state;
	cubic_init(&c);
	for (int round = 0; round < 5; round++) {
		uint32_t n = (uint32_t)c.cwnd;

		cubic_round(&c);
		for (uint32_t i = 0; i < n; i++) {
			cubic_rtt(&c, 100 * MS);
			cubic_acked(&c, S, 100 * MS, 1);
		}
		assert_true(fabs(c.cwnd - 2.0 * n) < 1);
	}
	cubic_round(&c);
	for (int i = 0; i < 8; i++)
		cubic_rtt(&c, 120 * MS);
	assert_true(c.ssthresh == c.cwnd);
}

static void loss_leaves_seven_tenths(void **state)
{
	struct cubic c;

	(void)state;
	cubic_init(&c);
	c.cwnd = 1000;
	cubic_lost(&c);
	assert_true(fabs(c.cwnd - 700) < 1e-6 && fabs(c.w_max - 1000) < 1e-6);
	/* Below the last maximum another 15 % are left to others. */
	cubic_lost(&c);
	assert_true(fabs(c.cwnd - 490) < 1e-6 && fabs(c.w_max - 700 * 0.85) < 1e-6);
}

/* RFC 9438 figure 1: back at w_max after K = cbrt(0.3 w_max / 0.4), flat there, then beyond. */
static void growth_follows_the_cubic_curve(void **state)
{
	const double k = cbrt(1000 * 0.3 / 0.4);
	const uint64_t rtt_ns = 50 * MS;
	double at_k = 0;
	struct cubic c;
	uint64_t now_ns = S;

	(void)state;
	cubic_init(&c);
	c.cwnd = 1000;
	cubic_lost(&c);
	for (; now_ns < S + (uint64_t)(1.5 * k * 1e9); now_ns += rtt_ns) {
		for (uint32_t n = (uint32_t)c.cwnd; n > 0; n--)
			cubic_acked(&c, now_ns, rtt_ns, 1);
		if (now_ns <= S + (uint64_t)(k * 1e9))
			at_k = c.cwnd;
	}
	assert_true(fabs(at_k - 1000) < 10);
	assert_true(c.cwnd > 1020 && c.cwnd < 1000 + 0.4 * pow(k / 2 + 0.2, 3));
}

static void on_short_paths_it_grows_like_reno(void **state)
{
	struct cubic c;
	double start;

	(void)state;
	cubic_init(&c);
	c.cwnd = 40;
	cubic_lost(&c);
	start = c.cwnd;
	/* 20 rounds of 1 ms: the curve is flat, Reno's line is 9/17 of a segment a round. */
	for (uint64_t round = 0; round < 20; round++)
		for (uint32_t n = (uint32_t)c.cwnd; n > 0; n--)
			cubic_acked(&c, S + round * MS, MS, 1);
	assert_true(c.cwnd - start > 8 && c.cwnd - start < 13);
}

static void a_timeout_starts_again_from_one(void **state)
{
	struct cubic c;

	(void)state;
	cubic_init(&c);
	c.cwnd = 100;
	cubic_timeout(&c);
	assert_true(c.cwnd == 1 && fabs(c.ssthresh - 70) < 1e-6);
	for (int i = 0; i < 69; i++)
		cubic_acked(&c, S, 50 * MS, 1);
	assert_true(fabs(c.cwnd - 70) < 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_start_doubles_a_round_until_the_delay_rises),
		cmocka_unit_test(loss_leaves_seven_tenths),
		cmocka_unit_test(growth_follows_the_cubic_curve),
		cmocka_unit_test(on_short_paths_it_grows_like_reno),
		cmocka_unit_test(a_timeout_starts_again_from_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
