/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/federation_world.h"

static void what_appears_is_asked_of_both_ends_and_ordered(void **state)
{
	struct world *w = *state;

	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->n, 1);
	assert_int_equal(w->expand_from, A);
	assert_int_equal(w->offer_to, B);
	assert_false(w->asked);
	assert_int_equal(w->orders, 0);
	offered(w, FEDERATION_BRING);
	assert_int_equal(w->orders, 0);
	expanded(w, true);
	assert_int_equal(w->orders, 1);
	assert_int_equal(w->order.count, 1);
	assert_int_equal(w->order.bytes, 1000);
	assert_int_equal(w->f->site[B].flow.flying, 1);
	ended(w, FEDERATION_DONE);
	assert_int_equal(w->f->site[B].flow.flying, 0);
	assert_int_equal(w->f->site[B].flow.brought, 1);
	tick(w, 10);
	assert_int_equal(w->expands, 1);
}

static void size_that_is_told_with_the_key_counts_for_the_policy(void **state)
{
	struct planner_policy p = { .allow = true, .class = WANTED_NORMAL, .least_bytes = 600 };
	struct federation_key k[2] = { { (const uint8_t *)"one", NULL, 3, 0, 500 },
		{ (const uint8_t *)"two", NULL, 3, 0, 700 } };
	struct log_frame f = { .type = LOG_FRAME_EVENTS };
	struct world *w = *state;
	struct planner_stats st;

	assert_int_equal(federation_policy_set(w->f, A, B, &p, 0), 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct log_record r = { .digest = digest(i), .op = LOG_STORED }; /* of no size */

		f.seq = ++w->seq[A];
		assert_int_equal(input(w, A, &f, &r, 1), 0);
	}
	tick(w, 1);
	assert_int_equal(w->n, 2);
	assert_int_equal(federation_expanded(w->f, A, w->expand, k, 2, w->now_ns, NOW_S), 0);
	assert_int_equal(w->f->site[B].flow.flying_bytes, 1200);
	offered(w, FEDERATION_BRING);
	assert_int_equal(w->order.count, 1);
	assert_int_equal(w->order.bytes, 700);
	assert_int_equal(w->f->site[B].flow.flying_bytes, 700);
	planner_stats_get(w->f->planner, &st);
	assert_int_equal(st.filtered, 1);
	assert_int_equal(w->f->site[B].flow.gone, 0);
	ended(w, FEDERATION_DONE);
	assert_int_equal(w->f->site[B].flow.flying_bytes, 0);
}

static void what_has_nothing_to_come_or_stands_still_has_no_eta(void **state)
{
	struct world *w = *state;
	struct federation_flow *flow = &w->f->site[B].flow;
	uint64_t ms = 0;

	flow->rate_bps = 8000000;
	assert_false(federation_eta_ms(w->f, B, &ms)); /* idle, whatever the rate was */
	happens(w, A, 1, LOG_STORED);                  /* 1,000 bytes, waiting */
	assert_true(federation_eta_ms(w->f, B, &ms));
	assert_int_equal(ms, 2);
	tick(w, 1);
	offered(w, FEDERATION_BRING);
	expanded(w, true); /* flying */
	assert_true(federation_eta_ms(w->f, B, &ms));
	flow->rate_bps = 0;
	assert_false(federation_eta_ms(w->f, B, &ms));
	flow->rate_bps = 8000000;
	ended(w, FEDERATION_DONE);
	assert_false(federation_eta_ms(w->f, B, &ms));
}

static void what_we_brought_is_not_shipped_on(void **state)
{
	struct planner_policy back = { .allow = true, .class = WANTED_NORMAL };
	struct world *w = *state;

	assert_int_equal(federation_policy_set(w->f, B, A, &back, 0), 0);
	assert_int_equal(federation_site_add(w->f, 2), 0);
	assert_int_equal(federation_policy_set(w->f, B, 2, &back, 0), 0);
	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	expanded(w, true);
	offered(w, FEDERATION_BRING);
	happens(w, B, 1, LOG_STORED);
	ended(w, FEDERATION_DONE);
	happens(w, B, 7, LOG_STORED);
	assert_true(wanted_has(planner_wanted(w->f->planner, 2), digest(7)));
	assert_false(wanted_has(planner_wanted(w->f->planner, 2), digest(1)));
	happens(w, B, 7, LOG_REMOVED);
	happens(w, A, 1, LOG_REMOVED);
	tick(w, 1);
	happens(w, B, 1, LOG_REMOVED);
	happens(w, B, 1, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->expands, 1);
}

