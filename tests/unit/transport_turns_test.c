/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks with rows take turns, symbol by symbol, where losses come in bursts or nothing is known of
 * them, and in the last round trip of an order. Where losses come singly one block of an urgent
 * order follows the other, its rows with it if the path is too long for them to wait.
 */
#include "tests/unit/scenario.h"

enum { OBJECTS = 96 };

/* What the source sends of one part of an order. */
struct part {
	uint64_t sources, following; /* after a source symbol of the same block */
	uint64_t rows, at_once;      /* of the block whose source symbols came last */
};

struct watch {
	struct part early, late, end; /* `late`: of the second half, but for the last 70 blocks */
	struct part tail;             /* packets with TAIL */
	uint64_t sources;
	uint32_t block;
};

static void part_add(struct part *p, const struct watch *x, uint32_t block, bool row)
{
	p->sources += !row;
	p->following += !row && block == x->block;
	p->rows += row;
	p->at_once += row && block == x->block;
}

static enum world_pass on_send(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct watch *x = user;
	uint32_t block = packet_u32(packet, STRAIT_OFF_BLOCK);
	uint64_t most = OBJECTS * MIB / SYMBOL;
	bool row = packet[STRAIT_OFF_ESI] >= STRAIT_BLOCK_SYMBOLS_MAX;

	(void)w;
	(void)len;
	if (side != WORLD_SOURCE || packet_type(packet) != STRAIT_PACKET_DATA ||
		packet[STRAIT_OFF_ESI] == STRAIT_BLOCK_SYMBOLS_MAX - 1)
		return WORLD_PASS; /* of a smaller block that may be a row */
	if (x->sources < 3000)
		part_add(&x->early, x, block, row);
	/* The last 64 blocks have their rows together, which is another case. */
	else if (x->sources > most / 2 && x->sources < most - 70 * STRAIT_BLOCK_SYMBOLS_MAX)
		part_add(&x->late, x, block, row);
	else if (x->sources > most - 60 * STRAIT_BLOCK_SYMBOLS_MAX)
		part_add(&x->end, x, block, row);
	if (packet[STRAIT_OFF_FLAGS] & STRAIT_FLAG_TAIL)
		part_add(&x->tail, x, block, row);
	if (!row) {
		x->block = block;
		x->sources++;
	}
	return WORLD_PASS;
}

static void watch(struct watch *x, uint8_t class_, double loss, double burst_loss, uint64_t rtt_ns)
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
	assert_true(world_order(w, first, OBJECTS, class_) >= 0);
	finish_open(w, 20 * S);
	world_destroy(w);
	assert_true(x->early.sources > 2000 && x->late.sources > 20000 && x->tail.rows > 300);
	/* Until something is known they take turns. */
	assert_true(class_ != STRAIT_CLASS_URGENT || x->early.following < x->early.sources / 20);
}

static void single_losses_on_a_long_path(void **state)
{
	struct watch x;

	(void)state;
	watch(&x, STRAIT_CLASS_URGENT, 0.01, 0, 150 * MS);
	assert_true(x.late.following > x.late.sources * 95 / 100);
	assert_true(x.late.at_once > x.late.rows * 9 / 10);
	/* Each of the last ones has some of its rows before any has all. */
	assert_true(x.end.following > x.end.sources * 95 / 100);
	assert_true(x.end.rows > 300 && x.end.at_once < x.end.rows / 10);
}

static void single_losses_on_a_short_path(void **state)
{
	struct watch x;

	(void)state;
	watch(&x, STRAIT_CLASS_URGENT, 0.01, 0, 20 * MS);
	assert_true(x.late.following > x.late.sources * 95 / 100);
	assert_true(x.late.at_once < x.late.rows / 10);
}

/* What it lost and is not yet known would be all of few blocks otherwise. */
static void the_end_of_another_order(void **state)
{
	struct watch x;

	(void)state;
	watch(&x, STRAIT_CLASS_NORMAL, 0.01, 0, 150 * MS);
	assert_true(x.tail.sources > 8000 && x.tail.following < x.tail.sources / 20);
}

static void bursts(void **state)
{
	struct watch x;

	(void)state;
	watch(&x, STRAIT_CLASS_URGENT, 0, 0.01, 150 * MS);
	assert_true(x.late.following < x.late.sources / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single_losses_on_a_long_path),
		cmocka_unit_test(single_losses_on_a_short_path),
		cmocka_unit_test(the_end_of_another_order),
		cmocka_unit_test(bursts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
