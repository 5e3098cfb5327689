/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restarts at random points, several times in one order: only what is missing is sent again, and an
 * object that changed meanwhile restarts alone.
 */
#include "tests/unit/scenario.h"

#include "dataplane/transport/rx_resume.h"
#include "tools/sim/content.h"

enum {
	BDP_BYTES = 250000,
	BLOCK_BYTES = STRAIT_BLOCK_SYMBOLS_MAX * SYMBOL,
	TAIL_BYTES = 50000, /* rows at the end of an order, for losses that may be */
	SEEDS = 40,
};

struct meter {
	uint64_t bytes; /* payload of data packets sent */
};

static enum world_pass measure_data(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct meter *m = user;

	(void)w;
	if (side == WORLD_SOURCE && packet_type(packet) == STRAIT_PACKET_DATA)
		m->bytes += len - STRAIT_OVERHEAD_BYTES;
	return WORLD_PASS;
}

enum who { SENDER, RECEIVER, BOTH, WHO_COUNT };

static void restart(struct world *w, enum who who)
{
	if (who != RECEIVER && world_restart(w, WORLD_SOURCE) < 0)
		fail_msg("restart: %s", w->error);
	if (who != SENDER && world_restart(w, WORLD_SINK) < 0)
		fail_msg("restart: %s", w->error);
}

/* Bytes of the order that the source sends beyond the order itself. */
static uint64_t sent_again(uint64_t seed, enum who who, uint32_t restarts, double loss)
{
	struct world_config cfg = small_config(seed);
	struct meter m = { 0 };
	const struct world_hooks h = { .user = &m, .on_send = measure_data };
	struct prng rnd;
	uint64_t total = 0;
	struct world *w;

	prng_init(&rnd, seed, 5000);
	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = loss;
	w = world_open(&cfg, &h);
	world_add_objects(w, 12, 0);
	for (uint32_t i = 0; i < w->nobjects; i++) {
		w->objects[i].length = 1 + prng_below(&rnd, prng_chance(&rnd, 0.3) ? 2 * KIB : MIB);
		total += w->objects[i].length;
	}
	assert_true(world_order(w, 0, w->nobjects, STRAIT_CLASS_NORMAL) >= 0);
	for (uint32_t i = 0; i < restarts; i++) {
		/* The whole takes 0.5 s or so. */
		world_run_for(w, prng_below(&rnd, total * 8 * 10 / (restarts + 1)));
		restart(w, who);
	}
	finish_open(w, 20 * S);
	world_destroy(w);
	assert_true(m.bytes >= total);
	return m.bytes - total;
}

/*
 * Allowed at a restart: what was under way or not told yet, a BDP; blocks that span two objects, of
 * which the receiver keeps none; and with loss, blocks that waited for a repair, another BDP.
 */
static void little_is_sent_again(enum who who)
{
	uint64_t most = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint32_t restarts = 1 + (uint32_t)(seed % 5);
		uint64_t again = sent_again(seed, who, restarts, 0);
		uint64_t allowed = restarts * (uint64_t)(BDP_BYTES + 2 * BLOCK_BYTES) + TAIL_BYTES;

		if (again > allowed)
			fail_msg("seed %llu: %llu bytes sent again after %u restarts, allowed %llu",
				(unsigned long long)seed, (unsigned long long)again, restarts,
				(unsigned long long)allowed);
		most = again / restarts > most ? again / restarts : most;
		again = sent_again(seed, who, restarts, 0.02);
		allowed += (restarts + 1) * BDP_BYTES;
		if (again > allowed)
			fail_msg("seed %llu with loss: %llu bytes sent again after %u restarts",
				(unsigned long long)seed, (unsigned long long)again, restarts);
	}
	print_message("at most %llu bytes a restart without loss\n", (unsigned long long)most);
}

static void a_sender_that_restarts_at_any_time_sends_little_again(void **state)
{
	(void)state;
	little_is_sent_again(SENDER);
}

static void a_receiver_that_restarts_at_any_time_gets_little_again(void **state)
{
	(void)state;
	little_is_sent_again(RECEIVER);
}

static void both_restarting_at_any_time_repeat_little(void **state)
{
	(void)state;
	little_is_sent_again(BOTH);
}

/* rclone and others start a large file from 0 when they are interrupted. */
static void an_interrupted_object_goes_on_where_it_was_each_time(void **state)
{
	struct world_config cfg = small_config(1);
	struct meter m = { 0 };
	const struct world_hooks h = { .user = &m, .on_send = measure_data };
	struct world *w = world_open(&cfg, &h);

	(void)state;
	order(w, 1, 20 * MIB);
	for (int i = 0; i < 10; i++) {
		uint64_t resumed = w->resumed_bytes;

		world_run_for(w, 150 * MS);
		restart(w, (enum who)(i % WHO_COUNT));
		assert_true(i == 0 || w->resumed_bytes > resumed);
	}
	finish_open(w, 10 * S);
	assert_true(m.bytes < 20 * MIB + 14 * (BDP_BYTES + BLOCK_BYTES));
	world_destroy(w);
}

static void an_object_that_changed_restarts_alone(void **state)
{
	struct world_config cfg = small_config(1);
	struct meter m = { 0 };
	const struct world_hooks h = { .user = &m, .on_send = measure_data };
	struct world *w = world_open(&cfg, &h);
	uint64_t before, length = 40 * BLOCK_BYTES;
	uint32_t half = UINT32_MAX;

	(void)state;
	order(w, 3, length);
	/* Into the second object. */
	world_run_for(w, 20 * MS + (length + length / 2) * 8 * 10 * 1538 / SYMBOL);
	for (uint32_t i = 0; i < 3; i++)
		if (w->objects[i].dst != NULL && rx_resume_has(w->objects[i].resume, 2))
			half = i;
	assert_int_equal(half, 1);
	/* Another value under the same key. */
	w->objects[1].content++;
	w->objects[1].digest = content_digest(w->objects[1].content, length);
	before = m.bytes;
	restart(w, SENDER);
	finish_open(w, 10 * S);
	assert_int_equal(w->resumed_bytes, 0);
	/* The first is kept, the second and the third come whole. */
	assert_in_range(m.bytes - before, 2 * length, 2 * length + 2 * BDP_BYTES + 2 * BLOCK_BYTES);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(w->objects[i].published);
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sender_that_restarts_at_any_time_sends_little_again),
		cmocka_unit_test(a_receiver_that_restarts_at_any_time_gets_little_again),
		cmocka_unit_test(both_restarting_at_any_time_repeat_little),
		cmocka_unit_test(an_interrupted_object_goes_on_where_it_was_each_time),
		cmocka_unit_test(an_object_that_changed_restarts_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
