/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sender that has the keys and sends what it likes. The receiver allocates nothing, its scratch,
 * rows and slots are bounded, every drop has its name, and honest transfers beside it and after it
 * end well.
 */
#include "tests/unit/hostile.h"

#include <errno.h>

enum { STRANGE = 1000 }; /* transfer ids that are not the honest sender's */

static struct world *open_world(uint64_t seed, const struct world_hooks *h)
{
	struct world_config cfg = small_config(seed);

	cfg.strangers = true;
	return world_open(&cfg, h);
}

static struct frame_open strange_open(uint32_t id)
{
	return (struct frame_open){
		.transfer = id,
		.order = UINT64_MAX,
		.stream_bytes = 300 * SYMBOL,
		.manifest_bytes = 40,
		.objects = 1,
		.symbol_bytes = SYMBOL,
		.class_ = STRAIT_CLASS_NORMAL,
		.deadline_ms = UINT64_MAX,
	};
}

static int say_open(struct world *w, const struct frame_open *o)
{
	struct lie l;

	assert_int_equal(frame_put_open(lie_begin(&l), o), 0);
	return lie_tell(w, WORLD_SOURCE, &l);
}

static void say_close(struct world *w, uint32_t first, uint32_t n)
{
	struct lie l;

	for (uint32_t i = 0; i < n;) {
		lie_begin(&l);
		for (; i < n && frame_put_close(&l.f, first + i, STRAIT_STATUS_RESET) == 0; i++)
			;
		assert_int_equal(lie_tell(w, WORLD_SOURCE, &l), 0);
	}
}

static int say_symbol(struct world *w, uint8_t type, uint32_t id, uint32_t block, uint8_t esi,
	uint32_t len)
{
	static const uint8_t bytes[STRAIT_SYMBOL_BYTES_MAX];
	const struct packet_header h = { .type = type, .esi = esi, .transfer = id, .block = block };

	return hostile_packet(w, WORLD_SOURCE, h, bytes, len);
}

static uint32_t slots_used(const struct world *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SESSION_TRANSFERS_MAX; i++)
		n += w->session[WORLD_SINK]->rx.slots[i].used;
	return n;
}

static uint64_t dropped(const struct world *w, enum strait_counter c)
{
	return world_counter(w, WORLD_SINK, c);
}

/* ---- OPEN and CLOSE ------------------------------------------------------------------------- */

static void opens_beyond_the_slots_are_not_answered_and_take_no_room(void **state)
{
	struct world *w = open_world(1, NULL);

	(void)state;
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 200; i++) {
			struct frame_open o = strange_open(STRANGE + i);

			assert_int_equal(say_open(w, &o), 0);
		}
		assert_int_equal(slots_used(w), SESSION_TRANSFERS_MAX);
		world_run_for(w, 5 * MS);
	}
	say_close(w, STRANGE, 200);
	world_run_for(w, 100 * MS);
	assert_int_equal(slots_used(w), 0);
	is_usable(w);
}

static void transfers_without_manifest_and_without_end_leave_room_for_others(void **state)
{
	struct world *w = open_world(1, NULL);

	(void)state;
	for (uint32_t i = 0; i + 1 < SESSION_TRANSFERS_MAX; i++) {
		struct frame_open o = strange_open(STRANGE + i);

		assert_int_equal(say_open(w, &o), 0);
	}
	world_run_for(w, 20 * MS);
	/* Data ahead of the manifest that never comes fills the scratch. */
	for (uint32_t i = 0; i < 20000; i++) {
		int rc = say_symbol(w, STRAIT_PACKET_DATA, STRANGE + i % 63, i / 63 % 3,
			(uint8_t)(i / 189), SYMBOL);

		assert_true(rc == 0 || rc == -ENOBUFS || rc == -EALREADY);
	}
	assert_true(dropped(w, STRAIT_C_rx_scratch_full) > 1000);
	assert_int_equal(w->session[WORLD_SINK]->rx.early.used, w->session[WORLD_SINK]->rx.early.n);
	/* An honest one beside them. */
	order(w, 4, 300 * KIB);
	for (int i = 0; i < 100 && !w->transfers[0].closed; i++)
		world_run_for(w, 100 * MS);
	for (uint32_t i = 0; i < w->nobjects; i++)
		assert_int_equal(w->objects[i].tx_status, STRAIT_STATUS_COMMITTED);
	say_close(w, STRANGE, 63);
	is_usable(w);
}

static void a_manifest_that_lies_is_refused(void **state)
{
	struct world *w = open_world(1, NULL);

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		struct frame_open o = strange_open(STRANGE + i);

		assert_int_equal(say_open(w, &o), 0);
		world_run_for(w, 1 * MS);
		assert_int_equal(say_symbol(w, STRAIT_PACKET_MANIFEST, STRANGE + i, 0, 0, 40), 0);
		world_run_for(w, 1 * MS);
	}
	assert_int_equal(dropped(w, STRAIT_C_rx_open_refused), 100);
	assert_int_equal(slots_used(w), 0);
	is_usable(w);
}

