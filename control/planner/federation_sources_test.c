/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/federation_world.h"

/* Of several sites that have an object some are away. */

static void source_without_an_edge_holds_up_no_other(void **state)
{
	struct world *w = *state;

	add_c(w);
	w->away = 1 << A;
	for (uint32_t i = 0; i < 2 * FEDERATION_BATCH; i++)
		happens(w, A, i, LOG_STORED);
	happens(w, C, 1000, LOG_STORED);
	tick_soon(w);
	assert_int_equal(w->expands, 1);
	assert_int_equal(w->expand_from, C);
	assert_true(digest_equal(w->d[0], digest(1000)));
	w->f->site[B].window =
		FEDERATION_WINDOW; /* it begins slowly, which is not of interest here */
	for (uint32_t i = 1; i < 5; i++) {
		happens(w, C, 1000 + i, LOG_STORED);
		tick_soon(w);
		assert_int_equal(w->expands, 1 + i);
		assert_true(digest_equal(w->d[0], digest(1000 + i)));
	}
	assert_int_equal(wanted(w), 2 * FEDERATION_BATCH);
	/* with its edge all of A's goes, too, and the oldest first */
	w->away = 0;
	tick_soon(w);
	assert_int_equal(w->expands, 7);
	assert_int_equal(w->expand_from, A);
	assert_int_equal(wanted(w), 0);
}

static void source_that_cannot_be_asked_holds_up_no_other(void **state)
{
	struct world *w = *state;

	add_c(w);
	happens(w, A, 1, LOG_STORED);
	happens(w, C, 2, LOG_STORED);
	w->f->site[B].window = FEDERATION_WINDOW;
	tick_soon(w);
	assert_int_equal(w->expands, 2);
	federation_close(w->f, A, w->now_ns); /* its batch is given up */
	assert_int_equal(w->f->site[B].batches, 1);
	happens(w, C, 3, LOG_STORED);
	tick_soon(w);
	assert_int_equal(w->expands, 3);
	assert_int_equal(w->expand_from, C);
	assert_int_equal(w->f->site[B].window, FEDERATION_WINDOW);
	assert_int_equal(wanted(w), 1);
}

static void what_another_site_has_does_not_wait_for_one_that_is_away(void **state)
{
	struct world *w = *state;

	add_c(w);
	w->away = 1 << A | 1 << C;
	happens(w, A, 1, LOG_STORED);
	happens(w, C, 1, LOG_STORED);
	happens(w, A, 2, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->expands, 0);
	/* one is back, and it is not the one from which it was to come */
	w->away = 1 << A;
	tick(w, 10);
	assert_int_equal(w->expands, 1);
	assert_int_equal(w->expand_from, C);
	assert_true(w->n == 1 && digest_equal(w->d[0], digest(1)));
	assert_int_equal(wanted(w), 1);
	/* what only the one that is away had, and now another has, too */
	w->f->site[B].window = FEDERATION_WINDOW;
	happens(w, C, 2, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->expands, 2);
	assert_int_equal(w->expand_from, C);
	/* this one cannot be asked any more, and the other can */
	w->away = 0;
	federation_close(w->f, C, w->now_ns);
	tick(w, 1);
	assert_int_equal(w->expands, 3);
	assert_int_equal(w->expand_from, A);
	assert_int_equal(w->n, 2);
}

/* B takes it, and A, which has it as C has, is asked for it. */
static void wanted_of_two(struct world *w)
{
	add_c(w);
	happens(w, A, 1, LOG_STORED);
	happens(w, C, 1, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->expand_from, A);
	offered(w, FEDERATION_BRING);
}

static void other_is_asked(struct world *w)
{
	assert_int_equal(w->f->site[B].flow.gone, 0);
	tick(w, 1);
	assert_int_equal(w->expands, 2);
	assert_int_equal(w->expand_from, C);
}

static void what_a_source_has_no_more_is_asked_of_another(void **state)
{
	struct world *w = *state;

	wanted_of_two(w);
	expanded(w, false);
	other_is_asked(w);
	/* nor has it the other: whatever the views say, neither is asked for ever */
	offered(w, FEDERATION_BRING);
	expanded(w, false);
	tick(w, 1);
	assert_int_equal(w->expands, 2);
	assert_int_equal(w->f->site[B].flow.gone, 1);
	assert_int_equal(w->f->site[B].flow.flying, 0);
	assert_int_equal(wanted(w), 0);
}

static void what_left_its_source_under_way_comes_from_another(void **state)
{
	struct world *w = *state;

	wanted_of_two(w);
	expanded(w, true);
	assert_int_equal(w->order.from, A);
	ended(w, FEDERATION_ABSENT);
	other_is_asked(w);
	offered(w, FEDERATION_BRING);
	expanded(w, true);
	assert_int_equal(w->orders, 2);
	assert_int_equal(w->order.from, C);
	/* nor has it the other: it is ordered a third time from nobody, whatever the views say */
	ended(w, FEDERATION_ABSENT);
	for (int i = 0; i < 10; i++)
		tick(w, 100);
	assert_int_equal(w->orders, 2);
	assert_int_equal(w->expands, 2);
	assert_int_equal(w->f->site[B].flow.gone, 1);
	assert_int_equal(w->f->site[B].flow.flying, 0);
	assert_int_equal(wanted(w), 0);
	/* until one stores it anew */
	happens(w, C, 1, LOG_REMOVED);
	happens(w, C, 1, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->expands, 3);
	assert_int_equal(w->expand_from, C);
}

static void what_left_its_only_source_under_way_is_dropped(void **state)
{
	struct world *w = *state;
	struct planner_policy none = { .allow = false };

	add_c(w);
	assert_int_equal(federation_policy_set(w->f, C, B, &none, 0), 0);
	happens(w, A, 1, LOG_STORED);
	happens(w, C, 1, LOG_STORED);
	tick(w, 1);
	offered(w, FEDERATION_BRING);
	expanded(w, true);
	/* C has it, but no policy lets it come from there */
	ended(w, FEDERATION_ABSENT);
	tick(w, 100);
	assert_int_equal(w->orders, 1);
	assert_int_equal(w->f->site[B].flow.gone, 1);
	assert_int_equal(wanted(w), 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(source_without_an_edge_holds_up_no_other),
		TEST(source_that_cannot_be_asked_holds_up_no_other),
		TEST(what_another_site_has_does_not_wait_for_one_that_is_away),
		TEST(what_a_source_has_no_more_is_asked_of_another),
		TEST(what_left_its_source_under_way_comes_from_another),
		TEST(what_left_its_only_source_under_way_is_dropped),
	};

	return cmocka_run_group_tests_name("federation_sources", tests, NULL, NULL);
}
