/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receiver that has the keys and lies about what it got. The sender's memory is fixed, its cap
 * holds (world_settle() looks at every interval), nothing it was lied to about is lost for good,
 * and the session works on.
 */
#include "tests/unit/hostile.h"

#include <errno.h>

static uint64_t now_us(const struct world *w)
{
	return w->now_ns / 1000;
}

static struct world *begun(uint64_t seed, const struct world_hooks *h)
{
	struct world_config cfg = small_config(seed);
	struct world *w = world_open(&cfg, h);

	order(w, 8, 512 * KIB);
	world_run_for(w, 40 * MS);
	return w;
}

/* ---- acknowledgments ------------------------------------------------------------------------ */

static void say_unsent(struct world *w, unsigned int i)
{
	uint64_t frames = world_counter(w, WORLD_SOURCE, STRAIT_C_rx_frame);
	uint64_t next = w->session[WORLD_SOURCE]->next_pn;
	struct lie l;

	report_all(lie_begin(&l), next, next + (1ULL << (i % 40)), now_us(w));
	lie_tell(w, WORLD_SINK, &l);
	assert_int_equal(world_counter(w, WORLD_SOURCE, STRAIT_C_rx_frame), frames + 1);
}

static void acknowledging_what_was_never_sent_is_malformed(void **state)
{
	struct world *w = begun(1, NULL);

	(void)state;
	lie_often(w, 300, 1 * MS, say_unsent);
	finish_open(w, 10 * S);
	is_usable(w);
}

/* The data direction is dead while this is set, and the honest receiver mute. */
struct silence {
	bool on;
};

static enum world_pass lose_data_and_reports(struct world *w, enum world_side side,
	const uint8_t *packet, size_t len, void *user)
{
	const struct silence *silence = user;

	(void)w;
	(void)len;
	return silence->on && (side == WORLD_SINK || packet_type(packet) != STRAIT_PACKET_CONTROL)
		? WORLD_LOSE
		: WORLD_PASS;
}

static void say_all_came(struct world *w, unsigned int i)
{
	struct lie l;

	(void)i;
	report_all(lie_begin(&l), 0, highest_sent(w, WORLD_SOURCE), now_us(w));
	assert_int_equal(lie_tell(w, WORLD_SINK, &l), 0);
}

static void what_was_acknowledged_but_never_came_is_sent_again(void **state)
{
	struct silence silence = { 0 };
	const struct world_hooks h = { .user = &silence, .on_send = lose_data_and_reports };
	struct world *w = begun(1, &h);

	(void)state;
	silence.on = true;
	lie_often(w, 400, 5 * MS, say_all_came);
	/* All was sent and acknowledged, nothing arrived: nothing counts as committed. */
	assert_non_null(first_transfer(w));
	for (uint32_t i = 0; i < w->nobjects; i++)
		assert_int_equal(w->objects[i].tx_status == STRAIT_STATUS_COMMITTED,
			w->objects[i].published);
	assert_true(w->f[WORLD_SOURCE].line_bytes < 3 * 8 * 512 * KIB);
	silence.on = false;
	finish_open(w, 10 * S);
	for (uint32_t i = 0; i < w->nobjects; i++)
		assert_true(w->objects[i].published);
	is_usable(w);
}

static void say_every_other(struct world *w, unsigned int i)
{
	struct frame_report r = { .newest = highest_sent(w, WORLD_SOURCE) - i % 2 };
	struct lie l;

	r.newest_us = now_us(w);
	r.base = r.newest;
	assert_int_equal(frame_report_begin(lie_begin(&l), &r), 0);
	for (uint64_t pn = r.newest; pn >= 2; pn -= 2)
		if (frame_report_range(&l.f, 1, 1) < 0)
			break;
	frame_list_end(&l.f);
	assert_int_equal(lie_tell(w, WORLD_SINK, &l), 0);
}

static void ranges_that_alternate_with_every_packet_only_slow(void **state)
{
	struct world *w = begun(1, NULL);

	(void)state;
	lie_often(w, 500, 1 * MS, say_every_other);
	finish_open(w, 20 * S);
	is_usable(w);
}

