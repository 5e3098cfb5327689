/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of all sizes and fates. */
#include "tests/unit/scenario.h"

static void an_object_of_one_byte_arrives(void **state)
{
	struct world_config cfg = small_config(1);

	(void)state;
	ship(&cfg, NULL, 1, 1 * S);
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.3;
	for (cfg.seed = 1; cfg.seed <= 30; cfg.seed++)
		ship(&cfg, NULL, 1, 10 * S);
}

static void a_small_transfer_takes_no_round_trip_before_data(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, NULL);

	(void)state;
	order(w, 1, 50 * KIB);
	finish_open(w, 1 * S);
	/* One way, 5 ms to serialize, and control threads. */
	assert_true(w->verified_ns - w->t0_ns < 18 * MS);
	world_destroy(w);
}

static void sizes_at_symbol_and_block_boundaries_arrive(void **state)
{
	static const uint64_t symbols[] = { 1, 2, 127, 128, 129, 255, 256, 257, 384 };
	struct world_config cfg = small_config(1);

	(void)state;
	for (size_t i = 0; i < COUNT(symbols); i++)
		for (int d = -1; d <= 1; d++) {
			cfg.link[WORLD_SOURCE].loss = d ? 0.05 : 0;
			ship(&cfg, NULL, symbols[i] * SYMBOL + (uint64_t)d, 3 * S);
		}
}

static void objects_that_straddle_symbols_and_blocks_arrive(void **state)
{
	static const uint64_t lengths[] = { 1, SYMBOL - 1, SYMBOL, SYMBOL + 1, 3, 64 * KIB - 1,
		64 * KIB, 64 * KIB + 1, 128 * SYMBOL, 7, 128 * SYMBOL + 1, 128 * SYMBOL - 1, 1 };
	struct world_config cfg = small_config(1);

	(void)state;
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.03;
	for (cfg.seed = 1; cfg.seed <= 20; cfg.seed++) {
		struct world *w = world_open(&cfg, NULL);

		for (size_t i = 0; i < COUNT(lengths); i++)
			world_add_objects(w, 1, lengths[i]);
		assert_true(world_order(w, 0, COUNT(lengths), STRAIT_CLASS_URGENT) >= 0);
		finish(w, 5 * S);
	}
}

static void thousands_of_tiny_objects_arrive(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.02;
	w = world_open(&cfg, NULL);
	order(w, 20000, 100);
	finish(w, 10 * S);
}

static void the_largest_object_arrives(void **state)
{
	struct world_config cfg = small_config(1);

	(void)state;
	for (int side = 0; side < WORLD_SIDES; side++) {
		cfg.link[side].rate_bps = 1000000000;
		cfg.link[side].loss = 0.01;
	}
	cfg.cap_bps = 1000000000;
	ship(&cfg, NULL, 64 * MIB, 3 * S);
}

static void jumbo_and_minimal_symbols_work(void **state)
{
	static const uint16_t symbols[] = { STRAIT_SYMBOL_BYTES_MIN, 1412, 1433, 8932 };
	struct world_config cfg = small_config(1);

	(void)state;
	cfg.link[WORLD_SOURCE].loss = 0.02;
	for (size_t i = 0; i < COUNT(symbols); i++) {
		cfg.symbol_bytes = symbols[i];
		ship(&cfg, NULL, 3 * MIB + 1, 5 * S);
	}
}

static void a_full_destination_refuses_some_and_takes_others(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.02;
	w = world_open(&cfg, NULL);
	world_add_objects(w, 30, 100 * KIB);
	for (uint32_t i = 0; i < 30; i += 3)
		w->objects[i].refuse = STRAIT_STATUS_FULL;
	assert_true(world_order(w, 0, 30, STRAIT_CLASS_NORMAL) >= 0);
	finish_open(w, 5 * S);
	for (uint32_t i = 0; i < 30; i++)
		assert_int_equal(w->objects[i].tx_status,
			i % 3 ? STRAIT_STATUS_COMMITTED : STRAIT_STATUS_FULL);
	world_destroy(w);
}

