/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/federation_world.h"

/* A site gets little at first: a new one, one that comes back, one that lost what it held. */

/* Both ends of the batch that was begun last answer, and its order does what it should. */
static void all_comes(struct world *w)
{
	expanded(w, true);
	offered(w, FEDERATION_BRING);
	ended(w, FEDERATION_DONE);
}

static void a_site_begins_slowly(void **state)
{
	struct world *w = *state;

	for (uint32_t i = 0; i < 4 * FEDERATION_BATCH; i++)
		happens(w, A, i, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->expands, 1);
	assert_int_equal(w->n, FEDERATION_BATCH);
	all_comes(w);
	tick(w, 1);
	assert_int_equal(w->expands, 3);
}

/* It has had the whole window, and nothing is on its way there. */
static void filled(struct world *w, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		happens(w, A, i, LOG_STORED);
		tick(w, 1);
		all_comes(w);
		happens(w, B, i, LOG_STORED);
	}
	assert_int_equal(w->f->site[B].window, FEDERATION_WINDOW);
	assert_int_equal(w->f->site[B].batches, 0);
}

/* Much is wanted: more is under way with what comes, and never more than the window. */
static void begins_slowly(struct world *w)
{
	w->expands = 0;
	tick(w, 1);
	tick(w, 1);
	assert_int_equal(w->expands, 1);
	assert_int_equal(w->f->site[B].flow.flying, FEDERATION_BATCH);
	for (unsigned int window = 2; window <= FEDERATION_WINDOW; window *= 2) {
		all_comes(w);
		tick(w, 1);
		assert_int_equal(w->f->site[B].batches, window);
		assert_int_equal(w->f->site[B].flow.flying, window * FEDERATION_BATCH);
	}
	all_comes(w);
	tick(w, 1);
	assert_int_equal(w->f->site[B].batches, FEDERATION_WINDOW);
}

static void a_site_that_comes_back_empty_begins_slowly(void **state)
{
	enum { HELD = 10, MORE = 20 * FEDERATION_BATCH };
	struct log_frame f = { .type = LOG_FRAME_WALKED, .bucket = DIGEST_BUCKETS - 1 };
	struct log_record r[HELD];
	uint8_t head[LOG_FRAME_HEADER_BYTES];
	struct world *w = *state;

	filled(w, HELD);
	federation_close(w->f, B, w->now_ns);
	for (uint32_t i = 0; i < MORE; i++)
		happens(w, A, 1000 + i, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->expands, HELD);
	bring_up(w, B);
	for (uint32_t i = 0; i < HELD; i++) {
		assert_int_equal(index_value(planner_index(w->f->planner), digest(i)),
			INDEX_PRESENT(A));
		r[i] = (struct log_record){ .digest = digest(i), .size = 1000, .op = LOG_STORED };
	}
	/* all it lost is wanted again */
	assert_int_equal(federation_backfill(w->f, A), 0);
	do
		assert_true(federation_pull(w->f, A, w->now_ns, head));
	while (head[0] != LOG_FRAME_WALK);
	assert_int_equal(input(w, A, &f, r, HELD), 0);
	for (uint32_t i = 0; i < HELD; i++)
		assert_true(wanted_has(planner_wanted(w->f->planner, B), digest(i)));
	begins_slowly(w);
}

/* What it holds now is not known yet: perhaps as much as before. */
static void a_site_whose_site_master_comes_back_begins_slowly(void **state)
{
	static const uint16_t tenants[] = { 5 };
	struct world *w = *state;

	filled(w, 10);
	federation_close(w->f, B, w->now_ns);
	for (uint32_t i = 0; i < 20 * FEDERATION_BATCH; i++)
		happens(w, A, 1000 + i, LOG_STORED);
	federation_open(w->f, B, tenants, 1, w->now_ns);
	begins_slowly(w);
}

static void a_site_that_loses_all_that_it_held_begins_slowly(void **state)
{
	enum { HELD = 10, MORE = 20 * FEDERATION_BATCH };
	struct world *w = *state;

	filled(w, HELD);
	for (uint32_t i = 1; i < HELD; i++)
		happens(w, B, i, LOG_REMOVED);
	tick(w, 1);
	assert_int_equal(w->f->site[B].window, FEDERATION_WINDOW); /* one is left */
	happens(w, B, 0, LOG_REMOVED);
	/* it was said to be evicted, so it is wanted again by those who ask */
	for (uint32_t i = 0; i < MORE; i++) {
		uint32_t object = i < HELD ? i : 1000 + i;

		happens(w, A, object, LOG_STORED);
		assert_true(federation_asked(w->f, B, digest(object), 5, true, w->now_ns, NOW_S));
	}
	begins_slowly(w);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_site_begins_slowly),
		TEST(a_site_that_comes_back_empty_begins_slowly),
		TEST(a_site_whose_site_master_comes_back_begins_slowly),
		TEST(a_site_that_loses_all_that_it_held_begins_slowly),
	};

	return cmocka_run_group_tests_name("federation_slow", tests, NULL, NULL);
}