static void what_is_gone_there_or_declined_is_not_ordered(void **state)
{
	struct world *w = *state;

	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	expanded(w, false);
	offered(w, FEDERATION_BRING);
	happens(w, A, 2, LOG_STORED);
	tick(w, 1);
	expanded(w, true);
	offered(w, FEDERATION_EVICTED);
	assert_int_equal(w->orders, 0);
	assert_int_equal(w->f->site[B].flow.gone, 1);
	assert_int_equal(w->f->site[B].flow.declined, 1);
	/* it is known here from now on */
	happens(w, A, 2, LOG_REMOVED);
	happens(w, A, 2, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->expands, 2);
	assert_int_equal(wanted(w), 0);
}

static void what_is_gone_before_its_order_is_told_to_those_who_wait_for_it(void **state)
{
	struct world *w = *state;

	/* nobody waits for it */
	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	offered(w, FEDERATION_BRING);
	expanded(w, false);
	assert_int_equal(w->nowhere, 0);
	happens(w, A, 2, LOG_STORED);
	assert_true(federation_asked(w->f, B, digest(2), 5, true, w->now_ns, NOW_S));
	tick(w, 1);
	offered(w, FEDERATION_BRING);
	expanded(w, false);
	assert_int_equal(w->orders, 0);
	assert_int_equal(w->nowhere, 1);
	/* somebody else has it, then nobody */
	add_c(w);
	happens(w, A, 3, LOG_STORED);
	happens(w, C, 3, LOG_STORED);
	assert_true(federation_asked(w->f, B, digest(3), 5, true, w->now_ns, NOW_S));
	tick(w, 1);
	offered(w, FEDERATION_BRING);
	expanded(w, false);
	assert_int_equal(w->nowhere, 1);
	tick(w, 1);
	offered(w, FEDERATION_BRING);
	expanded(w, false);
	assert_int_equal(w->nowhere, 2);
	/* it came meanwhile */
	happens(w, A, 4, LOG_STORED);
	assert_true(federation_asked(w->f, B, digest(4), 5, true, w->now_ns, NOW_S));
	tick(w, 1);
	offered(w, FEDERATION_BRING);
	happens(w, B, 4, LOG_STORED);
	expanded(w, false);
	assert_int_equal(w->nowhere, 2);
}

static void a_full_site_is_left_alone_for_a_while(void **state)
{
	struct world *w = *state;

	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	expanded(w, true);
	offered(w, FEDERATION_BRING);
	ended(w, FEDERATION_FULL);
	assert_int_equal(wanted(w), 1);
	tick(w, 1);
	assert_true(w->f->site[B].flow.paused);
	assert_int_equal(w->expands, 1);
	tick(w, 2);
	assert_int_equal(w->expands, 2);
	expanded(w, true);
	offered(w, FEDERATION_BRING);
	ended(w, FEDERATION_FULL);
	tick(w, 3); /* longer than before */
	assert_int_equal(w->expands, 2);
	tick(w, 2);
	assert_int_equal(w->expands, 3);
}