static void say_absurd_times(struct world *w, unsigned int i)
{
	static const uint64_t times[] = { 0, 1, STRAIT_REPORT_US_LIMIT - 1, STRAIT_REPORT_US_LIMIT,
		UINT64_MAX, UINT64_MAX / 1000 };
	struct frame_report r = { .newest = highest_sent(w, WORLD_SOURCE),
		.newest_us = times[i % 6],
		.delay_us = i % 7 == 0 ? UINT32_MAX : i };
	struct lie l;

	r.base = r.newest;
	frame_report_begin(lie_begin(&l), &r);
	frame_report_range(&l.f, 1, 0);
	frame_list_end(&l.f);
	assert_int_equal(lie_tell(w, WORLD_SINK, &l),
		times[i % 6] < STRAIT_REPORT_US_LIMIT ? 0 : -EPROTO);
}

static void a_clock_that_cannot_be_is_refused_or_harmless(void **state)
{
	struct world *w = begun(1, NULL);

	(void)state;
	lie_often(w, 300, 1 * MS, say_absurd_times);
	finish_open(w, 30 * S);
	is_usable(w);
}

/* ---- HAVE, NEED, CREDIT --------------------------------------------------------------------- */

static void say_have(struct world *w, unsigned int i)
{
	const struct tx_transfer *t = first_transfer(w);
	struct lie l;
	uint32_t blocks;

	if (t == NULL)
		return;
	blocks = t->stream[i % 2].part.blocks;
	/* All; some; more than there are; past the end by a run. */
	frame_have_begin(lie_begin(&l), t->id, i % 2, i % 5 == 0 ? blocks : 0);
	if (i % 5 == 1)
		frame_have_run(&l.f, 1 + i % blocks, 1 + i % 3);
	if (i % 5 == 2)
		frame_have_run(&l.f, 1, UINT32_MAX - 1);
	frame_list_end(&l.f);
	if (i % 5 == 3) {
		frame_have_begin(&l.f, t->id, i % 2, UINT32_MAX);
		frame_list_end(&l.f);
		frame_have_begin(&l.f, t->id + 1000, 0, 1);
		frame_list_end(&l.f);
	}
	lie_tell(w, WORLD_SINK, &l);
}

static void blocks_said_to_be_there_are_sent_when_they_are_needed(void **state)
{
	struct world *w = begun(1, NULL);

	(void)state;
	lie_often(w, 300, 1 * MS, say_have);
	finish_open(w, 20 * S);
	is_usable(w);
}

static void say_need(struct world *w, unsigned int i)
{
	const struct tx_transfer *t = first_transfer(w);
	uint32_t previous = 0;
	struct lie l;

	(void)i;
	if (t == NULL)
		return;
	lie_begin(&l);
	for (uint8_t stream = 0; stream < STRAIT_STREAM_COUNT; stream++) {
		const struct partition *p = &t->stream[stream].part;

		frame_need_begin(&l.f, t->id, stream, highest_sent(w, WORLD_SOURCE));
		for (uint32_t b = 0; b < p->blocks; b++)
			frame_need_block(&l.f, &previous, b, partition_k(p, b));
		frame_list_end(&l.f);
		previous = 0;
	}
	assert_int_equal(lie_tell(w, WORLD_SINK, &l), 0);
}

static void every_block_needed_for_ever_stays_under_the_cap(void **state)
{
	struct world *w = begun(1, NULL);
	uint64_t before = w->f[WORLD_SOURCE].line_bytes;

	(void)state;
	lie_often(w, 1000, 1 * MS, say_need);
	/* 100 Mbit/s for 1 s, and one burst. */
	assert_true(w->f[WORLD_SOURCE].line_bytes - before <= 12500000 + 17 * 1538);
	finish_open(w, 20 * S);
	is_usable(w);
}

static uint8_t epoch_after_need(struct world *w, uint64_t newest)
{
	const struct tx_transfer *t = first_transfer(w);
	uint32_t previous = 0;
	struct lie l;

	frame_need_begin(lie_begin(&l), t->id, STRAIT_STREAM_OBJECTS, newest);
	frame_need_block(&l.f, &previous, 0, 3);
	frame_list_end(&l.f);
	assert_int_equal(lie_tell(w, WORLD_SINK, &l), 0);
	return t->stream[STRAIT_STREAM_OBJECTS].blocks[0].epoch;
}

/* Whoever had not seen the block's last packet when it asked may have it by now. */
static void a_need_older_than_the_last_packet_of_its_block_asks_for_nothing(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, NULL);
	const struct tx_block *b;
	uint8_t epoch;

	(void)state;
	order(w, 1, 64 * KIB);
	world_run_for(w, 14 * MS); /* all is sent, nothing is answered */
	b = &first_transfer(w)->stream[STRAIT_STREAM_OBJECTS].blocks[0];
	epoch = b->epoch;
	assert_true(b->last_pn > 10 && b->last_pn <= highest_sent(w, WORLD_SOURCE));
	assert_int_equal(epoch_after_need(w, b->last_pn - 1), epoch);
	assert_int_equal(epoch_after_need(w, b->last_pn - 10), epoch);
	assert_int_equal(epoch_after_need(w, b->last_pn), epoch + 1);
	finish_open(w, 20 * S);
	is_usable(w);
}

