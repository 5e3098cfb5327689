/* SPDX-License-Identifier: Apache-2.0 */
/* After the loss of a session, orders end correctly and little is sent twice. */
#include "tests/unit/scenario.h"

#include "tools/sim/run.h"

enum { BDP_BYTES = 250000 };

/* Payload bytes of data packets since `on`. */
struct meter {
	bool on;
	uint64_t bytes;
};

static enum world_pass measure_data(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct meter *m = user;

	(void)w;
	if (m->on && side == WORLD_SOURCE && packet_type(packet) == STRAIT_PACKET_DATA)
		m->bytes += len - STRAIT_OVERHEAD_BYTES;
	return WORLD_PASS;
}

/* `side` restarts at some time: little more is sent after it than was missing. */
static void restart_at(enum world_side side, uint64_t at_ms, double loss, uint64_t allowed)
{
	struct world_config cfg = small_config(at_ms + 1);
	struct meter m = { 0 };
	const struct world_hooks h = { .user = &m, .on_send = measure_data };
	struct world *w;
	uint64_t had;
	uint64_t missing;

	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = loss;
	w = world_open(&cfg, &h);
	order(w, 10, 512 * KIB);
	world_run_for(w, at_ms * MS);
	had = w->f[WORLD_SOURCE].data_in_bytes;
	missing = had > 10 * 512 * KIB ? 0 : 10 * 512 * KIB - had;
	m.on = true;
	if (world_restart(w, side) < 0)
		fail_msg("restart at %llu ms: %s", (unsigned long long)at_ms, w->error);
	finish_open(w, 10 * S);
	if (m.bytes > missing + allowed)
		fail_msg("%llu ms: %llu bytes sent for %llu missing", (unsigned long long)at_ms,
			(unsigned long long)m.bytes, (unsigned long long)missing);
	world_destroy(w);
}

static void a_restarted_receiver_gets_only_what_it_lacks(void **state)
{
	(void)state;
	for (uint64_t at_ms = 0; at_ms < 520; at_ms += 23)
		restart_at(WORLD_SINK, at_ms, 0, BDP_BYTES + 512 * KIB);
}

static void a_restarted_sender_sends_only_what_is_lacking(void **state)
{
	(void)state;
	for (uint64_t at_ms = 0; at_ms < 520; at_ms += 23)
		restart_at(WORLD_SOURCE, at_ms, 0, BDP_BYTES + 512 * KIB);
}

static void restarts_under_loss_end_well(void **state)
{
	(void)state;
	for (uint64_t at_ms = 0; at_ms < 520; at_ms += 23) {
		restart_at(WORLD_SINK, at_ms, 0.03, BDP_BYTES + 1 * MIB);
		restart_at(WORLD_SOURCE, at_ms, 0.03, BDP_BYTES + 1 * MIB);
	}
}

static void many_restarts_in_a_row_end_well(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.02;
	w = world_open(&cfg, NULL);
	order(w, 40, 100 * KIB + 13);
	order(w, 400, 1001);
	order(w, 2, 512 * KIB);
	for (int i = 0; i < 20; i++) {
		world_run_for(w, 37 * MS);
		assert_int_equal(world_restart(w, i % 3 ? WORLD_SINK : WORLD_SOURCE), 0);
	}
	finish(w, 10 * S);
}

static void a_large_object_resumes(void **state)
{
	struct world_config cfg = small_config(1);
	struct meter m = { 0 };
	const struct world_hooks h = { .user = &m, .on_send = measure_data };
	struct world *w;
	uint64_t missing;

	(void)state;
	for (int side = 0; side < WORLD_SIDES; side++) {
		cfg.link[side].rate_bps = 1000000000;
		cfg.link[side].loss = 0.01;
	}
	cfg.cap_bps = 1000000000;
	w = world_open(&cfg, &h);
	order(w, 1, 64 * MIB);
	world_run_for(w, 400 * MS);
	missing = 64 * MIB - w->f[WORLD_SOURCE].data_in_bytes;
	m.on = true;
	assert_int_equal(world_restart(w, WORLD_SINK), 0);
	finish_open(w, 5 * S);
	/* 20 BDP had arrived. */
	assert_true(m.bytes < missing + 8 * MIB);
	world_destroy(w);
}

static void a_changed_object_is_not_resumed_from_old_bytes(void **state)
{
	struct world_config cfg = small_config(1);
	struct world *w;

	(void)state;
	cfg.symbol_bytes = 1000;
	w = world_open(&cfg, NULL);
	order(w, 2, 2 * MIB);
	world_run_for(w, 100 * MS);
	/* The bytes left behind are of another layout: the resume area must be refused. */
	w->cfg.symbol_bytes = 1001;
	assert_int_equal(world_restart(w, WORLD_SINK), 0);
	finish(w, 5 * S);
}

static void the_same_seed_runs_the_same_history(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 8; seed++) {
		static struct sim_result a, b;
		static struct plan p;

		plan_random(&p, seed);
		sim_run(&p, &a);
		sim_run(&p, &b);
		assert_memory_equal(a.counters, b.counters, sizeof(a.counters));
		assert_memory_equal(a.figures, b.figures, sizeof(a.figures));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_restarted_receiver_gets_only_what_it_lacks),
		cmocka_unit_test(a_restarted_sender_sends_only_what_is_lacking),
		cmocka_unit_test(restarts_under_loss_end_well),
		cmocka_unit_test(many_restarts_in_a_row_end_well),
		cmocka_unit_test(a_large_object_resumes),
		cmocka_unit_test(a_changed_object_is_not_resumed_from_old_bytes),
		cmocka_unit_test(the_same_seed_runs_the_same_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