static void opens_that_cannot_be_are_malformed(void **state)
{
	static const struct {
		uint32_t id, objects, manifest;
		uint64_t bytes;
		uint16_t symbol;
		uint8_t class_;
	} wrong[] = {
		{ STRANGE, 0, 40, 100, SYMBOL, 0 },
		{ STRANGE, 65537, 1 << 21, 1 << 20, SYMBOL, 0 },
		{ STRANGE, 1, 20, 100, SYMBOL, 0 },
		{ STRANGE, 1, 1109, 100, SYMBOL, 0 },
		{ STRANGE, 65536, (32 << 20) + 1, 1 << 20, SYMBOL, 0 },
		{ STRANGE, 1, 40, 0, SYMBOL, 0 },
		{ STRANGE, 1, 40, (64 << 20) + 1, SYMBOL, 0 },
		{ STRANGE, 2, 80, UINT64_MAX, SYMBOL, 0 },
		{ STRANGE, 1, 40, 100, STRAIT_SYMBOL_BYTES_MIN - 1, 0 },
		{ STRANGE, 1, 40, 100, STRAIT_SYMBOL_BYTES_MAX + 1, 0 },
		{ STRANGE, 1, 40, 100, 0, 0 },
		{ STRANGE, 1, 40, 100, SYMBOL, STRAIT_CLASS_COUNT },
		{ 0, 1, 40, 100, SYMBOL, 0 },
		{ 5000, 1, 40, 100, SYMBOL, 0 }, /* far above any seen */
		{ UINT32_MAX, 1, 40, 100, SYMBOL, 0 },
	};
	struct world *w = open_world(1, NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct frame_open o = strange_open(wrong[i].id);

		o.objects = wrong[i].objects;
		o.manifest_bytes = wrong[i].manifest;
		o.stream_bytes = wrong[i].bytes;
		o.symbol_bytes = wrong[i].symbol;
		o.class_ = wrong[i].class_;
		assert_int_equal(say_open(w, &o), -EPROTO);
		assert_int_equal(dropped(w, STRAIT_C_rx_frame), i + 1);
	}
	assert_int_equal(slots_used(w), 0);
	is_usable(w);
}

static void symbols_of_the_smallest_size_are_taken_and_larger_than_agreed_refused(void **state)
{
	struct world *w = open_world(1, NULL);
	struct frame_open o = strange_open(STRANGE);

	(void)state;
	o.symbol_bytes = STRAIT_SYMBOL_BYTES_MIN;
	assert_int_equal(say_open(w, &o), 0);
	world_run_for(w, 1 * MS);
	assert_int_equal(slots_used(w), 1);
	o.transfer++;
	o.symbol_bytes = SYMBOL + 1;
	assert_int_equal(say_open(w, &o), 0);
	assert_int_equal(dropped(w, STRAIT_C_rx_open_refused), 1);
	assert_int_equal(slots_used(w), 1);
	say_close(w, STRANGE, 1);
	is_usable(w);
}

static void closing_what_was_never_opened_has_no_effect(void **state)
{
	struct world *w = open_world(1, NULL);

	(void)state;
	for (int i = 0; i < 50; i++) {
		say_close(w, STRANGE, 1000);
		say_close(w, 0, 2);
		say_close(w, UINT32_MAX - 10, 10);
	}
	assert_true(w->session[WORLD_SINK]->rx.n_close_acks <= REFUSED_MAX);
	is_usable(w);
}

/* ---- symbols -------------------------------------------------------------------------------- */

static void scratch_of_transfers_never_opened_is_given_to_those_that_are(void **state)
{
	struct world *w = open_world(1, NULL);
	struct scratch *early = &w->session[WORLD_SINK]->rx.early;
	uint64_t waited;

	(void)state;
	for (uint32_t i = 0; early->used < early->n; i++)
		assert_int_equal(say_symbol(w, STRAIT_PACKET_DATA, STRANGE + i % 1000, i / 1000, 0,
					 SYMBOL),
			0);
	assert_int_equal(say_symbol(w, STRAIT_PACKET_DATA, STRANGE, 77, 0, SYMBOL), -ENOBUFS);
	/* The honest one's first round trip finds room: its data come before its memory. */
	waited = dropped(w, STRAIT_C_rx_early);
	w->cfg.control_delay_ns = 15 * MS;
	order(w, 4, 300 * KIB);
	world_run_for(w, 40 * MS);
	assert_true(dropped(w, STRAIT_C_rx_early) > waited + 50);
	finish_open(w, 10 * S);
	assert_true(early->used <= early->n);
	w->cfg.control_delay_ns = 20000;
	is_usable(w);
}