static void what_fails_again_and_again_is_quarantined_until_asked_for(void **state)
{
	struct world *w = *state;

	happens(w, A, 1, LOG_STORED);
	for (unsigned int i = 1; i <= FEDERATION_POISON; i++) {
		tick(w, 200);
		assert_int_equal(w->expands, i);
		expanded(w, true);
		offered(w, FEDERATION_BRING);
		ended(w, FEDERATION_FAILED);
	}
	assert_int_equal(w->f->site[B].flow.quarantined, 1);
	assert_int_equal(federation_quarantined(w->f, B, NOW_S), 1);
	assert_int_equal(wanted(w), 0);
	tick(w, 300);
	assert_int_equal(w->expands, FEDERATION_POISON);
	happens(w, A, 1, LOG_REMOVED);
	happens(w, A, 1, LOG_STORED);
	tick(w, 300);
	assert_int_equal(w->expands, FEDERATION_POISON);
	assert_int_equal(wanted(w), 0);
	assert_true(federation_asked(w->f, B, digest(1), 5, true, w->now_ns, NOW_S));
	assert_int_equal(federation_quarantined(w->f, B, NOW_S), 0);
	tick(w, 1);
	assert_int_equal(w->expands, FEDERATION_POISON + 1);
	assert_true(w->asked);
}

static void what_came_after_all_is_in_quarantine_no_more(void **state)
{
	struct world *w = *state;

	happens(w, A, 1, LOG_STORED);
	for (unsigned int i = 1; i <= FEDERATION_POISON; i++) {
		tick(w, 200);
		expanded(w, true);
		offered(w, FEDERATION_BRING);
		ended(w, FEDERATION_FAILED);
	}
	assert_int_equal(federation_quarantined(w->f, B, NOW_S), 1);
	happens(w, B, 1, LOG_STORED);
	assert_int_equal(federation_quarantined(w->f, B, NOW_S), 0);
	assert_int_equal(w->f->site[B].flow.quarantined, 1);
}

/* One object and one order at a time, until the pair's pause is over; seconds that took. */
static uint64_t order_again(struct world *w, uint64_t most_s)
{
	uint64_t orders = w->orders;
	uint64_t s = 0;

	while (w->expand == w->answered && s < most_s) {
		tick(w, 1);
		s++;
	}
	w->answered = w->expand;
	expanded(w, true);
	offered(w, FEDERATION_BRING);
	assert_int_equal(w->orders, orders + 1);
	return s;
}

static void an_edge_at_fault_is_held_against_no_object(void **state)
{
	struct world *w = *state;
	uint64_t s = 0;

	happens(w, A, 1, LOG_STORED);
	for (int i = 0; i < 12; i++) {
		s = order_again(w, 100);
		ended(w, FEDERATION_EDGE);
		assert_int_equal(federation_quarantined(w->f, B, NOW_S), 0);
		assert_int_equal(wanted(w), 1);
	}
	assert_in_range(s, FEDERATION_FAULT_MAX_NS / SECOND - 2,
		FEDERATION_FAULT_MAX_NS / SECOND + 2);
	assert_true(federation_is_at_fault(w->f, A, B));
	/* mended: what was wanted comes, and the next fault is a first one */
	(void)order_again(w, 100);
	ended(w, FEDERATION_DONE);
	assert_false(federation_is_at_fault(w->f, A, B));
	assert_int_equal(w->f->site[B].flow.brought, 1);
	happens(w, A, 2, LOG_STORED);
	(void)order_again(w, 2);
	ended(w, FEDERATION_EDGE);
	assert_in_range(order_again(w, 100), 1, 4);
}

static void what_alone_fails_in_an_order_is_at_fault_itself(void **state)
{
	uint8_t ends[2] = { FEDERATION_EDGE, FEDERATION_DONE };
	uint64_t lengths[2] = { 0, 1000 };
	struct world *w = *state;

	happens(w, A, 1, LOG_STORED);
	happens(w, A, 2, LOG_STORED);
	for (unsigned int i = 0; i < FEDERATION_POISON; i++) {
		(void)order_again(w, 200);
		assert_int_equal(w->order.count, 2);
		federation_ended(w->f, w->orders, ends, lengths, 2, w->now_ns, NOW_S);
		happens(w, A, 3 + i, LOG_STORED);
	}
	assert_int_equal(federation_quarantined(w->f, B, NOW_S), 1);
}

