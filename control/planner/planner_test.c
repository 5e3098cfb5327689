/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/planner.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { T = 1800000000, COOL_S = 600 };

static const struct planner_config config = { .keys = 1000,
	.wanted_max = 10000,
	.memory_entries = 1 << 16,
	.evicted_s = COOL_S,
	.echo_s = 86400,
	.asked_s = 3600 };

static const struct planner_policy open_policy = { .allow = true, .class = WANTED_NORMAL };

static struct log_record record(uint64_t n, enum log_op op)
{
	uint64_t x = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return (struct log_record){ .digest = { x ^ x >> 33, x * 3 },
		.size = 1000,
		.op = (uint8_t)op };
}

static void stored(struct planner *p, uint16_t site, uint64_t n)
{
	struct log_record r = record(n, LOG_STORED);

	assert_true(planner_event(p, site, &r, 1, T) >= 0);
}

static void removed(struct planner *p, uint16_t site, uint64_t n)
{
	struct log_record r = record(n, LOG_REMOVED);

	assert_true(planner_event(p, site, &r, 1, T) >= 0);
}

static bool is_wanted(struct planner *p, uint16_t site, uint64_t n)
{
	return wanted_has(planner_wanted(p, site), record(n, LOG_STORED).digest);
}

static struct planner *two_ways(void)
{
	struct planner *p = planner_create(&config);

	assert_non_null(p);
	assert_int_equal(planner_policy_set(p, 0, 1, &open_policy), 0);
	assert_int_equal(planner_policy_set(p, 1, 0, &open_policy), 0);
	assert_int_equal(planner_policy_set(p, 0, 0, &open_policy), -EINVAL);
	return p;
}

static void what_is_missing_is_wanted_until_it_comes_or_goes(void **state)
{
	struct planner *p = two_ways();

	(void)state;
	stored(p, 0, 1);
	assert_true(is_wanted(p, 1, 1));
	assert_false(is_wanted(p, 0, 1));
	stored(p, 1, 1);
	assert_false(is_wanted(p, 1, 1));
	stored(p, 0, 2);
	removed(p, 0, 2);
	assert_false(is_wanted(p, 1, 2));
	planner_destroy(p);
}

static void evicted_object_is_not_pushed_back_until_it_is_asked_for(void **state)
{
	struct planner *p = two_ways();
	struct log_record r = record(1, LOG_STORED);
	struct planner_stats st;

	(void)state;
	stored(p, 1, 1);
	stored(p, 0, 1);
	removed(p, 1, 1);
	assert_false(is_wanted(p, 1, 1));
	removed(p, 0, 1);
	stored(p, 0, 1); /* once more at the source: site 1 let it go a moment ago */
	assert_false(is_wanted(p, 1, 1));
	planner_stats_get(p, &st);
	assert_int_equal(st.suppressed, 1);
	assert_true(planner_asked(p, 1, &r, true, 1, T));
	assert_true(is_wanted(p, 1, 1));
	/* After the cool-down it is pushed as any other. */
	stored(p, 1, 1);
	removed(p, 1, 1);
	removed(p, 0, 1);
	assert_int_equal(planner_event(p, 0, &r, 1, T + COOL_S + 1), 1);
	assert_true(is_wanted(p, 1, 1));
	planner_destroy(p);
}

static void what_we_brought_does_not_go_back_or_on(void **state)
{
	struct planner *p = two_ways();
	struct log_record r = record(1, LOG_STORED), ours = record(2, LOG_STORED);

	(void)state;
	assert_int_equal(planner_policy_set(p, 1, 2, &open_policy), 0);
	stored(p, 0, 1);
	planner_bringing(p, 1, r.digest, T);
	removed(p, 0, 1);
	stored(p, 1, 1);
	assert_false(is_wanted(p, 0, 1));
	assert_false(is_wanted(p, 2, 1));
	ours.flags = LOG_FLAG_OURS;
	assert_int_equal(planner_event(p, 1, &ours, 1, T), 1);
	assert_false(is_wanted(p, 0, 2));
	planner_destroy(p);
}