static void nothing_but_refusals_ends_too(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, NULL);

	(void)state;
	world_add_objects(w, 5, 1 * MIB);
	for (uint32_t i = 0; i < 5; i++)
		w->objects[i].refuse = STRAIT_STATUS_FULL;
	assert_true(world_order(w, 0, 5, STRAIT_CLASS_NORMAL) >= 0);
	finish(w, 5 * S);
}

static void evicted_source_objects_fail_alone(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.02;
	for (uint32_t pattern = 1; pattern < 8; pattern++) {
		w = world_open(&cfg, NULL);
		/* Not whole symbols, so neighbors share them. */
		world_add_objects(w, 24, 90 * KIB + 7);
		for (uint32_t i = 0; i < 24; i++)
			if (pattern >> (i % 3) & 1)
				w->objects[i].gone =
					i % 2 ? STRAIT_STATUS_EVICTED : STRAIT_STATUS_NOT_FOUND;
		assert_true(world_order(w, 0, 24, STRAIT_CLASS_NORMAL) >= 0);
		finish(w, 5 * S);
	}
}

static void evicted_objects_within_a_symbol_are_not_made_up(void **state)
{
	struct world_config cfg = small_config(1);

	(void)state;
	for (; cfg.seed <= 10; cfg.seed++) {
		struct world *w;

		cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.05;
		w = world_open(&cfg, NULL);
		/* Many to a symbol: their neighbors' symbols carry their place. */
		world_add_objects(w, 300, 100);
		for (uint32_t i = 0; i < 300; i += 7) {
			w->objects[i].gone = STRAIT_STATUS_EVICTED;
			w->objects[i].with_digest = i % 2;
		}
		assert_true(world_order(w, 0, 300, STRAIT_CLASS_NORMAL) >= 0);
		finish(w, 5 * S);
	}
}

static void a_wrong_digest_is_reported_and_nothing_published(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, NULL);

	(void)state;
	world_add_objects(w, 10, 50 * KIB);
	w->objects[3].lie = w->objects[9].lie = true;
	assert_true(world_order(w, 0, 10, STRAIT_CLASS_NORMAL) >= 0);
	finish_open(w, 5 * S);
	assert_int_equal(w->objects[3].tx_status, STRAIT_STATUS_DIGEST);
	assert_false(w->objects[3].published);
	assert_true(w->objects[4].published);
	assert_int_equal(world_counter(w, WORLD_SINK, STRAIT_C_rx_digest), 2);
	world_destroy(w);
}

static void objects_without_digest_are_taken(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = 0.05;
	w = world_open(&cfg, NULL);
	world_add_objects(w, 10, 50 * KIB);
	for (uint32_t i = 0; i < 10; i++)
		w->objects[i].with_digest = false;
	assert_true(world_order(w, 0, 10, STRAIT_CLASS_BULK) >= 0);
	finish(w, 5 * S);
}

static void what_the_destination_has_is_not_placed_again(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, NULL);

	(void)state;
	world_add_objects(w, 10, 50 * KIB);
	for (uint32_t i = 0; i < 10; i += 2)
		w->objects[i].published = true;
	assert_true(world_order(w, 0, 10, STRAIT_CLASS_NORMAL) >= 0);
	finish_open(w, 5 * S);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(w->objects[i].tx_status,
			i % 2 ? STRAIT_STATUS_COMMITTED : STRAIT_STATUS_EXISTS);
	world_destroy(w);
}

