/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/*
 * The controller against a fluid model of a bottleneck: the queue grows by what arrives beyond the
 * line rate, another flow may take a share, a share of what leaves is lost behind it.
 */

#define MS UINT64_C(1000000)

enum { STEP_US = 500, HISTORY = 4096 };

struct line {
	struct rate r;
	double bps, rtt_ms, loss, queue_ms, limit_ms, cross_bps;
	bool bulk;
	uint64_t now_us;
	double sent_bps[HISTORY], queue_at[HISTORY]; /* by step */
	double arrived, lost;
	uint64_t next_report_us;
	double max_queue_ms;
};

static void line_init(struct line *l, double bps, double rtt_ms, uint64_t cap)
{
	*l = (struct line){ .bps = bps, .rtt_ms = rtt_ms, .limit_ms = rtt_ms, .now_us = 1000000 };
	rate_init(&l->r, cap);
	for (int i = 0; i < HISTORY; i++)
		l->sent_bps[i] = (double)l->r.rate_bps;
}

/* Run for ms; returns the mean rate that arrived. */
static double line_run(struct line *l, double ms)
{
	uint64_t end = l->now_us + (uint64_t)(ms * 1000);
	double total = 0;

	l->max_queue_ms = 0;
	for (; l->now_us < end; l->now_us += STEP_US) {
		uint64_t step = l->now_us / STEP_US;
		double half = l->rtt_ms / 2, mine = (double)l->r.rate_bps, load, out, dropped;
		uint64_t back = (uint64_t)(l->rtt_ms * 1000 / 2 / STEP_US);

		l->sent_bps[step % HISTORY] = mine;
		load = mine + l->cross_bps;
		out = load;
		if (load > l->bps || l->queue_ms > 0) {
			out = l->bps;
			l->queue_ms += (load / l->bps - 1) * STEP_US / 1000;
		}
		if (l->queue_ms < 0)
			l->queue_ms = 0;
		dropped = 0;
		if (l->queue_ms > l->limit_ms) {
			dropped = (l->queue_ms - l->limit_ms) * l->bps / 8e3 * mine / load;
			l->queue_ms = l->limit_ms;
		}
		if (l->queue_ms > l->max_queue_ms)
			l->max_queue_ms = l->queue_ms;
		l->queue_at[step % HISTORY] = l->queue_ms;
		out *= mine / load;
		total += out;
		/* What the report of now says left the bottleneck half a round trip ago. */
		l->arrived += out * (1 - l->loss) * STEP_US / 8e6;
		l->lost += out * l->loss * STEP_US / 8e6 + dropped;
		if (l->now_us >= l->next_report_us) {
			double queue = l->queue_at[(step - back) % HISTORY];
			uint64_t newest_us = l->now_us - (uint64_t)(half * 1000);
			struct rate_report p = {
				.now_ns = l->now_us * 1000,
				.sent_ns =
					(uint64_t)((double)newest_us * 1000 - (half + queue) * 1e6),
				.newest_us = newest_us,
				.bytes = (uint64_t)l->arrived,
				.lost = (uint64_t)l->lost,
				.spread_lost = (uint64_t)l->lost,
				.rtt_ns = (uint64_t)((l->rtt_ms + queue) * 1e6),
				.min_rtt_ns = (uint64_t)(l->rtt_ms * 1e6),
				.limited = true,
				.bulk = l->bulk,
			};

			rate_report(&l->r, &p);
			l->arrived = l->lost = 0;
			l->next_report_us = l->now_us + (uint64_t)(l->rtt_ms * 1000 / 6);
		}
	}
	return total / (ms * 1000 / STEP_US);
}

static void a_cap_below_the_line_is_used_whole(void **state)
{
	struct line l;

	(void)state;
	line_init(&l, 1e9, 60, 900000000);
	l.loss = 0.05;
	line_run(&l, 30000);
	assert_int_equal(l.r.rate_bps, 900000000);
	assert_int_equal(l.r.state, RATE_CAP);
}

static void without_a_cap_the_line_is_filled_and_the_queue_stays_small(void **state)
{
	const double rtt[] = { 5, 20, 100, 300 }, loss[] = { 0, 0.01, 0.05 };

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		for (unsigned int j = 0; j < 3; j++) {
			struct line l;

			line_init(&l, 1e9, rtt[i], 0);
			l.loss = loss[j];
			line_run(&l, 3000 + 20 * rtt[i]);
			for (int k = 0; k < 5; k++) {
				assert_true(line_run(&l, 6000) >= 0.98e9);
				assert_true(l.max_queue_ms <=
					3 * (double)rate_target_ns((uint64_t)(rtt[i] * 1e6)) / 1e6 +
						2);
			}
		}
	}
}