static void what_only_an_engine_has_is_not_planned_nor_evicted(void **state)
{
	struct planner *p = two_ways();
	struct log_record r = record(1, LOG_STORED), gone = record(1, LOG_REMOVED);
	struct planner_stats st;

	(void)state;
	r.flags = gone.flags = LOG_FLAG_FIXED;
	assert_int_equal(planner_event(p, 0, &r, 1, T), 1);
	assert_false(is_wanted(p, 1, 1));
	planner_stats_get(p, &st);
	assert_int_equal(st.fixed, 1);
	/* a pool of site 0 has it, too: the log tells by going and coming */
	assert_int_equal(planner_event(p, 0, &gone, 1, T), 1);
	stored(p, 0, 1);
	assert_true(is_wanted(p, 1, 1));
	/* an engine of site 1 lets it go: that is no eviction of the site's pool */
	assert_int_equal(planner_event(p, 1, &r, 1, T), 1);
	assert_false(is_wanted(p, 1, 1));
	assert_int_equal(planner_event(p, 1, &gone, 1, T), 1);
	assert_int_equal(planner_event(p, 0, &gone, 1, T), 1);
	stored(p, 0, 1);
	assert_true(is_wanted(p, 1, 1));
	planner_destroy(p);
}

/* Object 1 is at sites 0 and 1, which both may ship to 2. */
static void two_sources(struct planner *p)
{
	assert_int_equal(planner_policy_set(p, 0, 2, &open_policy), 0);
	assert_int_equal(planner_policy_set(p, 1, 2, &open_policy), 0);
	stored(p, 0, 1);
	stored(p, 1, 1);
}

static void another_source_serves_when_one_lets_go(void **state)
{
	struct planner *p = planner_create(&config);
	struct wanted_object out[1];

	(void)state;
	two_sources(p);
	removed(p, 0, 1);
	assert_int_equal(wanted_take(planner_wanted(p, 2), out, 1), 1);
	assert_int_equal(out[0].from, 1);
	planner_destroy(p);
}

static void take(struct planner *p, uint64_t n, uint16_t from)
{
	struct wanted_object out[1];

	assert_int_equal(wanted_take(planner_wanted(p, 2), out, 1), 1);
	assert_true(digest_equal(out[0].digest, record(n, LOG_STORED).digest));
	assert_int_equal(out[0].from, from);
}

static void another_source_serves_when_one_is_held(void **state)
{
	struct planner_policy small = { .allow = true, .class = WANTED_BULK, .most_bytes = 10 };
	struct planner_policy late = { .allow = true, .class = WANTED_BULK, .after = 2 };
	struct planner *p = planner_create(&config);
	struct log_record r = record(3, LOG_STORED);
	struct wanted_object out[1];

	(void)state;
	two_sources(p);
	planner_hold(p, 2, 1 << 0);
	planner_reroute(p, 2);
	take(p, 1, 1);
	/* what appears while it is held, there first, there last */
	stored(p, 0, 2);
	stored(p, 1, 2);
	take(p, 2, 1);
	planner_hold(p, 2, 1 << 1);
	stored(p, 1, 3);
	stored(p, 0, 3);
	take(p, 3, 0);
	assert_true(planner_asked(p, 2, &r, true, 1, T));
	take(p, 3, 0);
	planner_hold(p, 2, 1 << 0);
	assert_true(planner_asked(p, 2, &r, true, 1, T));
	take(p, 3, 1);
	/* not what its own policy would not let through, or not yet */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(planner_policy_set(p, 1, 2, i == 0 ? &small : &late), 0);
		stored(p, 1, 4 + (uint64_t)i);
		stored(p, 0, 4 + (uint64_t)i);
		planner_reroute(p, 2);
		assert_int_equal(wanted_take(planner_wanted(p, 2), out, 1), 0);
	}
	planner_hold(p, 2, 0);
	take(p, 4, 0);
	take(p, 5, 0);
	planner_destroy(p);
}