/* Fails that often, and is ordered once more, while others come and keep the window open. */
static void failing(struct world *w, unsigned int times)
{
	happens(w, A, 1, LOG_STORED);
	for (unsigned int i = 0; i <= times; i++) {
		tick(w, 200);
		expanded(w, true);
		offered(w, FEDERATION_BRING);
		assert_int_equal(w->orders, i + 1);
		if (i < times)
			ended(w, FEDERATION_FAILED);
	}
	w->f->site[B].window = FEDERATION_WINDOW;
}

static void what_failed_once_too_often_since_both_were_asked_is_not_ordered(void **state)
{
	struct world *w = *state;

	failing(w, FEDERATION_POISON - 1);
	happens(w, A, 1, LOG_REMOVED);
	happens(w, A, 1, LOG_STORED);
	tick(w, 200);
	assert_int_equal(w->expands, FEDERATION_POISON + 1);
	ended(w, FEDERATION_FAILED);
	expanded(w, true);
	offered(w, FEDERATION_BRING);
	assert_int_equal(w->orders, FEDERATION_POISON);
	assert_int_equal(w->f->site[B].batches, 0);
	assert_int_equal(w->f->site[B].flow.flying, 0);
	assert_int_equal(w->f->site[B].flow.gone, 0);
}

static void what_fails_in_an_order_that_goes_on_counts_at_once(void **state)
{
	struct world *w = *state;

	failing(w, FEDERATION_POISON - 1);
	federation_failed(w->f, w->orders + 1, 0, NOW_S); /* not ours */
	federation_failed(w->f, w->orders, 1, NOW_S);     /* no such object */
	for (int i = 0; i < 2; i++)                       /* and once */
		federation_failed(w->f, w->orders, 0, NOW_S);
	assert_int_equal(memory_get(w->f->failures[B], digest(1), NOW_S), FEDERATION_POISON);
	happens(w, A, 1, LOG_REMOVED);
	happens(w, A, 1, LOG_STORED);
	tick(w, 200);
	assert_int_equal(w->expands, FEDERATION_POISON);
	ended(w, FEDERATION_FAILED);
	assert_int_equal(memory_get(w->f->failures[B], digest(1), NOW_S), FEDERATION_POISON);
	assert_int_equal(w->f->site[B].flow.failed, FEDERATION_POISON);
	tick(w, 200);
	assert_int_equal(w->expands, FEDERATION_POISON);
}

static void an_answer_that_does_not_come_gives_the_batch_up(void **state)
{
	struct world *w = *state;
	uint64_t first;

	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	first = w->expand;
	tick(w, 40);
	assert_int_equal(w->f->site[B].batches, 0);
	tick(w, 1);
	assert_int_equal(w->expands, 2);
	assert_true(w->expand != first);
	/* the late answer to the first is no error and counts for nothing */
	w->offer = first;
	offered(w, FEDERATION_BRING);
	assert_int_equal(w->orders, 0);
}

static void a_lost_site_master_puts_the_batch_back(void **state)
{
	struct world *w = *state;

	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	offered(w, FEDERATION_BRING);
	federation_close(w->f, A, w->now_ns);
	assert_int_equal(w->f->site[B].batches, 0);
	assert_int_equal(w->f->site[B].flow.flying, 0);
	assert_int_equal(w->f->site[A].reader.replica.state, REPLICA_STALE);
	assert_int_equal(wanted(w), 1);
	tick(w, 5);
	assert_int_equal(w->expands, 1);
}

static void without_an_edge_nothing_is_asked(void **state)
{
	struct world *w = *state;

	w->no_edge = true;
	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	tick(w, 1);
	assert_int_equal(w->expands, 0);
	assert_int_equal(wanted(w), 1);
	w->no_edge = false;
	tick(w, 1);
	assert_int_equal(w->expands, 1);
}

static void what_waited_too_long_is_dropped(void **state)
{
	struct world *w = *state;

	federation_destroy(w->f);
	create(w, 10 * SECOND);
	w->no_edge = true;
	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	tick(w, 10);
	assert_int_equal(w->f->site[B].flow.expired, 1);
	assert_int_equal(wanted(w), 0);
}