static void rows_without_end_for_one_block_take_what_one_block_may(void **state)
{
	struct world *w = open_world(1, NULL);
	struct scratch *rows = &w->session[WORLD_SINK]->rx.rows;

	(void)state;
	/* Rows of the manifest's only block: 1 source symbol, and one row would solve it. */
	for (uint32_t t = 0; t < 60; t++) {
		struct frame_open o = strange_open(STRANGE + t);

		o.objects = 1000;
		o.manifest_bytes = 1000 * 100;
		o.stream_bytes = 10000 * SYMBOL;
		assert_int_equal(say_open(w, &o), 0);
	}
	world_run_for(w, 5 * MS);
	/* 70 source symbols: 69 rows do not solve it. Told four times. */
	for (uint32_t n = 0; n < 4; n++)
		for (uint32_t t = 0; t < 60; t++)
			for (uint32_t row = 0; row < 69; row++) {
				int rc = say_symbol(w, STRAIT_PACKET_MANIFEST, STRANGE + t, 0,
					(uint8_t)(70 + row), SYMBOL);

				assert_true(rc == 0 || rc == -ENOBUFS);
			}
	assert_true(rows->used <= rows->n && rows->used <= 60 * 69);
	assert_true(dropped(w, STRAIT_C_rx_rows_full) + dropped(w, STRAIT_C_rx_duplicate) >=
		3 * 60 * 69);
	order(w, 4, 300 * KIB);
	for (int i = 0; i < 100 && !w->transfers[0].closed; i++)
		world_run_for(w, 100 * MS);
	for (uint32_t i = 0; i < w->nobjects; i++)
		assert_int_equal(w->objects[i].tx_status, STRAIT_STATUS_COMMITTED);
	say_close(w, STRANGE, 60);
	world_run_for(w, 100 * MS);
	assert_int_equal(rows->used, 0);
	is_usable(w);
}

static void data_and_frames_of_transfers_long_gone_are_dropped(void **state)
{
	struct world *w = open_world(1, NULL);
	uint64_t before;
	struct lie l;

	(void)state;
	order(w, 4, 100 * KIB);
	assert_true(world_run(w, 5 * S));
	before = dropped(w, STRAIT_C_rx_transfer);
	for (uint32_t i = 0; i < 500; i++) {
		uint8_t type = i % 2 ? STRAIT_PACKET_DATA : STRAIT_PACKET_MANIFEST;

		assert_int_equal(say_symbol(w, type, 1, i, (uint8_t)i, SYMBOL), -ENOENT);
		frame_withdraw_begin(lie_begin(&l), 1);
		frame_objects_item(&l.f, 0, STRAIT_STATUS_EVICTED);
		frame_list_end(&l.f);
		frame_put_object_ack(&l.f, 1, i);
		assert_int_equal(lie_tell(w, WORLD_SOURCE, &l), 0);
	}
	assert_int_equal(dropped(w, STRAIT_C_rx_transfer), before + 500);
	is_usable(w);
}

/* ---- objects -------------------------------------------------------------------------------- */

static void say_withdraw(struct world *w, unsigned int i)
{
	const struct tx_transfer *t = first_transfer(w);
	struct lie l;

	if (t == NULL)
		return;
	frame_withdraw_begin(lie_begin(&l), t->id);
	for (uint32_t o = 0; o < 300; o++)
		frame_objects_item(&l.f, o * 300, (uint8_t)(i % 4));
	frame_list_end(&l.f);
	frame_put_object_ack(&l.f, t->id, UINT32_MAX - i);
	/* PENDING, COMMITTED and EXISTS say nothing of what the sender cannot ship. */
	assert_int_equal(lie_tell(w, WORLD_SOURCE, &l), i % 4 < 3 ? -EPROTO : 0);
}

static void all_objects_withdrawn_end_so_and_nothing_is_left(void **state)
{
	struct world *w = open_world(1, NULL);

	(void)state;
	order(w, 20, 200 * KIB);
	world_run_for(w, 40 * MS);
	lie_often(w, 100, 1 * MS, say_withdraw);
	/* Only object 0 is in range, and the honest sender did not know that it is gone. */
	assert_true(w->objects[0].rx_status == STRAIT_STATUS_FULL || w->objects[0].published);
	for (int i = 0; i < 100 && !w->transfers[0].closed; i++)
		world_run_for(w, 100 * MS);
	assert_true(w->transfers[0].closed);
	for (uint32_t i = 1; i < w->nobjects; i++)
		assert_int_equal(w->objects[i].tx_status, STRAIT_STATUS_COMMITTED);
	assert_string_equal(w->error, "");
	world_destroy(w);
}

/* ---- questions ------------------------------------------------------------------------------ */