static void cancel_ends_both_sides_at_any_time(void **state)
{
	(void)state;
	for (uint64_t at_ms = 0; at_ms < 240; at_ms += 11) {
		struct world_config cfg = small_config(at_ms + 1);
		struct world *w;
		bool live;

		cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.02;
		w = world_open(&cfg, NULL);
		order(w, 20, 100 * KIB);
		world_run_for(w, at_ms * MS);
		live = w->transfers[0].tx != NULL;
		if (live)
			session_tx_cancel(w->session[WORLD_SOURCE], w->transfers[0].tx,
				STRAIT_STATUS_CANCELED);
		w->wake_ns[WORLD_SOURCE] = w->now_ns;
		if (!world_run(w, 5 * S))
			fail_msg("canceled at %llu ms: %s", (unsigned long long)at_ms,
				w->error[0] ? w->error : "not closed");
		for (uint32_t i = 0; i < 20; i++) {
			const struct world_object *o = &w->objects[i];

			assert_true(o->tx_status == STRAIT_STATUS_COMMITTED ||
				(live && o->tx_status == STRAIT_STATUS_CANCELED));
			/* It may hear of a commit too late, but never of one that was not. */
			if (o->tx_status == STRAIT_STATUS_COMMITTED)
				assert_true(o->published);
			assert_null(o->src);
			assert_null(o->dst);
		}
		world_destroy(w);
	}
}

static void tiny_credit_only_slows(void **state)
{
	(void)state;
	for (uint64_t objects = 1; objects <= 4; objects *= 2) {
		struct world_config cfg = small_config(objects);
		struct world *w;

		cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.02;
		cfg.credit_bytes = 200 * KIB;
		cfg.credit_objects = objects;
		w = world_open(&cfg, NULL);
		order(w, 40, 100 * KIB);
		finish(w, 60 * S);
	}
}

static void tiny_scratch_only_slows(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.scratch_slots = 16;
	cfg.row_slots = 16;
	cfg.control_delay_ns = 30 * MS;
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.02;
	w = world_open(&cfg, NULL);
	order(w, 10, 200 * KIB);
	finish(w, 30 * S);
}

static void more_transfers_than_a_session_holds_wait_their_turn(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.02;
	w = world_open(&cfg, NULL);
	for (int i = 0; i < 150; i++)
		order(w, 2, 10 * KIB);
	finish(w, 30 * S);
}

static void urgent_overtakes_bulk(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, NULL);
	uint32_t first;

	(void)state;
	world_add_objects(w, 10, 2 * MIB);
	assert_true(world_order(w, 0, 10, STRAIT_CLASS_BULK) >= 0);
	world_run_for(w, 100 * MS);
	first = world_add_objects(w, 1, 200 * KIB);
	assert_true(world_order(w, first, 1, STRAIT_CLASS_URGENT) >= 0);
	/* One way, 18 ms to serialize, rows, and little else. */
	world_run_for(w, 45 * MS);
	assert_true(w->objects[first].published);
	finish(w, 10 * S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_of_one_byte_arrives),
		cmocka_unit_test(a_small_transfer_takes_no_round_trip_before_data),
		cmocka_unit_test(sizes_at_symbol_and_block_boundaries_arrive),
		cmocka_unit_test(objects_that_straddle_symbols_and_blocks_arrive),
		cmocka_unit_test(thousands_of_tiny_objects_arrive),
		cmocka_unit_test(the_largest_object_arrives),
		cmocka_unit_test(jumbo_and_minimal_symbols_work),
		cmocka_unit_test(a_full_destination_refuses_some_and_takes_others),
		cmocka_unit_test(nothing_but_refusals_ends_too),
		cmocka_unit_test(evicted_source_objects_fail_alone),
		cmocka_unit_test(evicted_objects_within_a_symbol_are_not_made_up),
		cmocka_unit_test(a_wrong_digest_is_reported_and_nothing_published),
		cmocka_unit_test(objects_without_digest_are_taken),
		cmocka_unit_test(what_the_destination_has_is_not_placed_again),
		cmocka_unit_test(cancel_ends_both_sides_at_any_time),
		cmocka_unit_test(tiny_credit_only_slows),
		cmocka_unit_test(tiny_scratch_only_slows),
		cmocka_unit_test(more_transfers_than_a_session_holds_wait_their_turn),
		cmocka_unit_test(urgent_overtakes_bulk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
