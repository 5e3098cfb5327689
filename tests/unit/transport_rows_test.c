/* SPDX-License-Identifier: Apache-2.0 */
/* Rows make up for losses once: nothing they rebuilt is asked for or sent again. */
#include "tests/unit/scenario.h"

static struct world *shipped(const struct world_config *cfg, uint8_t class_, uint32_t mib)
{
	struct world *w = world_open(cfg, NULL);
	uint32_t first = world_add_objects(w, mib, 1 * MIB);

	assert_true(world_order(w, first, mib, class_) >= 0);
	finish_open(w, 20 * S);
	return w;
}

static void what_rows_rebuilt_is_not_sent_again(void **state)
{
	uint64_t rebuilt = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct world_config cfg = small_config(seed);
		struct world *w;

		cfg.link[WORLD_SOURCE].loss = 0.01;
		w = shipped(&cfg, STRAIT_CLASS_URGENT, 1);
		rebuilt += world_counter(w, WORLD_SINK, STRAIT_C_rx_decoded_symbols);
		assert_int_equal(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_repair_rounds), 0);
		assert_int_equal(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_resend), 0);
		world_destroy(w);
	}
	assert_true(rebuilt > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_rows_rebuilt_is_not_sent_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