static void a_cap_above_the_line_does_not_keep_a_queue(void **state)
{
	struct line l;

	(void)state;
	line_init(&l, 1e9, 60, 1500000000);
	l.loss = 0.01;
	line_run(&l, 2000);
	assert_true(line_run(&l, 8000) >= 0.98e9);
	assert_true(l.max_queue_ms < 15);
}

static void bulk_gives_way_and_comes_back(void **state)
{
	struct line l;

	(void)state;
	line_init(&l, 1e9, 60, 1000000000);
	l.bulk = true;
	assert_true(line_run(&l, 5000) > 0.97e9);
	l.cross_bps = 0.98e9; /* takes what it gets, keeps the queue up */
	line_run(&l, 1000);
	assert_true(line_run(&l, 1000) <= 0.1e9);
	l.cross_bps = 0;
	line_run(&l, 2000);
	assert_true(line_run(&l, 1000) >= 0.9e9);
}

static void urgent_does_not_give_way(void **state)
{
	struct line l;

	(void)state;
	line_init(&l, 1e9, 60, 1000000000);
	line_run(&l, 5000);
	l.cross_bps = 0.6e9;
	line_run(&l, 3000);
	assert_true(line_run(&l, 3000) >= 0.3e9);
}

static void a_longer_path_is_not_a_queue(void **state)
{
	struct line l;

	(void)state;
	line_init(&l, 1e9, 100, 990000000);
	line_run(&l, 5000);
	l.rtt_ms = 130;
	line_run(&l, 1500);
	assert_true(line_run(&l, 3000) >= 0.97e9);
}

static void loss_of_the_own_making_is_found_out(void **state)
{
	struct line l;

	(void)state;
	/* A queue of 2 ms is never over the target: the excess is lost in front of it. */
	line_init(&l, 1e9, 60, 1500000000);
	l.limit_ms = 2;
	line_run(&l, 3000);
	assert_true(line_run(&l, 5000) >= 0.95e9);
	assert_true(l.r.rate_bps < 1100000000);
}

/* No delay tells where the line ends, and reports are of a rate that is long surpassed. */
static void without_a_cap_a_queue_too_shallow_to_be_seen_is_not_flooded(void **state)
{
	static const double rtts_ms[] = { 5, 20, 60, 200 }, losses[] = { 0, 0.02, 0.15 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		for (int k = 0; k < 3; k++) {
			double most = 0, arrived = 0;
			struct line l;

			line_init(&l, 1e9, rtts_ms[i], 0);
			l.limit_ms = 0.3;
			l.loss = losses[k];
			for (int n = 0; n < 1000; n++) {
				arrived += line_run(&l, 20) / 1000;
				most = (double)l.r.rate_bps > most ? (double)l.r.rate_bps : most;
			}
			if (most > 4e9 || arrived < 0.75e9)
				fail_msg("%.0f ms, loss %.2f: sent up to %.2e, through came %.2e",
					rtts_ms[i], losses[k], most, arrived);
		}
	}
}

static void loss_of_the_path_is_borne(void **state)
{
	struct line l;

	(void)state;
	line_init(&l, 1e9, 60, 950000000);
	l.loss = 0.15;
	line_run(&l, 2000);
	assert_true(line_run(&l, 60000) >= 0.97 * 950e6);
}

static void an_idle_sender_learns_nothing(void **state)
{
	struct rate r;
	struct rate_report p = { .now_ns = 1000 * MS,
		.sent_ns = 970 * MS,
		.newest_us = 1000000,
		.rtt_ns = 60 * MS,
		.min_rtt_ns = 60 * MS };

	(void)state;
	rate_init(&r, 0);
	for (int i = 0; i < 100; i++) {
		p.now_ns += 10 * MS;
		p.sent_ns += 10 * MS;
		p.newest_us += 10000;
		rate_report(&r, &p);
	}
	assert_int_equal(r.state, RATE_STARTUP);
	assert_int_equal(r.n_spans, 0);
}

/*
 * A receiver whose clock runs three times as slow makes everything seem to arrive three times as
 * fast. What is believed is at most what was sent.
 */