static void say_credit(struct world *w, unsigned int i)
{
	static const uint64_t limits[] = { UINT64_MAX, 0, 1, UINT64_MAX - 1 };
	struct frame_credit c = { .class_ = (uint8_t)(i % STRAIT_CLASS_COUNT),
		.bytes = limits[i % 4],
		.objects = limits[(i + 1) % 4] };
	struct lie l;

	frame_put_credit(lie_begin(&l), &c);
	assert_int_equal(lie_tell(w, WORLD_SINK, &l), 0);
}

static void credit_without_end_and_credit_that_falls(void **state)
{
	struct world *w = begun(1, NULL);

	(void)state;
	lie_often(w, 100, 1 * MS, say_credit);
	for (int c = 0; c < STRAIT_CLASS_COUNT; c++)
		assert_true(w->session[WORLD_SOURCE]->tx.limit[c].bytes == UINT64_MAX);
	finish_open(w, 10 * S);
	is_usable(w);
}

/* ---- objects and transfers ------------------------------------------------------------------ */

static void say_log_ahead(struct world *w, unsigned int i)
{
	const struct tx_transfer *t = first_transfer(w);
	struct lie l;

	if (t == NULL)
		return;
	frame_object_begin(lie_begin(&l), t->id, UINT32_MAX - 2 - i);
	frame_objects_item(&l.f, 0, STRAIT_STATUS_COMMITTED);
	frame_list_end(&l.f);
	frame_object_begin(&l.f, t->id, t->log_next + 1);
	for (uint32_t o = 0; o < t->objects; o++)
		frame_objects_item(&l.f, o, STRAIT_STATUS_COMMITTED);
	frame_list_end(&l.f);
	assert_int_equal(lie_tell(w, WORLD_SINK, &l), 0);
}

static void a_log_above_a_hole_is_not_believed(void **state)
{
	struct world *w = begun(1, NULL);

	(void)state;
	lie_often(w, 100, 1 * MS, say_log_ahead);
	finish_open(w, 10 * S);
	is_usable(w);
}

/* Objects of transfers long closed: each draws a CLOSE, so many at a time, ever more seldom. */
static void say_of_closed_transfers(struct world *w, unsigned int i)
{
	struct lie l;

	lie_begin(&l);
	for (uint32_t n = 0; n < 60; n++) {
		frame_object_begin(&l.f,
			1 + (i * 60 + n) % (w->session[WORLD_SOURCE]->tx.next_id + 9), 0);
		frame_objects_item(&l.f, 0, STRAIT_STATUS_COMMITTED);
		frame_list_end(&l.f);
	}
	assert_int_equal(lie_tell(w, WORLD_SINK, &l), 0);
}

static enum world_pass mute_close_ack(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	const struct silence *silence = user;

	(void)w;
	(void)len;
	return silence->on && side == WORLD_SINK && packet_type(packet) == STRAIT_PACKET_CONTROL
		? WORLD_LOSE
		: WORLD_PASS;
}

static void a_receiver_that_never_takes_an_end_is_told_ever_more_seldom(void **state)
{
	struct silence silence = { 0 };
	const struct world_hooks h = { .user = &silence, .on_send = mute_close_ack };
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, &h);
	uint64_t before;

	(void)state;
	w->session[WORLD_SOURCE]->tx.next_id = 1000; /* as if so many had been */
	silence.on = true;
	lie_often(w, 50, 1 * MS, say_of_closed_transfers);
	assert_int_equal(w->session[WORLD_SOURCE]->tx.n_closing, CLOSING_MAX);
	world_run_for(w, 20 * S);
	before = w->f[WORLD_SOURCE].line_bytes;
	world_run_for(w, 20 * S);
	/* 256 frames of 8 bytes each 64 RTO of at least 30 ms, and keepalives. */
	assert_true(w->f[WORLD_SOURCE].line_bytes - before < 100 * KIB);
	silence.on = false;
	is_usable(w);
}

static enum world_pass mute_all(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	const struct silence *s = user;

	(void)w;
	(void)side;
	(void)packet;
	(void)len;
	return s->on ? WORLD_LOSE : WORLD_PASS;
}

