/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong in other transports, as reported to them, and must not here. */
#include "tests/unit/scenario.h"

/* Both have a COUNT; the session's is not needed here. */
#undef COUNT
#include "dataplane/transport/session_pvt.h"
#undef COUNT
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Haivision/srt#2706: sending hangs for good at a high bitrate. */
static void a_hundred_gigabits_do_not_hang(void **state)
{
	struct world_config cfg = small_config(1);

	(void)state;
	for (int side = 0; side < WORLD_SIDES; side++) {
		cfg.link[side].rate_bps = 100000000000;
		cfg.link[side].rtt_ns = 2 * MS;
		cfg.link[side].loss = 0.001;
	}
	cfg.cap_bps = 100000000000;
	ship(&cfg, NULL, 60 * MIB, 1 * S);
}

/*
 * At 10 Gbit/s, 100 ms and 5 % loss a report spans packets: each tells of its part only. None of
 * that is loss of our own, and a lost packet of a report is no loss of what it told.
 */
static void reports_that_span_packets_are_read_as_one(void **state)
{
	struct world_config cfg = small_config(1);
	struct session_stats stats;
	struct world *w;

	(void)state;
	for (int side = 0; side < WORLD_SIDES; side++) {
		cfg.link[side].rate_bps = 10000000000;
		cfg.link[side].rtt_ns = 100 * MS;
		cfg.link[side].loss = 0.05;
	}
	cfg.cap_bps = 10000000000;
	cfg.light = true;
	w = world_open(&cfg, NULL);
	order(w, 60, 16 * MIB);
	finish_open(w, 1200 * MS);
	session_stats(w->session[WORLD_SOURCE], &stats);
	assert_true(
		stats.counters[STRAIT_C_tx_spurious] * 1000 < stats.counters[STRAIT_C_tx_source]);
	/* Nothing of it looked like loss of the own making. */
	assert_int_equal(w->session[WORLD_SOURCE]->tx.rate.rate_bps, cfg.cap_bps);
	world_destroy(w);
}

/* kcptun#809: ends with other parameters kill the session. Here each transfer brings its own. */
static void transfers_of_different_symbols_go_side_by_side(void **state)
{
	static const uint16_t symbols[] = { SYMBOL, STRAIT_SYMBOL_BYTES_MIN, 1001, SYMBOL };
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = 0.03;
	w = world_open(&cfg, NULL);
	for (size_t i = 0; i < COUNT(symbols); i++) {
		w->cfg.symbol_bytes = symbols[i];
		order(w, 3, 200 * KIB + 77);
	}
	w->cfg.symbol_bytes = SYMBOL;
	finish(w, 10 * S);
}

/* Loses most of one block, so that its rows never suffice, and counts what comes again. */
struct block_loss {
	uint32_t seen, lost;
};

static enum world_pass lose_most_of_a_block(struct world *w, enum world_side side,
	const uint8_t *packet, size_t len, void *user)
{
	struct block_loss *b = user;

	(void)w;
	(void)len;
	if (side != WORLD_SOURCE || packet_type(packet) != STRAIT_PACKET_DATA ||
		packet_u32(packet, STRAIT_OFF_BLOCK) != 5)
		return WORLD_PASS;
	if (b->seen++ >= STRAIT_BLOCK_SYMBOLS_MAX || b->seen % 4 == 0)
		return WORLD_PASS;
	b->lost++;
	return WORLD_LOSE;
}

/* UDPspeeder#257: a group that cannot be decoded loses its originals too. */
static void originals_of_a_block_beyond_repair_stay(void **state)
{
	struct world_config cfg = small_config(1);
	struct block_loss b = { 0 };
	const struct world_hooks h = { .user = &b, .on_send = lose_most_of_a_block };
	struct world *w = world_open(&cfg, &h);

	(void)state;
	order(w, 1, 40 * STRAIT_BLOCK_SYMBOLS_MAX * SYMBOL);
	finish_open(w, 10 * S);
	/* A quarter arrived at once and is not sent again. */
	assert_in_range(b.lost, 90, 96);
	assert_true(b.seen - STRAIT_BLOCK_SYMBOLS_MAX <= b.lost + b.lost / 10);
	world_destroy(w);
}

/*
 * skywire#4239: a reorder buffer below the BDP collapses throughput; ipstack#90: one without bound.
 * Symbols go to their place in any order, so there is nothing to hold.
 */
static void reordering_over_a_round_trip_needs_no_buffer(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;
	uint64_t ideal_ns = 4 * MIB * 8 * 10 * (SYMBOL + 106) / SYMBOL + 10 * MS;

	(void)state;
	cfg.scratch_slots = 64;
	cfg.link[WORLD_SOURCE].reorder = 0.3;
	cfg.link[WORLD_SOURCE].reorder_ns = 20 * MS;
	w = world_open(&cfg, NULL);
	order(w, 2, 2 * MIB);
	finish_open(w, 10 * S);
	assert_true(w->verified_ns - w->t0_ns < ideal_ns + ideal_ns / 4);
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hundred_gigabits_do_not_hang),
		cmocka_unit_test(reports_that_span_packets_are_read_as_one),
		cmocka_unit_test(transfers_of_different_symbols_go_side_by_side),
		cmocka_unit_test(originals_of_a_block_beyond_repair_stay),
		cmocka_unit_test(reordering_over_a_round_trip_needs_no_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