static void answers_that_do_not_fit_are_refused(void **state)
{
	struct federation_key k = { (const uint8_t *)"key", NULL, 3, 0, 0 };
	struct world *w = *state;
	uint8_t bad = 9, good = FEDERATION_BRING;

	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	assert_int_equal(federation_offered(w->f, A, w->offer, &good, 1, w->now_ns, NOW_S),
		-EPROTO);
	assert_int_equal(federation_offered(w->f, B, w->offer, &bad, 1, w->now_ns, NOW_S), -EPROTO);
	assert_int_equal(federation_offered(w->f, B, w->offer, &good, 0, w->now_ns, NOW_S),
		-EPROTO);
	assert_int_equal(federation_expanded(w->f, B, w->expand, &k, 1, w->now_ns, NOW_S), -EPROTO);
	assert_int_equal(federation_expanded(w->f, A, w->expand, &k, 1, w->now_ns, NOW_S), 0);
	assert_int_equal(federation_expanded(w->f, A, w->expand, &k, 1, w->now_ns, NOW_S), -EPROTO);
}

static void history_is_planned_by_a_backfill_alone(void **state)
{
	struct log_record r[2] = { { .digest = digest(1), .size = 1, .op = LOG_STORED },
		{ .digest = digest(2), .op = LOG_STORED, .flags = LOG_FLAG_OURS } };
	struct log_frame f = { .type = LOG_FRAME_WALKED, .bucket = DIGEST_BUCKETS - 1 };
	uint8_t head[LOG_FRAME_HEADER_BYTES];
	struct planner_policy none = { .allow = false };
	struct planner_policy p = { .allow = true, .class = WANTED_BULK };
	struct world *w = *state;

	assert_int_equal(federation_policy_set(w->f, A, B, &none, 0), 0);
	happens(w, A, 1, LOG_STORED);
	happens(w, A, 2, LOG_STORED);
	assert_int_equal(federation_policy_set(w->f, A, B, &p, 0), 0);
	tick(w, 1);
	assert_int_equal(wanted(w), 0);
	assert_int_equal(input(w, A, &f, r, 2), -EPROTO);
	assert_int_equal(federation_backfill(w->f, A), 0);
	assert_int_equal(federation_backfill(w->f, A), -EALREADY);
	do
		assert_true(federation_pull(w->f, A, w->now_ns, head));
	while (head[0] == LOG_FRAME_ASK);
	assert_int_equal(head[0], LOG_FRAME_WALK);
	assert_int_equal(input(w, A, &f, r, 2), 0);
	assert_int_equal(wanted(w), 1); /* not what we brought there */
	assert_int_equal(federation_backfill(w->f, A), 0);
}

static void what_a_snapshot_brings_is_not_planned(void **state)
{
	struct log_record r = { .digest = digest(3), .size = 1000, .op = LOG_STORED };
	struct planner_policy p = { .allow = true, .class = WANTED_NORMAL };
	struct log_frame f = { .type = LOG_FRAME_SNAPSHOT };
	static const uint16_t tenants[] = { 5 };
	uint8_t head[LOG_FRAME_HEADER_BYTES];
	struct world *w = *state;

	assert_int_equal(federation_site_add(w->f, C), 0);
	assert_int_equal(federation_policy_set(w->f, C, B, &p, 0), 0);
	federation_open(w->f, C, tenants, 1, w->now_ns);
	assert_true(federation_pull(w->f, C, w->now_ns, head));
	assert_int_equal(input(w, C, &f, NULL, 0), 0);
	f = (struct log_frame){ .type = LOG_FRAME_BUCKETS, .bucket = DIGEST_BUCKETS - 1 };
	assert_int_equal(input(w, C, &f, &r, 1), 0);
	tick(w, 2);
	assert_int_equal(wanted(w), 0);
	assert_int_equal(w->expands, 0);
	/* what is stored from then on is */
	f = (struct log_frame){ .type = LOG_FRAME_END, .sum = { digest(3).lo, digest(3).hi, 1 } };
	assert_int_equal(input(w, C, &f, NULL, 0), 0);
	assert_int_equal(w->f->site[C].reader.replica.state, REPLICA_LIVE);
	assert_int_equal(wanted(w), 0);
	happens(w, C, 4, LOG_STORED);
	tick(w, 2);
	assert_int_equal(w->expands, 1);
	assert_int_equal(w->n, 1);
}