static void a_receiver_that_lies_about_time_does_not_raise_the_rate(void **state)
{
	const uint64_t sent_bps = 100000000;
	struct rate r;
	struct rate_report p = { .now_ns = 1000 * MS,
		.sent_ns = 970 * MS,
		.newest_us = 1000000,
		.bytes = sent_bps / 8 / 200,
		.rtt_ns = 60 * MS,
		.min_rtt_ns = 60 * MS,
		.limited = true };

	(void)state;
	rate_init(&r, 0);
	for (int i = 0; i < 400; i++) {
		p.now_ns += 5 * MS;
		p.sent_ns += 5 * MS;
		p.newest_us += 1667;
		rate_report(&r, &p);
		assert_true(r.recent_bps <= sent_bps * 1.001);
		assert_true(r.proven_bps <= sent_bps * 1.001);
		assert_true(r.peak_bps <= sent_bps * 1.001);
	}
	assert_true(r.recent_bps >= sent_bps * 0.9);
}

/* The path got longer while nothing was sent: bulk must not take it for somebody's queue. */
static void bulk_is_not_stuck_when_the_path_grew_while_it_was_idle(void **state)
{
	struct line l;

	(void)state;
	line_init(&l, 1e8, 2, 100000000);
	l.bulk = true;
	line_run(&l, 2000);
	l.now_us += 5000000;
	l.rtt_ms = 40;
	for (int i = 0; i < HISTORY; i++)
		l.queue_at[i] = 0;
	l.arrived = l.lost = 0;
	line_run(&l, 1000);
	assert_true(line_run(&l, 2000) >= 0.95e8);
}

/* Somebody's queue that was there when it came back is found out by what more load does to it. */
static double rate_after_a_pause(double queue_ms, double limit_ms)
{
	struct line l;

	line_init(&l, 1e8, 40, 100000000);
	l.bulk = true;
	line_run(&l, 2000);
	l.now_us += 5000000;
	l.queue_ms = queue_ms;
	l.limit_ms = limit_ms;
	for (int i = 0; i < HISTORY; i++)
		l.queue_at[i] = queue_ms;
	l.cross_bps = 0.98e8;
	l.arrived = l.lost = 0;
	line_run(&l, 1000);
	return line_run(&l, 1000);
}

static void a_queue_met_after_a_pause_does_not_become_the_path(void **state)
{
	(void)state;
	assert_true(rate_after_a_pause(20, 40) <= 0.1e8);
	/* It never overflows: nothing is lost, and only the delay tells. */
	assert_true(rate_after_a_pause(20, 4000) <= 0.1e8);
	/* It is full, so its delay cannot grow: it loses instead. */
	assert_true(rate_after_a_pause(20, 20) <= 0.1e8);
}

/* A path that grew bit by bit looks like a queue, but does not move for long. */
static void a_queue_that_never_moves_is_the_path(void **state)
{
	struct line l;

	(void)state;
	line_init(&l, 1e8, 40, 100000000);
	l.bulk = true;
	line_run(&l, 2000);
	for (int i = 0; i < 40; i++) {
		l.rtt_ms += 0.5;
		line_run(&l, 10);
	}
	line_run(&l, 400);
	assert_true(line_run(&l, 200) <= 0.1e8);
	line_run(&l, 4000);
	assert_true(line_run(&l, 1000) >= 0.95e8);
}

/* A path that becomes longer at once is used again in some round trips, before anybody looks. */
static void a_jump_that_stays_flat_is_another_path(void **state)
{
	const double rtt[] = { 10, 40, 100 };

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		struct line l;

		line_init(&l, 1e8, rtt[i], 100000000);
		l.bulk = true;
		line_run(&l, 2000);
		l.rtt_ms = 1.5 * rtt[i];
		line_run(&l, 50 + 8 * rtt[i]);
		assert_true(line_run(&l, 200) >= 0.95e8);
	}
}

/* Reports every 8 ms over a round trip of 40 ms, with the delay and the loss that they are told. */
struct feed {
	struct rate r;
	struct rate_report p;
};

static void feed_init(struct feed *f, uint64_t cap_bps, bool bulk)
{
	*f = (struct feed){ .p = { .now_ns = 1000 * MS,
				    .newest_us = 1000000,
				    .rtt_ns = 40 * MS,
				    .min_rtt_ns = 40 * MS,
				    .limited = true,
				    .bulk = bulk } };
	rate_init(&f->r, cap_bps);
}

/* What is sent at the rate of now, n times: so much later than without a queue, so much lost. */
static void feed(struct feed *f, int n, uint64_t late_ms, double loss)
{
	for (int i = 0; i < n; i++) {
		uint64_t bytes = f->r.rate_bps / 1000;

		f->p.now_ns += 8 * MS;
		f->p.newest_us += 8000;
		f->p.sent_ns = f->p.now_ns - 40 * MS - late_ms * MS;
		f->p.rtt_ns = (40 + late_ms) * MS;
		f->p.lost = f->p.spread_lost = (uint64_t)(loss * (double)bytes);
		f->p.bytes = bytes - f->p.lost;
		rate_report(&f->r, &f->p);
	}
}