static void policy_filters_by_size_tenant_and_demand(void **state)
{
	struct planner *p = planner_create(&config);
	struct planner_policy y = { .allow = true,
		.class = WANTED_BULK,
		.after = 2,
		.least_bytes = 100,
		.most_bytes = 2000,
		.tenants = 1 << 3 };
	struct log_record r = record(1, LOG_STORED);

	(void)state;
	assert_int_equal(planner_policy_set(p, 0, 1, &y), 0);
	assert_int_equal(planner_event(p, 0, &r, 1, T), 1); /* tenant 0 */
	assert_false(planner_asked(p, 1, &r, true, 1, T));
	r = record(2, LOG_STORED);
	r.tenant = 3;
	r.size = 4000;
	assert_int_equal(planner_event(p, 0, &r, 1, T), 1);
	assert_false(planner_asked(p, 1, &r, true, 1, T));
	r = record(3, LOG_STORED);
	r.tenant = 3;
	assert_int_equal(planner_event(p, 0, &r, 1, T), 1);
	assert_false(is_wanted(p, 1, 3));
	assert_false(planner_asked(p, 1, &r, false, 1, T));
	assert_true(planner_asked(p, 1, &r, false, 1, T));
	assert_true(is_wanted(p, 1, 3));
	planner_destroy(p);
}

static void snapshot_replaces_a_site_and_plans_no_history(void **state)
{
	struct planner *p = two_ways();
	struct log_record r;

	(void)state;
	for (uint64_t n = 0; n < 10; n++)
		stored(p, 0, n);
	assert_true(is_wanted(p, 1, 3));
	/* Site 0 came back with 5 .. 14; site 1 turns out to have 9. */
	for (uint64_t n = 5; n < 15; n++) {
		r = record(n, LOG_STORED);
		assert_int_equal(planner_load(p, 0, &r), 1);
		assert_int_equal(planner_load(p, 0, &r), 0);
	}
	planner_swap(p, 0, 0, DIGEST_BUCKETS - 1);
	r = record(9, LOG_STORED);
	assert_int_equal(planner_load(p, 1, &r), 1);
	planner_swap(p, 1, 0, DIGEST_BUCKETS - 1);
	for (uint64_t n = 0; n < 15; n++) {
		uint64_t v = index_value(planner_index(p), record(n, LOG_STORED).digest);

		assert_int_equal(v, (n >= 5) * INDEX_PRESENT(0) | (n == 9) * INDEX_PRESENT(1));
		assert_int_equal(is_wanted(p, 1, n), n >= 5 && n < 9);
	}
	r = record(12, LOG_STORED);
	planner_backfill(p, 0, &r, 1, T);
	assert_true(is_wanted(p, 1, 12));
	/* A snapshot that fails leaves everything. */
	r = record(20, LOG_STORED);
	assert_int_equal(planner_load(p, 0, &r), 1);
	planner_drop(p, 0);
	assert_int_equal(index_value(planner_index(p), r.digest), 0);
	assert_int_equal(index_value(planner_index(p), record(5, LOG_STORED).digest),
		INDEX_PRESENT(0));
	planner_destroy(p);
}

/* In a generation of its own, and in the present one of a site that is loaded as the first time. */
static void buckets_that_come_again_are_forgotten_alone(void **state)
{
	(void)state;
	for (int direct = 0; direct < 2; direct++) {
		struct planner *p = two_ways();
		uint64_t buckets[DIGEST_SET_WORDS] = { 0 };
		struct log_record r[3];
		uint64_t bit = direct ? INDEX_PRESENT(0) : INDEX_LOADING(0);

		if (!direct)
			stored(p, 0, 100);
		for (uint64_t n = 0; n < 3; n++) {
			r[n] = record(n, LOG_STORED);
			assert_int_equal(planner_load(p, 0, &r[n]), 1);
			if (n != 1)
				digest_set_add(buckets, digest_bucket(r[n].digest));
		}
		planner_forget(p, 0, buckets);
		for (uint64_t n = 0; n < 3; n++)
			assert_int_equal(index_value(planner_index(p), r[n].digest) & bit,
				n == 1 ? bit : 0);
		assert_int_equal(planner_load(p, 0, &r[1]), 0);
		assert_int_equal(planner_load(p, 0, &r[2]), 1);
		planner_swap(p, 0, 0, DIGEST_BUCKETS - 1);
		for (uint64_t n = 0; n < 3; n++)
			assert_int_equal(index_value(planner_index(p), r[n].digest),
				n > 0 ? INDEX_PRESENT(0) : 0);
		assert_int_equal(index_value(planner_index(p), record(100, LOG_STORED).digest), 0);
		planner_destroy(p);
	}
}