static void few_load_their_snapshot_at_once(void **state)
{
	static const uint16_t tenants[] = { 0 };
	uint8_t head[LOG_FRAME_HEADER_BYTES];
	struct world *w = *state;

	for (uint16_t i = 2; i < 2 + FEDERATION_LOADS + 1; i++) {
		assert_int_equal(federation_site_add(w->f, i), 0);
		federation_open(w->f, i, tenants, 1, w->now_ns);
		assert_int_equal(federation_pull(w->f, i, w->now_ns, head),
			i < 2 + FEDERATION_LOADS);
	}
	federation_close(w->f, 2, w->now_ns);
	assert_true(federation_pull(w->f, 2 + FEDERATION_LOADS, w->now_ns, head));
}

static void requests_that_miss_bring_it_where_a_policy_waits_for_them(void **state)
{
	struct planner_policy p = { .allow = true, .class = WANTED_BULK, .after = 2 };
	struct world *w = *state;

	assert_int_equal(federation_policy_set(w->f, A, B, &p, 0), 0);
	happens(w, A, 1, LOG_STORED);
	happens(w, B, 1, LOG_STORED);
	happens(w, B, 1, LOG_REMOVED);
	assert_false(federation_asked(w->f, B, digest(1), 5, false, w->now_ns, NOW_S));
	tick(w, 1);
	assert_int_equal(w->expands, 0);
	assert_true(federation_asked(w->f, B, digest(1), 5, false, w->now_ns, NOW_S));
	tick(w, 1);
	assert_int_equal(w->expands, 1);
	assert_true(w->asked); /* although it was evicted */
	/* without such a policy a miss is no reason */
	p.after = 0;
	assert_int_equal(federation_policy_set(w->f, A, B, &p, 0), 0);
	happens(w, A, 2, LOG_STORED);
	happens(w, B, 2, LOG_STORED);
	happens(w, B, 2, LOG_REMOVED);
	assert_false(federation_asked(w->f, B, digest(2), 5, false, w->now_ns, NOW_S));
}

/* A second in which as many objects go from a site as come to it. */
static void churn(struct world *w, uint16_t site, uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		happens(w, site, first + i, LOG_STORED);
		happens(w, site, first + i, LOG_REMOVED);
	}
	tick(w, 1);
}

static void bulk_waits_while_the_destination_evicts_early(void **state)
{
	struct planner_policy p = { .allow = true,
		.class = WANTED_BULK,
		.pause_below_ns = 20 * SECOND };
	struct world *w = *state;

	assert_int_equal(federation_policy_set(w->f, A, B, &p, 0), 0);
	for (uint32_t n = 0; n < 40; n++)
		happens(w, B, 1000 + n, LOG_STORED);
	for (int i = 0; i < 10; i++)
		churn(w, B, 2000, 8); /* 40 objects, 8 a second: 5 s */
	assert_in_range(w->f->site[B].eviction_age_ns / SECOND, 4, 6);
	assert_true(w->f->site[B].flow.bulk_held);
	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->expands, 0);
	assert_int_equal(wanted(w), 1);
	/* what is not bulk goes on */
	assert_true(federation_asked(w->f, B, digest(1), 5, true, w->now_ns, NOW_S));
	tick(w, 1);
	assert_int_equal(w->expands, 1);
	happens(w, A, 2, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->expands, 1);
	expanded(w, true);
	offered(w, FEDERATION_BRING);
	ended(w, FEDERATION_DONE);
	assert_int_equal(w->expands, 1);
	/* and so does bulk when it evicts less */
	for (int i = 0; i < 200; i++)
		tick(w, 1);
	assert_false(w->f->site[B].flow.bulk_held);
	assert_true(w->expands > 1);
	assert_true(digest_equal(w->d[0], digest(2)));
}

