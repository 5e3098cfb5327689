/* SPDX-License-Identifier: Apache-2.0 */
/* The cap holds on the wire whatever happens, is used up, and keys change under way. */
#include "tests/unit/scenario.h"

#include <stdlib.h>

enum { WINDOW_MS = 10, BURST_PACKETS = 16 };

/* Times and sizes of what one side put on the wire. */
struct departures {
	struct departure {
		uint64_t at_ns;
		uint64_t line_bytes;
	} * d;
	size_t n, cap;
};

static enum world_pass note_departure(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct departures *d = user;

	(void)packet;
	if (side != WORLD_SOURCE)
		return WORLD_PASS;
	if (d->n == d->cap) {
		d->cap = d->cap ? 2 * d->cap : 4096;
		d->d = realloc(d->d, d->cap * sizeof(*d->d));
		assert_non_null(d->d);
	}
	d->d[d->n++] = (struct departure){ w->now_ns, len + STRAIT_LINE_OVERHEAD_BYTES };
	return WORLD_PASS;
}

static void check_windows(const struct departures *d, uint64_t cap_bps)
{
	uint64_t allowed = cap_bps / 8 * WINDOW_MS / 1000 + BURST_PACKETS * (SYMBOL + 106);
	uint64_t bytes = 0;

	/* The worst window begins with a packet. */
	for (size_t i = 0, end = 0; i < d->n; i++) {
		for (; end < d->n && d->d[end].at_ns < d->d[i].at_ns + WINDOW_MS * MS; end++)
			bytes += d->d[end].line_bytes;
		assert_true(bytes <= allowed);
		bytes -= d->d[i].line_bytes;
	}
}

static void the_cap_holds_in_every_window(void **state)
{
	static const double losses[] = { 0, 0.02, 0.2 };

	(void)state;
	for (size_t i = 0; i < COUNT(losses); i++) {
		struct departures d = { 0 };
		const struct world_hooks h = { .user = &d, .on_send = note_departure };
		struct world_config cfg = small_config(i + 1);
		struct world *w;

		/* Below the link, so that nothing but the pacer shapes. */
		cfg.link[WORLD_SOURCE].rate_bps = 1000000000;
		cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = losses[i];
		w = world_open(&cfg, &h);
		order(w, 4, 1 * MIB);
		finish(w, 20 * S);
		check_windows(&d, 100000000);
		assert_true(d.n > 4 * MIB / SYMBOL);
		free(d.d);
	}
}

static void a_clean_link_is_filled(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, NULL);
	double ideal_ns;

	(void)state;
	order(w, 25, 1 * MIB); /* 100 BDP */
	finish_open(w, 10 * S);
	ideal_ns = 10e6 + 25.0 * 1048576 * 8 * 1e9 / 1e8 * (SYMBOL + 106) / SYMBOL;
	assert_true((double)(w->verified_ns - w->t0_ns) < 1.02 * ideal_ns);
	assert_int_equal(w->link[WORLD_SOURCE].c.lost_queue, 0);
	world_destroy(w);
}

static void a_new_cap_holds_at_once(void **state)
{
	struct departures d = { 0 };
	const struct world_hooks h = { .user = &d, .on_send = note_departure };
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, &h);

	(void)state;
	order(w, 4, 1 * MIB);
	world_run_for(w, 100 * MS);
	check_windows(&d, 100000000);
	session_set_cap(w->session[WORLD_SOURCE], w->now_ns, 20000000);
	w->wake_ns[WORLD_SOURCE] = w->now_ns;
	d.n = 0;
	world_run_for(w, 500 * MS);
	check_windows(&d, 20000000);
	session_set_cap(w->session[WORLD_SOURCE], w->now_ns, 100000000);
	w->wake_ns[WORLD_SOURCE] = w->now_ns;
	finish(w, 1 * S);
	free(d.d);
}

static void keys_change_in_the_middle_of_a_transfer(void **state)
{
	static const double losses[] = { 0, 0.05 };

	(void)state;
	for (size_t i = 0; i < COUNT(losses); i++) {
		struct world_config cfg = small_config(i + 1);
		struct world *w;

		cfg.cap_bps = 4000000;
		for (int side = 0; side < WORLD_SIDES; side++) {
			cfg.link[side].rate_bps = 4000000;
			cfg.link[side].loss = losses[i];
		}
		w = world_open(&cfg, NULL);
		/* 150 s at this rate: two timed changes of each direction's keys. */
		order(w, 35, 2 * MIB);
		finish_open(w, 400 * S);
		assert_true(audit_generation(&w->audit[WORLD_SOURCE]) >= 2);
		assert_true(audit_generation(&w->audit[WORLD_SINK]) >= 2);
		assert_true(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_generations) >= 2);
		assert_int_equal(world_counter(w, WORLD_SINK, STRAIT_C_rx_generation), 0);
		assert_int_equal(world_counter(w, WORLD_SINK, STRAIT_C_rx_auth), 0);
		world_destroy(w);
	}
}

static void keys_change_on_an_idle_session_too(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w = world_open(&cfg, NULL);

	(void)state;
	for (int i = 0; i < 5; i++) {
		order(w, 1, 100 * KIB);
		assert_true(world_run(w, 2 * S));
		world_run_for(w, 61 * S);
	}
	finish(w, 2 * S);
}

/* The timer alone: a peer that hears nothing must not find keys two generations on. */
static void timed_keys_wait_for_a_peer_that_does_not_answer(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct world_config cfg = small_config(seed);
		struct world *w;

		cfg.idle_timeout_ns = 400 * S;
		for (int side = 0; side < WORLD_SIDES; side++) {
			cfg.link[side].ncuts = 1;
			cfg.link[side].cuts[0] = (struct link_cut){ 50 * MS, 250 * S };
		}
		w = world_open(&cfg, NULL);
		order(w, 4, 1 * MIB);
		/* Four times 60 s: one change, for the generation before was acknowledged. */
		world_run_for(w, 249 * S);
		assert_int_equal(audit_generation(&w->audit[WORLD_SOURCE]), 1);
		assert_int_equal(world_counter(w, WORLD_SOURCE, STRAIT_C_tx_generations), 1);
		finish_open(w, 20 * S);
		assert_int_equal(world_counter(w, WORLD_SINK, STRAIT_C_rx_generation), 0);
		world_destroy(w);
	}
}

static void an_unanswered_session_dies_and_closes_its_transfers(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.idle_timeout_ns = 5 * S;
	for (int side = 0; side < WORLD_SIDES; side++) {
		cfg.link[side].ncuts = 1;
		cfg.link[side].cuts[0].at_ns = 50 * MS;
		cfg.link[side].cuts[0].len_ns = 1000 * S;
	}
	w = world_open(&cfg, NULL);
	order(w, 4, 1 * MIB);
	world_run_for(w, 5100 * MS);
	assert_true(w->dead[WORLD_SOURCE] && w->dead[WORLD_SINK]);
	assert_true(world_is_done(w));
	assert_int_equal(w->transfers[0].close_status, STRAIT_STATUS_RESET);
	assert_string_equal(w->error, "");
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cap_holds_in_every_window),
		cmocka_unit_test(a_clean_link_is_filled),
		cmocka_unit_test(a_new_cap_holds_at_once),
		cmocka_unit_test(keys_change_in_the_middle_of_a_transfer),
		cmocka_unit_test(keys_change_on_an_idle_session_too),
		cmocka_unit_test(timed_keys_wait_for_a_peer_that_does_not_answer),
		cmocka_unit_test(an_unanswered_session_dies_and_closes_its_transfers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
