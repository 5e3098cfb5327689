/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks take turns, symbol by symbol, where losses come in bursts or nothing is known of them.
 * Where they come singly one block follows the other, its rows with it if a round trip is too long
 * for them to wait.
 */
#include "tests/unit/scenario.h"

enum { OBJECTS = 96 };

/* What the source sends of one part of an order. */
struct part {
	uint64_t sources, following; /* after a source symbol of the same block */
	uint64_t rows, at_once;      /* of the block whose source symbols came last */
};

struct watch {
	struct part early, late;
	uint64_t sources;
	uint32_t block;
};

static enum world_pass on_send(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct watch *x = user;
	uint32_t block = packet_u32(packet, STRAIT_OFF_BLOCK);
	uint64_t most = OBJECTS * MIB / SYMBOL;
	struct part *p = x->sources < 3000 ? &x->early : x->sources > most / 2 ? &x->late : NULL;

	(void)w;
	(void)len;
	if (side != WORLD_SOURCE || packet_type(packet) != STRAIT_PACKET_DATA)
		return WORLD_PASS;
	if (packet[STRAIT_OFF_ESI] >= STRAIT_BLOCK_SYMBOLS_MAX - 1) {
		if (p != NULL && packet[STRAIT_OFF_ESI] >= STRAIT_BLOCK_SYMBOLS_MAX) {
			p->rows++;
			p->at_once += block == x->block;
		}
		return WORLD_PASS;
	}
	if (p != NULL) {
		p->sources++;
		p->following += block == x->block;
	}
	x->block = block;
	x->sources++;
	return WORLD_PASS;
}

static void watch(struct watch *x, double loss, double burst_loss, uint64_t rtt_ns)
{
	const struct world_hooks h = { .user = x, .on_send = on_send };
	struct world_config cfg = small_config(5);
	struct world *w;
	uint32_t first;

	memset(x, 0, sizeof(*x));
	for (int side = 0; side < WORLD_SIDES; side++) {
		cfg.link[side].rate_bps = 1000000000;
		cfg.link[side].rtt_ns = rtt_ns;
	}
	cfg.cap_bps = 1000000000;
	cfg.link[WORLD_SOURCE].loss = loss;
	cfg.link[WORLD_SOURCE].ge_loss = burst_loss;
	cfg.link[WORLD_SOURCE].ge_burst = burst_loss > 0 ? 8 : 0;
	w = world_open(&cfg, &h);
	first = world_add_objects(w, OBJECTS, MIB);
	assert_true(world_order(w, first, OBJECTS, STRAIT_CLASS_URGENT) >= 0);
	finish_open(w, 20 * S);
	world_destroy(w);
	/* Until something is known they take turns. */
	assert_true(x->early.following < x->early.sources / 20);
	assert_true(x->early.sources > 2000 && x->late.sources > 20000 && x->late.rows > 300);
}

static void single_losses_on_a_long_path(void **state)
{
	struct watch x;

	(void)state;
	watch(&x, 0.01, 0, 150 * MS);
	assert_true(x.late.following > x.late.sources * 95 / 100);
	assert_true(x.late.at_once > x.late.rows * 9 / 10);
}

static void single_losses_on_a_short_path(void **state)
{
	struct watch x;

	(void)state;
	watch(&x, 0.01, 0, 20 * MS);
	assert_true(x.late.following > x.late.sources * 95 / 100);
	assert_true(x.late.at_once < x.late.rows / 10);
}

static void bursts(void **state)
{
	struct watch x;

	(void)state;
	watch(&x, 0, 0.01, 150 * MS);
	assert_true(x.late.following < x.late.sources / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single_losses_on_a_long_path),
		cmocka_unit_test(single_losses_on_a_short_path),
		cmocka_unit_test(bursts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