/* The sink's own bytes since, with packets of this kind coming at this rate. */
static uint64_t bytes_answered(uint64_t seed, unsigned int times, uint64_t every_ns,
	void (*say)(struct world *w, unsigned int i), uint64_t *asked)
{
	struct world *w = open_world(seed, NULL);
	uint64_t before = w->f[WORLD_SINK].line_bytes;
	uint64_t in = world_counter(w, WORLD_SINK, STRAIT_C_rx_bytes);

	lie_often(w, times, every_ns, say);
	*asked = world_counter(w, WORLD_SINK, STRAIT_C_rx_bytes) - in +
		times * STRAIT_LINE_OVERHEAD_BYTES;
	before = w->f[WORLD_SINK].line_bytes - before;
	is_usable(w);
	return before;
}

static void say_challenge(struct world *w, unsigned int i)
{
	struct lie l;

	frame_put_token(lie_begin(&l), STRAIT_FRAME_CHALLENGE, i);
	assert_int_equal(lie_tell(w, WORLD_SOURCE, &l), 0);
}

static void say_many_challenges(struct world *w, unsigned int i)
{
	struct lie l;

	lie_begin(&l);
	while (frame_put_token(&l.f, STRAIT_FRAME_CHALLENGE, i) == 0)
		;
	assert_int_equal(lie_tell(w, WORLD_SOURCE, &l), 0);
}

static void challenges_draw_no_more_bytes_than_they_bring(void **state)
{
	uint64_t asked, told;

	(void)state;
	told = bytes_answered(1, 5000, 20000, say_challenge, &asked);
	assert_true(told <= asked + 2000);
	told = bytes_answered(1, 500, 20000, say_many_challenges, &asked);
	assert_true(told <= asked / 8);
}

static void say_ping_soon(struct world *w, unsigned int i)
{
	struct lie l;

	(void)i;
	frame_put_ping(lie_begin(&l), 1); /* report every us, please */
	assert_int_equal(lie_tell(w, WORLD_SOURCE, &l), 0);
}

static void say_ping(struct world *w, unsigned int i)
{
	struct lie l;

	frame_put_ping(lie_begin(&l), i == 0 ? 4000 : 0);
	assert_int_equal(lie_tell(w, WORLD_SOURCE, &l), 0);
}

static void pings_are_answered_at_the_interval_s_pace(void **state)
{
	uint64_t asked, told;

	(void)state;
	/* 200 ms at no more than a report each 250 us, of some 150 bytes. */
	told = bytes_answered(1, 40000, 5000, say_ping, &asked);
	assert_true(told < 801 * 250);
	assert_true(told < asked);
	/* An interval that cannot be meant is one of 10 us. */
	told = bytes_answered(1, 2000, 10000, say_ping_soon, &asked);
	assert_true(told < 2 * asked);
}

static void say_interval(struct world *w, unsigned int i)
{
	struct lie l;

	frame_put_ping(lie_begin(&l), i % 2 ? UINT32_MAX : 1);
	assert_int_equal(lie_tell(w, WORLD_SOURCE, &l), 0);
	assert_in_range(w->session[WORLD_SINK]->rx.interval_ns, 10 * 1000, 1000 * MS);
}

static void intervals_of_nothing_and_of_an_hour_are_bounded(void **state)
{
	struct world *w = open_world(1, NULL);
	struct frame_open o = strange_open(STRANGE);

	(void)state;
	lie_often(w, 100, 100000, say_interval);
	o.report_interval_us = UINT32_MAX;
	assert_int_equal(say_open(w, &o), 0);
	assert_int_equal(w->session[WORLD_SINK]->rx.interval_ns, 1000 * MS);
	say_close(w, STRANGE, 1);
	is_usable(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_beyond_the_slots_are_not_answered_and_take_no_room),
		cmocka_unit_test(transfers_without_manifest_and_without_end_leave_room_for_others),
		cmocka_unit_test(a_manifest_that_lies_is_refused),
		cmocka_unit_test(opens_that_cannot_be_are_malformed),
		cmocka_unit_test(
			symbols_of_the_smallest_size_are_taken_and_larger_than_agreed_refused),
		cmocka_unit_test(closing_what_was_never_opened_has_no_effect),
		cmocka_unit_test(scratch_of_transfers_never_opened_is_given_to_those_that_are),
		cmocka_unit_test(rows_without_end_for_one_block_take_what_one_block_may),
		cmocka_unit_test(data_and_frames_of_transfers_long_gone_are_dropped),
		cmocka_unit_test(all_objects_withdrawn_end_so_and_nothing_is_left),
		cmocka_unit_test(challenges_draw_no_more_bytes_than_they_bring),
		cmocka_unit_test(pings_are_answered_at_the_interval_s_pace),
		cmocka_unit_test(intervals_of_nothing_and_of_an_hour_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
