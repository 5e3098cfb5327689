/* SPDX-License-Identifier: Apache-2.0 */
/* The path carries less than was configured, from the start or from some time on: orders end. */
#include "tests/unit/scenario.h"

enum { BDP_BYTES = 250000 };

static void path_mtu(struct world_config *cfg, uint64_t at_ms, uint32_t bytes)
{
	for (int side = 0; side < WORLD_SIDES; side++) {
		struct link_config *l = &cfg->link[side];

		l->mtus[l->nmtus].at_ns = at_ms * MS;
		l->mtus[l->nmtus++].bytes = bytes;
	}
}

static uint64_t falls(const struct world *w)
{
	return world_counter(w, WORLD_SOURCE, STRAIT_C_tx_mtu_falls);
}

/* Ships 8 MiB in 4 objects over a path that falls; returns the data packets' payload bytes. */
static uint64_t fall(uint64_t seed, uint16_t symbol, uint64_t at_ms, uint32_t bytes, bool cold,
	double loss)
{
	struct world_config cfg = small_config(seed);
	struct world *w;
	uint64_t sent;

	cfg.symbol_bytes = symbol;
	cfg.cold = cold;
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = loss;
	path_mtu(&cfg, at_ms, bytes);
	w = world_open(&cfg, NULL);
	order(w, 4, 2 * MIB);
	finish_open(w, 60 * S);
	if (falls(w) != 1 || w->reopened != 1)
		fail_msg("seed %llu: %u from %llu ms: fell %llu times, %llu reopened",
			(unsigned long long)seed, bytes, (unsigned long long)at_ms,
			(unsigned long long)falls(w), (unsigned long long)w->reopened);
	assert_in_range(w->path_bytes, 512, bytes - 68);
	sent = w->f[WORLD_SOURCE].symbols * symbol;
	world_destroy(w);
	return sent;
}

static void a_black_hole_at_the_start_is_found(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		fall(seed, 1432, 0, 1492, seed % 2, 0);
		fall(seed, 1432, 0, 1280, seed % 2, 0.02);
		fall(seed, 8932, 0, 1500, seed % 2, 0.02);
	}
}

static void a_black_hole_in_the_middle_costs_little_more_than_what_it_ate(void **state)
{
	(void)state;
	for (uint64_t at_ms = 20; at_ms < 600; at_ms += 41) {
		uint64_t sent = fall(at_ms, 1432, at_ms, 1280, false, 0);

		/* As symbols of the old size: 18 % more of them, the hole, two BDP of blocks. */
		if (sent > 8 * MIB * 12 / 10 + 8 * BDP_BYTES)
			fail_msg("at %llu ms: %llu bytes", (unsigned long long)at_ms,
				(unsigned long long)sent);
	}
}

static void a_jumbo_path_that_falls_to_1500_or_1280_goes_on(void **state)
{
	(void)state;
	for (uint64_t at_ms = 20; at_ms < 600; at_ms += 97) {
		fall(at_ms, 8932, at_ms, 1500, false, 0.01);
		fall(at_ms, 8932, at_ms, 1280, false, 0.01);
		fall(at_ms, 8932, at_ms, 600, false, 0.01);
	}
}

/* The last packets of an order meet the hole; whether any is left unacknowledged depends. */
static void a_black_hole_in_the_tail_is_found(void **state)
{
	uint64_t found = 0;

	(void)state;
	for (uint64_t at_ms = 640; at_ms < 760; at_ms += 3) {
		struct world_config cfg = small_config(at_ms);
		struct world *w;

		path_mtu(&cfg, at_ms, 1400);
		w = world_open(&cfg, NULL);
		order(w, 4, 2 * MIB);
		finish_open(w, 60 * S);
		found += falls(w);
		world_destroy(w);
	}
	assert_true(found > 5);
}

static void a_path_that_rises_again_is_used_by_the_next_order(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	path_mtu(&cfg, 100, 1280);
	path_mtu(&cfg, 30000, 1500);
	w = world_open(&cfg, NULL);
	order(w, 4, 2 * MIB);
	assert_true(world_run(w, 10 * S));
	assert_int_equal(w->path_bytes, 1212);
	world_run_for(w, 640 * S);
	assert_int_equal(w->path_bytes, 1432);
	order(w, 4, 2 * MIB);
	finish_open(w, 10 * S);
	assert_int_equal(falls(w), 1);
	world_destroy(w);
}

static void a_path_that_falls_twice_is_followed(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct world_config cfg = small_config(seed);
		struct world *w;

		cfg.symbol_bytes = 8932;
		cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.02;
		path_mtu(&cfg, 50 + seed * 5, 4352);
		path_mtu(&cfg, 450, 1280);
		w = world_open(&cfg, NULL);
		order(w, 4, 2 * MIB);
		order(w, 40, 50000);
		finish_open(w, 30 * S);
		world_run_for(w, 2 * S); /* the search may go on when the orders are done */
		assert_int_equal(falls(w), 2);
		assert_int_equal(w->path_bytes, 1212);
		world_destroy(w);
	}
}

