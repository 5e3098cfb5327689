/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/cap_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define M UINT64_C(1000000)

static struct cap_flow flow(uint16_t link, bool active, uint64_t want)
{
	return (struct cap_flow){ .group = { link, CAP_NO_GROUP, CAP_NO_GROUP },
		.active = active,
		.want_bps = want };
}

static void one_edge_alone_has_the_whole_cap(void **state)
{
	struct cap_group g = { .cap_bps = 1000 * M };
	struct cap_flow f = flow(0, true, CAP_NONE);

	(void)state;
	cap_share(&f, 1, &g, 1);
	assert_int_equal(f.share_bps, 1000 * M);
	f.active = false;
	cap_share(&f, 1, &g, 1);
	assert_int_equal(f.share_bps, 1000 * M);
}

static void those_with_a_backlog_have_the_same(void **state)
{
	struct cap_group g = { .cap_bps = 1000 * M };
	struct cap_flow f[] = { flow(0, true, CAP_NONE), flow(0, true, CAP_NONE),
		flow(0, false, 0) };

	(void)state;
	cap_share(f, 3, &g, 1);
	assert_int_equal(f[0].share_bps, f[1].share_bps);
	assert_in_range(f[2].share_bps, 1, M);
	assert_in_range(f[0].share_bps + f[1].share_bps + f[2].share_bps, 1000 * M - 3, 1000 * M);
}

static void what_one_cannot_use_goes_to_the_other(void **state)
{
	struct cap_group g = { .cap_bps = 1000 * M };
	struct cap_flow f[] = { flow(0, true, 100 * M), flow(0, true, CAP_NONE) };

	(void)state;
	cap_share(f, 2, &g, 1);
	assert_int_equal(f[0].share_bps, 100 * M);
	assert_int_equal(f[1].share_bps, 900 * M);
	/* and what none of them wants is theirs all the same */
	f[1].want_bps = 200 * M;
	cap_share(f, 2, &g, 1);
	assert_int_equal(f[0].share_bps, 450 * M);
	assert_int_equal(f[1].share_bps, 550 * M);
}

static void at_rest_all_have_the_same(void **state)
{
	struct cap_group g = { .cap_bps = 1000 * M };
	struct cap_flow f[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		f[i] = flow(0, false, 0);
	cap_share(f, 4, &g, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(f[i].share_bps, 250 * M);
}

static void a_site_s_line_is_shared_by_its_links(void **state)
{
	/* 0: out of a, 1: link a to b, 2: into c */
	struct cap_group g[] = { { .cap_bps = 1000 * M }, { .cap_bps = 200 * M },
		{ .cap_bps = 5000 * M } };
	struct cap_flow f[] = {
		{ .group = { 0, 1, CAP_NO_GROUP }, .active = true, .want_bps = CAP_NONE },
		{ .group = { 0, 2, CAP_NO_GROUP }, .active = true, .want_bps = CAP_NONE },
		{ .group = { 0, 2, CAP_NO_GROUP }, .active = true, .want_bps = CAP_NONE },
	};

	(void)state;
	cap_share(f, 3, g, 3);
	assert_int_equal(f[0].share_bps, 200 * M);
	assert_int_equal(f[1].share_bps, 400 * M);
	assert_int_equal(f[2].share_bps, 400 * M);
}

static void without_a_cap_there_is_no_share(void **state)
{
	struct cap_group g = { .cap_bps = M };
	struct cap_flow f = flow(CAP_NO_GROUP, true, CAP_NONE);

	(void)state;
	cap_share(&f, 1, &g, 1);
	assert_int_equal(f.share_bps, CAP_NONE);
	cap_share(NULL, 0, NULL, 0);
}

static uint64_t rnd(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	return *x ^= *x << 17;
}

/* Sums never above caps; nothing is left over that a hungry flow could have. */
static void shares_fit_and_nothing_is_wasted_by_seed(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		struct cap_group g[6] = { 0 };
		struct cap_flow f[24];
		uint64_t x = seed * 0x9e3779b97f4a7c15u, sum[6] = { 0 };
		size_t n = 1 + rnd(&x) % 24;

		for (int i = 0; i < 6; i++)
			g[i].cap_bps = 1 + rnd(&x) % (rnd(&x) % 3 == 0 ? 2000 : 10000 * M);
		for (size_t i = 0; i < n; i++) {
			f[i] = flow(CAP_NO_GROUP, rnd(&x) % 2,
				rnd(&x) % 2 ? CAP_NONE : rnd(&x) % (2000 * M));
			for (int k = 0; k < CAP_GROUPS; k++)
				if (rnd(&x) % 3 > 0)
					f[i].group[k] = (uint16_t)(2 * k + (int)(rnd(&x) % 2));
		}
		cap_share(f, n, g, 6);
		for (size_t i = 0; i < n; i++)
			for (int k = 0; k < CAP_GROUPS; k++)
				if (f[i].group[k] != CAP_NO_GROUP)
					sum[f[i].group[k]] += f[i].share_bps;
		for (int i = 0; i < 6; i++)
			assert_true(sum[i] <= g[i].cap_bps);
		for (size_t i = 0; i < n; i++) {
			bool bound = f[i].share_bps == CAP_NONE;

			for (int k = 0; k < CAP_GROUPS; k++)
				if (f[i].group[k] != CAP_NO_GROUP &&
					g[f[i].group[k]].cap_bps - sum[f[i].group[k]] < 2 * n)
					bound = true;
			assert_true(bound);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_edge_alone_has_the_whole_cap),
		cmocka_unit_test(those_with_a_backlog_have_the_same),
		cmocka_unit_test(what_one_cannot_use_goes_to_the_other),
		cmocka_unit_test(at_rest_all_have_the_same),
		cmocka_unit_test(a_site_s_line_is_shared_by_its_links),
		cmocka_unit_test(without_a_cap_there_is_no_share),
		cmocka_unit_test(shares_fit_and_nothing_is_wasted_by_seed),
	};

	return cmocka_run_group_tests_name("cap_share", tests, NULL, NULL);
}