static void what_goes_with_a_source_that_begins_anew_is_no_eviction(void **state)
{
	struct planner_policy p = { .allow = true,
		.class = WANTED_BULK,
		.pause_below_ns = 600 * SECOND };
	struct world *w = *state;

	assert_int_equal(federation_policy_set(w->f, A, B, &p, 0), 0);
	for (uint32_t n = 0; n < 200; n++)
		happens(w, B, 1000 + n, LOG_STORED);
	for (int i = 0; i < 10; i++)
		tick(w, 1);
	for (uint32_t n = 0; n < 199; n++)
		happens_so(w, B, 1000 + n, LOG_REMOVED, 0);
	tick(w, 1);
	assert_int_equal(w->f->site[B].eviction_age_ns, 0);
	assert_false(w->f->site[B].flow.bulk_held);
	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	assert_int_equal(w->expands, 1);
}

static void orders_end_when_the_source_will_have_evicted_them(void **state)
{
	struct planner_policy none = { .allow = false };
	struct planner_policy p = { .allow = true, .class = WANTED_NORMAL, .ttl_by_age = true };
	struct world *w = *state;

	assert_int_equal(federation_policy_set(w->f, A, B, &none, 0), 0);
	for (uint32_t n = 0; n < 40; n++)
		happens(w, A, 1000 + n, LOG_STORED);
	for (int i = 0; i < 10; i++)
		churn(w, A, 2000, 4); /* 40 objects, 4 a second: 10 s */
	assert_int_equal(federation_policy_set(w->f, A, B, &p, 3600 * SECOND), 0);
	happens(w, A, 1, LOG_STORED);
	tick(w, 1);
	expanded(w, true);
	offered(w, FEDERATION_BRING);
	assert_int_equal(w->orders, 1);
	assert_in_range(w->order.ttl_ns / SECOND, 8, 11);
}

static void a_site_that_is_no_more_holds_nothing(void **state)
{
	struct world *w = *state;

	happens(w, A, 1, LOG_STORED);
	assert_true(index_value(planner_index(w->f->planner), digest(1)) != 0);
	federation_site_del(w->f, A);
	assert_int_equal(index_value(planner_index(w->f->planner), digest(1)), 0);
	assert_int_equal(wanted(w), 0);
	assert_int_equal(federation_site_add(w->f, A), 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_appears_is_asked_of_both_ends_and_ordered),
		TEST(size_that_is_told_with_the_key_counts_for_the_policy),
		TEST(what_has_nothing_to_come_or_stands_still_has_no_eta),
		TEST(what_we_brought_is_not_shipped_on),
		TEST(what_is_gone_there_or_declined_is_not_ordered),
		TEST(what_is_gone_before_its_order_is_told_to_those_who_wait_for_it),
		TEST(a_full_site_is_left_alone_for_a_while),
		TEST(what_fails_again_and_again_is_quarantined_until_asked_for),
		TEST(what_came_after_all_is_in_quarantine_no_more),
		TEST(an_edge_at_fault_is_held_against_no_object),
		TEST(what_alone_fails_in_an_order_is_at_fault_itself),
		TEST(what_failed_once_too_often_since_both_were_asked_is_not_ordered),
		TEST(what_fails_in_an_order_that_goes_on_counts_at_once),
		TEST(an_answer_that_does_not_come_gives_the_batch_up),
		TEST(a_lost_site_master_puts_the_batch_back),
		TEST(without_an_edge_nothing_is_asked),
		TEST(what_waited_too_long_is_dropped),
		TEST(answers_that_do_not_fit_are_refused),
		TEST(history_is_planned_by_a_backfill_alone),
		TEST(what_a_snapshot_brings_is_not_planned),
		TEST(few_load_their_snapshot_at_once),
		TEST(requests_that_miss_bring_it_where_a_policy_waits_for_them),
		TEST(bulk_waits_while_the_destination_evicts_early),
		TEST(what_goes_with_a_source_that_begins_anew_is_no_eviction),
		TEST(orders_end_when_the_source_will_have_evicted_them),
		TEST(a_site_that_is_no_more_holds_nothing),
	};

	return cmocka_run_group_tests_name("federation", tests, NULL, NULL);
}