static uint64_t credit_free(const struct world *w)
{
	const struct sender *x = &w->session[WORLD_SOURCE]->tx;

	return x->limit[STRAIT_CLASS_NORMAL].bytes - x->used[STRAIT_CLASS_NORMAL].bytes;
}

/* More transfers than CLOSE is remembered for are given up before the receiver hears of any. */
static void credit_of_transfers_nobody_heard_of_comes_back(void **state)
{
	struct silence silence = { 0 };
	const struct world_hooks h = { .user = &silence, .on_send = mute_all };
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, &h);
	uint64_t before;

	(void)state;
	order(w, 1, 100 * KIB);
	finish_open(w, 5 * S);
	before = credit_free(w);
	silence.on = true;
	for (int i = 0; i < 320; i++) {
		uint32_t first = world_add_objects(w, 1, 300 * KIB);
		int n = world_order(w, first, 1, STRAIT_CLASS_NORMAL);

		assert_true(n >= 0);
		world_run_for(w, 30 * MS);
		if (w->transfers[n].tx != NULL)
			session_tx_cancel(w->session[WORLD_SOURCE], w->transfers[n].tx,
				STRAIT_STATUS_CANCELED);
		w->wake_ns[WORLD_SOURCE] = w->now_ns;
		world_run_for(w, 5 * MS);
	}
	silence.on = false;
	world_run_for(w, 30 * S);
	assert_true(credit_free(w) + MIB >= before);
	world_destroy(w);
}

static void say_opened_as_committed(struct world *w, unsigned int i)
{
	struct lie l;

	lie_begin(&l);
	for (uint32_t id = 0; id < 90; id++)
		frame_put_open_ack(&l.f, i * 90 + id + 5, (uint8_t)(id % 20));
	frame_put_open_ack(&l.f, 1, STRAIT_STATUS_COMMITTED);
	assert_int_equal(lie_tell(w, WORLD_SINK, &l), 0);
}

static void a_transfer_is_not_done_because_it_was_opened(void **state)
{
	struct world *w = begun(1, NULL);

	(void)state;
	say_opened_as_committed(w, 0);
	world_run_for(w, 10 * MS);
	assert_true(w->transfers[0].closed);
	assert_int_equal(w->transfers[0].close_status, STRAIT_STATUS_MALFORMED);
	for (uint32_t i = 0; i < w->nobjects; i++)
		assert_true(w->objects[i].tx_status != STRAIT_STATUS_COMMITTED ||
			w->objects[i].published);
	world_destroy(w);
}

static void say_withdrawn_or_pending(struct world *w, unsigned int i)
{
	const struct tx_transfer *t = first_transfer(w);
	uint64_t frames = world_counter(w, WORLD_SOURCE, STRAIT_C_rx_frame);
	struct lie l;

	(void)i;
	if (t == NULL)
		return;
	frame_object_begin(lie_begin(&l), t->id, t->log_next);
	frame_objects_item(&l.f, 0, STRAIT_STATUS_PENDING);
	frame_list_end(&l.f);
	lie_tell(w, WORLD_SINK, &l);
	assert_int_equal(world_counter(w, WORLD_SOURCE, STRAIT_C_rx_frame), frames + 1);
}

static void pending_is_no_final_status(void **state)
{
	struct world *w = begun(1, NULL);

	(void)state;
	lie_often(w, 50, 1 * MS, say_withdrawn_or_pending);
	finish_open(w, 10 * S);
	is_usable(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(acknowledging_what_was_never_sent_is_malformed),
		cmocka_unit_test(what_was_acknowledged_but_never_came_is_sent_again),
		cmocka_unit_test(ranges_that_alternate_with_every_packet_only_slow),
		cmocka_unit_test(a_clock_that_cannot_be_is_refused_or_harmless),
		cmocka_unit_test(blocks_said_to_be_there_are_sent_when_they_are_needed),
		cmocka_unit_test(every_block_needed_for_ever_stays_under_the_cap),
		cmocka_unit_test(a_need_older_than_the_last_packet_of_its_block_asks_for_nothing),
		cmocka_unit_test(credit_without_end_and_credit_that_falls),
		cmocka_unit_test(a_log_above_a_hole_is_not_believed),
		cmocka_unit_test(a_receiver_that_never_takes_an_end_is_told_ever_more_seldom),
		cmocka_unit_test(credit_of_transfers_nobody_heard_of_comes_back),
		cmocka_unit_test(a_transfer_is_not_done_because_it_was_opened),
		cmocka_unit_test(pending_is_no_final_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