static void loss_and_bursts_never_lower_the_size(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct world_config cfg = small_config(seed);
		struct world *w;

		cfg.symbol_bytes = seed % 2 ? 1432 : 8932;
		cfg.cold = seed % 3 == 0;
		for (int side = 0; side < WORLD_SIDES; side++) {
			cfg.link[side].loss = 0.05;
			cfg.link[side].ge_loss = 0.02;
			cfg.link[side].ge_burst = 64;
		}
		w = world_open(&cfg, NULL);
		order(w, 1, 3 * MIB);
		finish_open(w, 30 * S);
		if (falls(w) != 0)
			fail_msg("seed %llu", (unsigned long long)seed);
		world_destroy(w);
	}
}

static void a_blackout_of_30_s_does_not_lower_the_size(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct world_config cfg = small_config(seed);
		struct world *w;

		for (int side = 0; side < WORLD_SIDES; side++) {
			cfg.link[side].loss = 0.02;
			cfg.link[side].ncuts = 1;
			cfg.link[side].cuts[0].at_ns = seed * 17 * MS;
			cfg.link[side].cuts[0].len_ns = 30 * S;
		}
		w = world_open(&cfg, NULL);
		order(w, 4, 2 * MIB);
		finish_open(w, 60 * S);
		assert_int_equal(falls(w), 0);
		world_destroy(w);
	}
}

/* Feedback that dies alone is no sign of a black hole either. */
static void lost_feedback_does_not_lower_the_size(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct world_config cfg = small_config(seed);
		struct world *w;

		cfg.link[WORLD_SINK].loss = 0.5;
		cfg.link[WORLD_SINK].ncuts = 1;
		cfg.link[WORLD_SINK].cuts[0].at_ns = seed * 17 * MS;
		cfg.link[WORLD_SINK].cuts[0].len_ns = 2 * S;
		w = world_open(&cfg, NULL);
		order(w, 4, 2 * MIB);
		finish_open(w, 60 * S);
		assert_int_equal(falls(w), 0);
		world_destroy(w);
	}
}

static void committed_objects_are_not_sent_again(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;
	uint32_t done = 0, early;

	(void)state;
	path_mtu(&cfg, 400, 1280);
	w = world_open(&cfg, NULL);
	order(w, 40, 256 * KIB);
	world_run_for(w, 400 * MS);
	for (early = 0; early < 40 && w->objects[early].published; early++)
		;
	assert_in_range(early, 10, 30);
	finish_open(w, 30 * S);
	for (uint32_t i = 0; i < 40; i++)
		done += w->objects[i].published;
	assert_int_equal(done, 40);
	/* 10 MiB in all, 15 or so at 18 % more symbols, had the order started afresh. */
	assert_true(w->f[WORLD_SOURCE].symbols * 1432 <
		10 * MIB + 10 * MIB / 5 + 8 * (uint64_t)BDP_BYTES);
	world_destroy(w);
}

static void over_ipv6_the_cap_counts_its_longer_header(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.ipv6 = true;
	cfg.symbol_bytes = STRAIT_SYMBOL_BYTES_IPV6;
	cfg.cap_bps = 50000000;
	path_mtu(&cfg, 0, 1500);
	w = world_open(&cfg, NULL);
	order(w, 4, 1 * MIB);
	finish_open(w, 10 * S); /* the audit of the cap is part of it */
	assert_int_equal(falls(w), 0);
	/* 1412 of 1538 bytes of the line. */
	assert_in_range(w->verified_ns - w->t0_ns, 4 * MIB * 8 * 20 / 1412 * 1538 - 200 * MS,
		4 * MIB * 8 * 20 / 1412 * 1538 + 200 * MS);
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_black_hole_at_the_start_is_found),
		cmocka_unit_test(a_black_hole_in_the_middle_costs_little_more_than_what_it_ate),
		cmocka_unit_test(a_jumbo_path_that_falls_to_1500_or_1280_goes_on),
		cmocka_unit_test(a_black_hole_in_the_tail_is_found),
		cmocka_unit_test(a_path_that_rises_again_is_used_by_the_next_order),
		cmocka_unit_test(a_path_that_falls_twice_is_followed),
		cmocka_unit_test(loss_and_bursts_never_lower_the_size),
		cmocka_unit_test(a_blackout_of_30_s_does_not_lower_the_size),
		cmocka_unit_test(lost_feedback_does_not_lower_the_size),
		cmocka_unit_test(committed_objects_are_not_sent_again),
		cmocka_unit_test(over_ipv6_the_cap_counts_its_longer_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
