/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/link_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HUNGRY = 1000000000 };

#define M 1000000ULL

/* One round: links that could send can_bps use what they have of it. */
static void round_of(struct link_share *l, const uint64_t *can_bps, uint32_t n, uint64_t total)
{
	for (uint32_t i = 0; i < n; i++)
		l[i].used_bps = can_bps[i] < l[i].share_bps ? can_bps[i] : l[i].share_bps;
	link_share_split(l, n, total);
}

static uint64_t sum(const struct link_share *l, uint32_t n)
{
	uint64_t s = 0;

	for (uint32_t i = 0; i < n; i++)
		if (l[i].active)
			s += l[i].share_bps;
	return s;
}

static void hungry_links_get_the_same(void **state)
{
	struct link_share l[3] = { { .active = true, .used_bps = UINT64_MAX },
		{ .active = true, .used_bps = UINT64_MAX },
		{ .active = true, .used_bps = UINT64_MAX, .limit_bps = 10 * M } };

	(void)state;
	link_share_split(l, 3, 90 * M);
	assert_int_equal(l[0].share_bps, 40 * M);
	assert_int_equal(l[1].share_bps, 40 * M);
	assert_int_equal(l[2].share_bps, 10 * M);
}

static void an_idle_link_leaves_all_but_a_little(void **state)
{
	struct link_share l[2] = { { .active = true, .used_bps = UINT64_MAX },
		{ .active = false } };

	(void)state;
	link_share_split(l, 2, 64 * M);
	assert_int_equal(l[0].share_bps, 64 * M);
	assert_in_range(l[1].share_bps, 1 * M, M + 1);
	/* It wakes up and has its part at once. */
	l[1].active = true;
	l[0].used_bps = 64 * M;
	l[1].used_bps = UINT64_MAX;
	link_share_split(l, 2, 64 * M);
	assert_int_equal(l[0].share_bps, 32 * M);
	assert_int_equal(l[1].share_bps, 32 * M);
}

static void what_a_dead_link_does_not_use_others_get(void **state)
{
	uint64_t can[] = { HUNGRY, 0, HUNGRY };
	struct link_share l[3] = { { .active = true }, { .active = true }, { .active = true } };

	(void)state;
	for (int i = 0; i < 3; i++)
		l[i].used_bps = UINT64_MAX;
	link_share_split(l, 3, 96 * M);
	assert_int_equal(l[1].share_bps, 32 * M);
	round_of(l, can, 3, 96 * M);
	assert_true(l[1].share_bps < 2 * M);
	assert_true(l[0].share_bps > 47 * M && l[2].share_bps > 47 * M);
	/* And back: a few rounds. */
	can[1] = HUNGRY;
	round_of(l, can, 3, 96 * M);
	round_of(l, can, 3, 96 * M);
	assert_int_equal(l[1].share_bps, 32 * M);
}

static void a_slow_link_has_what_it_can_carry_and_some_room(void **state)
{
	uint64_t can[] = { HUNGRY, 10 * M };
	struct link_share l[2] = { { .active = true }, { .active = true } };

	(void)state;
	l[0].used_bps = l[1].used_bps = UINT64_MAX;
	link_share_split(l, 2, 100 * M);
	for (int i = 0; i < 10; i++) {
		round_of(l, can, 2, 100 * M);
		assert_in_range(l[1].share_bps, 10 * M, 17 * M);
		assert_true(l[0].share_bps > 80 * M);
	}
}

static void the_total_is_kept_and_not_wasted(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= 500; seed++) {
		struct link_share l[48];
		uint64_t can[48], total, want = 0;
		uint32_t n;

		srandom(seed);
		n = 1 + (uint32_t)random() % 48;
		total = (1 + (uint64_t)random() % 1000) * M;
		memset(l, 0, sizeof(l));
		for (uint32_t i = 0; i < n; i++) {
			l[i].active = random() % 4 != 0;
			l[i].limit_bps = random() % 3 == 0 ? (1 + (uint64_t)random() % 100) * M : 0;
			l[i].used_bps = UINT64_MAX;
			can[i] = random() % 2 ? HUNGRY : (uint64_t)random() % (200 * M);
			if (l[i].active)
				want += l[i].limit_bps != 0 ? l[i].limit_bps : total;
		}
		link_share_split(l, n, total);
		for (int i = 0; i < 20; i++) {
			assert_true(sum(l, n) <= total + n);
			for (uint32_t k = 0; k < n; k++) {
				assert_true(l[k].share_bps > 0);
				assert_true(
					l[k].limit_bps == 0 || l[k].share_bps <= l[k].limit_bps);
			}
			round_of(l, can, n, total);
		}
		if (want >= total && total > 48)
			for (uint32_t k = 0; k < n; k++)
				if (l[k].active && l[k].limit_bps == 0 && can[k] == HUNGRY)
					assert_true(sum(l, n) + 2 * n >= total);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hungry_links_get_the_same),
		cmocka_unit_test(an_idle_link_leaves_all_but_a_little),
		cmocka_unit_test(what_a_dead_link_does_not_use_others_get),
		cmocka_unit_test(a_slow_link_has_what_it_can_carry_and_some_room),
		cmocka_unit_test(the_total_is_kept_and_not_wasted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