/* At the cap for 100 reports without a queue. Its base. */
static int64_t feed_settled(struct feed *f, bool bulk)
{
	feed_init(f, 100000000, bulk);
	feed(f, 100, 0, 0);
	return f->r.base_ns;
}

static void feed_pause(struct feed *f)
{
	f->p.now_ns += 5000 * MS;
	f->p.newest_us += 5000000;
}

static void a_jump_is_another_path_only_when_flat_and_without_loss(void **state)
{
	struct feed f;
	int64_t base;

	(void)state;
	base = feed_settled(&f, false);
	feed(&f, 10, 20, 0);
	assert_int_equal(f.r.base_ns, base + 20 * (int64_t)MS);
	/* It is full, so flat, but loses. */
	base = feed_settled(&f, false);
	feed(&f, 10, 20, 0.1);
	assert_int_equal(f.r.base_ns, base);
	/* It grows on. */
	base = feed_settled(&f, false);
	for (uint64_t i = 0; i < 10; i++)
		feed(&f, 1, 20 + 2 * i, 0);
	assert_int_equal(f.r.base_ns, base);
}

/* Of packets that are ever late some are missing at any time; of a longer time they are few. */
static void loss_is_tested_when_it_lasts_longer_than_packets_are_late(void **state)
{
	static const uint64_t cases[][3] = {
		/* late, round trip, reports of 8 ms */
		{ 0, 40, 2 },
		{ 10, 40, 5 },
		{ 20, 40, 10 },
		{ 0, 200, 4 },
	};

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		uint64_t reports = 0;
		struct feed f;

		feed_init(&f, 1000000000, false);
		feed(&f, 1, 0, 0);
		f.p.late_ns = cases[i][0] * MS;
		f.p.min_rtt_ns = cases[i][1] * MS;
		for (; !f.r.testing && reports < 100; reports++)
			feed(&f, 1, 0, 0.2);
		assert_int_equal(reports, cases[i][2]);
	}
}

static void a_test_is_given_up_when_what_was_lost_came_late(void **state)
{
	(void)state;
	for (uint64_t late_ms = 0; late_ms <= 5; late_ms += 5) {
		struct feed f;

		feed_init(&f, 1000000000, false);
		feed(&f, 1, 0, 0);
		feed(&f, 2, 0, 0.2);
		assert_true(f.r.testing);
		assert_true(f.r.rate_bps < 800000000);
		f.p.late_ns = late_ms * MS;
		feed(&f, 20, 0, 0);
		assert_false(f.r.testing);
		/* As much arrives with less: without reordering the loss was our own. */
		assert_int_equal(f.r.ceiling_bps != 0, late_ms == 0);
		assert_int_equal(f.r.rate_bps == 1000000000, late_ms != 0);
	}
}

/* What gives way looks whether the queue ever moves: if not it may be the path's. */
static void a_queue_is_put_on_trial_when_it_has_not_moved_for_long(void **state)
{
	struct feed f;

	(void)state;
	for (int moves = 0; moves < 2; moves++) {
		bool trial = false;

		feed_init(&f, 100000000, true);
		feed(&f, 200, 0, 0);
		for (uint64_t i = 1; i <= 12; i++) /* by little: no jump */
			feed(&f, 1, i, 0);
		for (uint64_t i = 0; i < 800; i++) {
			feed(&f, 1, moves ? 12 + i / 20 % 6 : 12, 0);
			assert_true(trial || f.r.yielding || f.r.trial);
			trial = trial || f.r.trial;
		}
		assert_int_equal(trial, !moves);
	}
}

/* A higher base, taken on trial after a pause, is given up when more load raises the delay. */
static void a_trial_fails_by_delay_alone(void **state)
{
	struct feed f;
	int64_t base;

	(void)state;
	base = feed_settled(&f, true);
	feed_pause(&f);
	feed(&f, 1, 20, 0);
	assert_true(f.r.trial);
	assert_int_equal(f.r.base_ns, base + 20 * (int64_t)MS);
	for (uint64_t i = 1; i < 20 && f.r.trial; i++)
		feed(&f, 1, 20 + i, 0);
	assert_false(f.r.trial);
	assert_int_equal(f.r.base_ns, base);
	/* When it does not, the path is another one. */
	feed_settled(&f, true);
	feed_pause(&f);
	feed(&f, 60, 20, 0);
	assert_false(f.r.trial);
	assert_int_equal(f.r.base_ns, base + 20 * (int64_t)MS);
}

