/* SPDX-License-Identifier: Apache-2.0 */
/* Reports that do not come: nothing is sent twice for it, and nothing waits for them. */
#include "tests/unit/scenario.h"

/* Both have a COUNT; the session's is not needed here. */
#undef COUNT
#include "dataplane/transport/session_pvt.h"

/* Every packet of the sink is lost while virtual time is within [from, to). */
struct silence {
	uint64_t from_ns, to_ns;
};

static enum world_pass lose_reports(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	const struct silence *t = user;
	uint64_t at = w->now_ns - w->t0_ns;

	(void)packet;
	(void)len;
	return side == WORLD_SINK && at >= t->from_ns && at < t->to_ns ? WORLD_LOSE : WORLD_PASS;
}

struct outcome {
	uint64_t verified_ns, twice, late_ns, spins;
};

static struct outcome run(const struct world_config *cfg, struct silence *t, uint64_t length)
{
	const struct world_hooks h = { .user = t, .on_send = lose_reports };
	struct world *w = world_open(cfg, &h);
	struct session_stats stats;
	struct outcome o;

	order(w, 1, length);
	finish_open(w, 5 * S);
	session_stats(w->session[WORLD_SINK], &stats);
	o.verified_ns = w->verified_ns - w->t0_ns;
	o.twice = stats.counters[STRAIT_C_rx_duplicate] + stats.counters[STRAIT_C_rx_unneeded];
	o.late_ns = w->session[WORLD_SOURCE]->tx.late_ns;
	o.spins = w->spins;
	world_destroy(w);
	return o;
}

/* 60 ms are fifteen reports; four of them would be enough to leave a hole. */
static void a_silence_of_the_reports_makes_nothing_be_sent_twice(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct world_config cfg = small_config(seed);
		struct silence t = { 100 * MS, 160 * MS };
		struct outcome o;

		cfg.link[WORLD_SOURCE].loss = 0.01;
		o = run(&cfg, &t, 8 * MIB);
		if (o.twice > 25)
			fail_msg("seed %d: %d symbols twice", (int)seed, (int)o.twice);
		/* 8 MiB take 721 ms, a hundredth of it lost 7, the way there 10. */
		assert_true(o.verified_ns < 750 * MS);
	}
}

/*
 * Rows for what overdue reports did not tell of need room in the log, too. It must
 * not ask to send at once meanwhile.
 */
static void a_full_log_waits_for_a_report(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct world_config cfg = small_config(seed);
		struct silence t = { 100 * MS, 140 * MS };

		cfg.log_packets = 256;
		assert_true(run(&cfg, &t, 4 * MIB).spins < 100);
	}
}

/* A cut on a path that reorders: what arrived before it is told of after it, and was not late. */
static void a_cut_is_no_reordering(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct world_config cfg = small_config(seed);
		struct silence none = { 0, 0 };

		cfg.link[WORLD_SOURCE].loss = 0.01;
		cfg.link[WORLD_SOURCE].reorder = 0.25;
		cfg.link[WORLD_SOURCE].reorder_ns = 5 * MS;
		for (int side = 0; side < WORLD_SIDES; side++) {
			cfg.link[side].ncuts = 1;
			cfg.link[side].cuts[0] = (struct link_cut){ 300 * MS, 2 * S };
		}
		/* Beside the cut: 8 MiB 721 ms, what is lost 7, the way there 10, back in 3 RTT. */
		assert_true(run(&cfg, &none, 8 * MIB).verified_ns < 2850 * MS);
	}
}

static void lost_reports_do_not_look_like_reordering(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct world_config cfg = small_config(seed);
		struct silence none = { 0, 0 };

		cfg.link[WORLD_SOURCE].loss = 0.01;
		cfg.link[WORLD_SINK].loss = 0.5;
		assert_int_equal(run(&cfg, &none, 8 * MIB).late_ns, 0);
	}
}

/* What went out since the last report may have lost some: rows, and no wait for word of it. */
static void the_end_does_not_wait_for_reports_that_are_overdue(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct world_config cfg = small_config(seed);
		struct silence t = { 120 * MS, 1 * S };

		cfg.link[WORLD_SOURCE].loss = 0.01;
		/* 2 MiB take 182 ms. */
		assert_true(run(&cfg, &t, 2 * MIB).verified_ns < 240 * MS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_silence_of_the_reports_makes_nothing_be_sent_twice),
		cmocka_unit_test(a_full_log_waits_for_a_report),
		cmocka_unit_test(a_cut_is_no_reordering),
		cmocka_unit_test(lost_reports_do_not_look_like_reordering),
		cmocka_unit_test(the_end_does_not_wait_for_reports_that_are_overdue),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