/* ---- any events, against sets that are compared as a whole ---- */

enum { SITES = 5, KEYS = 300, STEPS = 60000 };

static uint64_t draw(uint64_t *seed, uint64_t n)
{
	uint64_t x = *seed += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) % n;
}

static uint64_t value(struct planner *p, uint64_t n)
{
	return index_value(planner_index(p), record(n, LOG_STORED).digest);
}

static void load(struct planner *p, uint16_t site, uint64_t n, enum log_op op, int changed)
{
	struct log_record r = record(n, op);

	assert_int_equal(planner_load(p, site, &r), changed);
}

static void what_waits_is_not_brought_by_a_policy_that_is_gone(void **state)
{
	static const struct planner_policy none = { .allow = false };
	struct wanted_object out[2];
	struct planner *p = two_ways();

	(void)state;
	assert_int_equal(planner_policy_set(p, 2, 1, &open_policy), 0);
	stored(p, 0, 1);
	stored(p, 0, 2);
	stored(p, 2, 2);
	assert_int_equal(planner_policy_set(p, 0, 1, &none), 0);
	assert_false(is_wanted(p, 1, 1));
	assert_int_equal(wanted_take(planner_wanted(p, 1), out, 2), 1);
	assert_int_equal(out[0].from, 2);
	planner_destroy(p);
}

static void what_went_while_a_snapshot_failed_is_not_waited_for(void **state)
{
	struct planner *p = two_ways();

	(void)state;
	stored(p, 0, 1);
	assert_true(is_wanted(p, 1, 1));
	load(p, 1, 1, LOG_STORED, 1);
	removed(p, 0, 1);
	planner_drop(p, 1);
	assert_int_equal(value(p, 1), 0);
	assert_false(is_wanted(p, 1, 1));
	planner_destroy(p);
}

static void first_snapshot_of_a_site_needs_no_walk_and_can_be_dropped(void **state)
{
	struct planner *p = two_ways();

	(void)state;
	stored(p, 0, 2);
	load(p, 1, 1, LOG_STORED, 1);
	load(p, 1, 1, LOG_STORED, 0);
	load(p, 1, 2, LOG_STORED, 1);
	assert_int_equal(value(p, 1), INDEX_PRESENT(1));
	assert_int_equal(value(p, 2), INDEX_PRESENT(0) | INDEX_PRESENT(1));
	planner_drop(p, 1);
	assert_int_equal(value(p, 1), 0);
	assert_int_equal(value(p, 2), INDEX_PRESENT(0));
	load(p, 1, 3, LOG_STORED, 1);
	load(p, 1, 4, LOG_STORED, 1);
	load(p, 1, 3, LOG_REMOVED, 1);
	planner_swap(p, 1, 0, DIGEST_BUCKETS - 1);
	assert_int_equal(value(p, 3), 0);
	assert_int_equal(value(p, 4), INDEX_PRESENT(1));
	/* Now there is something to keep: the next one is apart until it is whole. */
	load(p, 1, 5, LOG_STORED, 1);
	assert_int_equal(value(p, 5), INDEX_LOADING(1));
	planner_drop(p, 1);
	assert_int_equal(value(p, 5), 0);
	assert_int_equal(value(p, 4), INDEX_PRESENT(1));
	load(p, 1, 6, LOG_STORED, 1);
	planner_swap(p, 1, 0, DIGEST_BUCKETS - 1);
	assert_int_equal(value(p, 4), 0);
	assert_int_equal(value(p, 6), INDEX_PRESENT(1));
	/* Empty again: a snapshot of nothing, then one of something. */
	removed(p, 1, 6);
	planner_swap(p, 1, 0, DIGEST_BUCKETS - 1);
	load(p, 1, 7, LOG_STORED, 1);
	assert_int_equal(value(p, 7), INDEX_PRESENT(1));
	/* A snapshot of nothing takes what was there. */
	planner_swap(p, 1, 0, DIGEST_BUCKETS - 1);
	planner_swap(p, 1, 0, DIGEST_BUCKETS - 1);
	assert_int_equal(value(p, 7), 0);
	assert_int_equal(value(p, 2), INDEX_PRESENT(0));
	planner_destroy(p);
}

