/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within a LAN domain a round trip is nothing, so nothing is sent ahead of a loss: no transfer
 * plans rows, and what was lost is sent again.
 */
#include "tests/unit/scenario.h"

#include "dataplane/transport/session.h"

#define RTT_NS (MS / 5)

/* cut_ms: when nothing passes for 20 ms; 0: never. */
static struct world_config lan_config(uint64_t seed, double loss, bool lan, uint64_t cut_ms)
{
	struct world_config cfg = small_config(seed);

	for (int side = 0; side < WORLD_SIDES; side++) {
		cfg.link[side].rate_bps = 1000000000;
		cfg.link[side].rtt_ns = RTT_NS;
		cfg.link[side].loss = loss;
		cfg.link[side].ncuts = cut_ms > 0;
		cfg.link[side].cuts[0] = (struct link_cut){ cut_ms * MS, 20 * MS };
	}
	cfg.cap_bps = 1000000000;
	cfg.lan = lan;
	return cfg;
}

/* What the source did for four orders of that class, to the end. */
static struct session_stats shipped(const struct world_config *cfg, uint8_t class_)
{
	struct world *w = world_open(cfg, NULL);
	struct session_stats stats;
	uint32_t first;

	for (int i = 0; i < 4; i++) {
		first = world_add_objects(w, 3, 700 * KIB + 11);
		assert_int_not_equal(first, UINT32_MAX);
		assert_true(world_order(w, first, 3, class_) >= 0);
	}
	finish_open(w, 30 * S);
	session_stats(w->session[WORLD_SOURCE], &stats);
	world_destroy(w);
	return stats;
}

static void nothing_is_sent_ahead_of_a_loss(void **state)
{
	static const uint8_t classes[] = { STRAIT_CLASS_URGENT, STRAIT_CLASS_NORMAL,
		STRAIT_CLASS_BULK };

	(void)state;
	for (size_t c = 0; c < COUNT(classes); c++) {
		const struct world_config near = lan_config(1, 0, true, 0);
		const struct world_config far = lan_config(1, 0, false, 0);
		struct session_stats lan = shipped(&near, classes[c]);
		struct session_stats wan = shipped(&far, classes[c]);

		assert_int_equal(lan.counters[STRAIT_C_tx_repair], 0);
		assert_true(wan.counters[STRAIT_C_tx_repair] > 0);
		assert_int_equal(lan.counters[STRAIT_C_tx_resend], 0);
		assert_true(lan.counters[STRAIT_C_tx_packets] < wan.counters[STRAIT_C_tx_packets]);
	}
}

static void what_was_lost_is_sent_again(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		const struct world_config cfg = lan_config(seed, 0.02, true, 0);
		struct session_stats lan = shipped(&cfg, STRAIT_CLASS_NORMAL);
		uint64_t again = lan.counters[STRAIT_C_tx_resend];

		assert_true(again > 0);
		/* A row only where the receiver lacks something and nobody knows what. */
		assert_true(lan.counters[STRAIT_C_tx_repair] * 10 <= again);
	}
}

static void a_silence_is_no_reason_for_rows(void **state)
{
	uint64_t rows = 0;

	(void)state;
	/* The orders take 70 ms or so: silence from before, at and after their last symbol. */
	for (uint64_t at = 62; at <= 82; at++) {
		const struct world_config cfg = lan_config(1, 0, true, at);

		rows += shipped(&cfg, STRAIT_CLASS_NORMAL).counters[STRAIT_C_tx_repair];
	}
	assert_int_equal(rows, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_sent_ahead_of_a_loss),
		cmocka_unit_test(what_was_lost_is_sent_again),
		cmocka_unit_test(a_silence_is_no_reason_for_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