/* The test ends with less, for less was sent until now: on goes the new cap, not the old rate. */
static void a_cap_raised_at_the_end_of_a_test_of_the_loss_is_used(void **state)
{
	struct feed f;

	(void)state;
	feed_init(&f, 100000000, false);
	for (int i = 0; i < 500 && !f.r.test_counts; i++)
		feed(&f, 1, 0, 0.2);
	assert_true(f.r.testing && f.r.test_counts);
	feed(&f, 2, 0, 0.2);
	rate_set_cap(&f.r, 200000000);
	f.r.rate_bps /= 4; /* what the next report speaks of was sent before */
	feed(&f, 1, 0, 0.2);
	assert_false(f.r.testing);
	assert_int_equal(f.r.rate_bps, 200000000);
}

/* The session is at its cap: the new one is used at once, and stays though the path loses. */
static void a_cap_raised_during_a_test_of_the_loss_is_used(void **state)
{
	(void)state;
	/* At any moment of it: what was sent before says that less arrives. */
	for (int after_ms = 0; after_ms <= 100; after_ms += 5) {
		struct line l;

		line_init(&l, 1e9, 60, 400000000);
		l.loss = 0.15;
		for (int i = 0; i < 4000 && !l.r.testing; i++)
			line_run(&l, 1);
		assert_true(l.r.testing);
		line_run(&l, after_ms);
		rate_set_cap(&l.r, 800000000);
		line_run(&l, 300);
		for (int i = 0; i < 20; i++)
			assert_true(line_run(&l, 300) >= 0.75e9);
		assert_int_equal(l.r.ceiling_bps, 0);
	}
}

/* One who sends next to nothing fills what nobody left him; then a little less is enough. */
static void bulk_does_not_give_way_to_a_trickle(void **state)
{
	struct line l;

	(void)state;
	line_init(&l, 1e9, 60, 1000000000);
	l.bulk = true;
	line_run(&l, 2000);
	l.cross_bps = 0.01e9;
	for (int i = 0; i < 10; i++)
		assert_true(line_run(&l, 1000) >= 0.95e9);
}

static void a_cap_below_the_floor_is_kept(void **state)
{
	struct line l;

	(void)state;
	line_init(&l, 1e8, 20, 500000);
	l.cross_bps = 1.2e8; /* a queue for the controller to answer */
	l.bulk = true;
	for (int i = 0; i < 40; i++) {
		line_run(&l, 100);
		assert_true(l.r.rate_bps <= 500000);
	}
	rate_set_cap(&l.r, 1000);
	line_run(&l, 1000);
	assert_true(l.r.rate_bps <= 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cap_below_the_floor_is_kept),
		cmocka_unit_test(a_cap_below_the_line_is_used_whole),
		cmocka_unit_test(without_a_cap_the_line_is_filled_and_the_queue_stays_small),
		cmocka_unit_test(a_cap_above_the_line_does_not_keep_a_queue),
		cmocka_unit_test(bulk_gives_way_and_comes_back),
		cmocka_unit_test(urgent_does_not_give_way),
		cmocka_unit_test(a_longer_path_is_not_a_queue),
		cmocka_unit_test(loss_of_the_own_making_is_found_out),
		cmocka_unit_test(without_a_cap_a_queue_too_shallow_to_be_seen_is_not_flooded),
		cmocka_unit_test(loss_of_the_path_is_borne),
		cmocka_unit_test(a_receiver_that_lies_about_time_does_not_raise_the_rate),
		cmocka_unit_test(bulk_is_not_stuck_when_the_path_grew_while_it_was_idle),
		cmocka_unit_test(a_queue_met_after_a_pause_does_not_become_the_path),
		cmocka_unit_test(a_queue_that_never_moves_is_the_path),
		cmocka_unit_test(a_jump_that_stays_flat_is_another_path),
		cmocka_unit_test(a_jump_is_another_path_only_when_flat_and_without_loss),
		cmocka_unit_test(a_queue_is_put_on_trial_when_it_has_not_moved_for_long),
		cmocka_unit_test(a_trial_fails_by_delay_alone),
		cmocka_unit_test(loss_is_tested_when_it_lasts_longer_than_packets_are_late),
		cmocka_unit_test(a_test_is_given_up_when_what_was_lost_came_late),
		cmocka_unit_test(a_cap_raised_at_the_end_of_a_test_of_the_loss_is_used),
		cmocka_unit_test(a_cap_raised_during_a_test_of_the_loss_is_used),
		cmocka_unit_test(bulk_does_not_give_way_to_a_trickle),
		cmocka_unit_test(an_idle_sender_learns_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