static void incremental_diff_is_the_difference_of_the_sets(void **state)
{
	static bool has[SITES][KEYS], allow[SITES][SITES];
	static uint64_t gone_s[SITES][KEYS];
	struct planner *p = planner_create(&config);
	uint64_t seed = 3, now_s = T;

	(void)state;
	for (uint16_t i = 0; i < SITES; i++)
		for (uint16_t j = 0; j < SITES; j++)
			if (i != j && draw(&seed, 3) > 0) {
				allow[i][j] = true;
				assert_int_equal(planner_policy_set(p, i, j, &open_policy), 0);
			}
	for (int step = 0; step < STEPS; step++) {
		uint16_t s = (uint16_t)draw(&seed, SITES);
		uint64_t k = draw(&seed, KEYS);
		struct log_record r = record(k, draw(&seed, 2) ? LOG_STORED : LOG_REMOVED);
		bool now = r.op == LOG_STORED;

		now_s += draw(&seed, 3);
		assert_int_equal(planner_event(p, s, &r, 1, now_s), has[s][k] != now);
		if (has[s][k] && !now)
			gone_s[s][k] = now_s;
		has[s][k] = now;
		if (step % 100)
			continue;
		for (uint16_t to = 0; to < SITES; to++)
			for (k = 0; k < KEYS; k++) {
				bool source = false, cool = now_s - gone_s[to][k] >= COOL_S;

				for (uint16_t from = 0; from < SITES; from++)
					source |= allow[from][to] && has[from][k];
				/* Nothing that is there or that nobody has is wanted .. */
				if (has[to][k] || !source)
					assert_false(is_wanted(p, to, k));
				/* .. and nothing that was never there is left out. */
				else if (gone_s[to][k] == 0)
					assert_true(is_wanted(p, to, k));
				/* What was evicted lately is not pushed back. */
				else if (!cool)
					assert_false(is_wanted(p, to, k));
			}
	}
	planner_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_missing_is_wanted_until_it_comes_or_goes),
		cmocka_unit_test(evicted_object_is_not_pushed_back_until_it_is_asked_for),
		cmocka_unit_test(what_we_brought_does_not_go_back_or_on),
		cmocka_unit_test(what_only_an_engine_has_is_not_planned_nor_evicted),
		cmocka_unit_test(another_source_serves_when_one_lets_go),
		cmocka_unit_test(another_source_serves_when_one_is_held),
		cmocka_unit_test(policy_filters_by_size_tenant_and_demand),
		cmocka_unit_test(snapshot_replaces_a_site_and_plans_no_history),
		cmocka_unit_test(first_snapshot_of_a_site_needs_no_walk_and_can_be_dropped),
		cmocka_unit_test(what_waits_is_not_brought_by_a_policy_that_is_gone),
		cmocka_unit_test(what_went_while_a_snapshot_failed_is_not_waited_for),
		cmocka_unit_test(buckets_that_come_again_are_forgotten_alone),
		cmocka_unit_test(incremental_diff_is_the_difference_of_the_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
