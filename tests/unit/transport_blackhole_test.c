/* SPDX-License-Identifier: Apache-2.0 */
/* What a black hole swallows is no loss of the path: neither rows nor the rate may learn of it. */
#include "tests/unit/scenario.h"

#undef COUNT
#include "dataplane/transport/session_pvt.h"
#undef COUNT

static struct world *fallen(uint64_t seed, uint64_t at_ms, uint16_t symbol, uint32_t bytes)
{
	struct world_config cfg = small_config(seed);
	struct world *w;

	cfg.symbol_bytes = symbol;
	for (int side = 0; side < WORLD_SIDES; side++) {
		cfg.link[side].mtus[0] = (struct link_mtu){ at_ms * MS, bytes };
		cfg.link[side].nmtus = 1;
	}
	w = world_open(&cfg, NULL);
	order(w, 4, 2 * MIB);
	finish_open(w, 60 * S);
	assert_int_equal(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_mtu_falls), 1);
	return w;
}

/* The path lost nothing but what was too large. */
static void nothing_lost(struct world *w)
{
	assert_true(w->session[WORLD_SOURCE]->tx.window_lost == 0);
	world_destroy(w);
}

static void packets_of_a_black_hole_are_not_counted_as_lost(void **state)
{
	(void)state;
	for (uint64_t at_ms = 30; at_ms < 600; at_ms += 113) {
		nothing_lost(fallen(at_ms, at_ms, 1432, 1280));
		nothing_lost(fallen(at_ms, at_ms, 8932, 1500));
	}
}

/* Where packets come late, the verdict on the path comes before that on the packets. */
static void packets_found_missing_after_the_verdict_are_not_counted_either(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct world_config cfg = small_config(seed);
		struct world *w;

		for (int side = 0; side < WORLD_SIDES; side++) {
			cfg.link[side].rtt_ns = 40 * MS;
			cfg.link[side].mtus[0] = (struct link_mtu){ (30 + seed * 37) * MS, 1280 };
			cfg.link[side].nmtus = 1;
		}
		cfg.link[WORLD_SOURCE].reorder = 0.25;
		cfg.link[WORLD_SOURCE].reorder_ns = 24 * MS;
		w = world_open(&cfg, NULL);
		order(w, 4, 2 * MIB);
		finish_open(w, 60 * S);
		assert_int_equal(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_mtu_falls), 1);
		/* One or the other was late beyond all expectation. */
		assert_true(w->session[WORLD_SOURCE]->tx.window_lost <= 3);
		world_destroy(w);
	}
}

static void after_a_black_hole_an_order_needs_no_more_rows_than_before(void **state)
{
	struct world *w = fallen(1, 300, 1432, 1280);
	uint64_t rows = world_counter(w, WORLD_SOURCE, STRAIT_C_tx_repair), before, after;
	struct world_config cfg = small_config(1);

	(void)state;
	order(w, 1, 1 * MIB);
	finish_open(w, 10 * S);
	after = world_counter(w, WORLD_SOURCE, STRAIT_C_tx_repair) - rows;
	world_destroy(w);
	/* The same order over a path of that size from the start, as much sent before. */
	cfg.symbol_bytes = 1280 - 68;
	w = world_open(&cfg, NULL);
	order(w, 4, 2 * MIB);
	finish_open(w, 10 * S);
	rows = world_counter(w, WORLD_SOURCE, STRAIT_C_tx_repair);
	order(w, 1, 1 * MIB);
	finish_open(w, 10 * S);
	before = world_counter(w, WORLD_SOURCE, STRAIT_C_tx_repair) - rows;
	world_destroy(w);
	assert_in_range(after, 0, before + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_of_a_black_hole_are_not_counted_as_lost),
		cmocka_unit_test(packets_found_missing_after_the_verdict_are_not_counted_either),
		cmocka_unit_test(after_a_black_hole_an_order_needs_no_more_rows_than_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
