/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of an order are useful from the first on: they end nearly in the order they were
 * given.
 */
#include "tests/unit/scenario.h"

#define OBJECTS 200
#define BYTES   (128 * KIB)

/* How much later than the last of those behind it an object ended, at most. */
static uint64_t worst_inversion_ns(const struct world *w)
{
	uint64_t worst = 0, ahead = UINT64_MAX;

	for (uint32_t i = w->nobjects; i-- > 0;) {
		uint64_t at = w->objects[i].verified_ns;

		if (at > ahead && at - ahead > worst)
			worst = at - ahead;
		ahead = at < ahead ? at : ahead;
	}
	return worst;
}

/*
 * How much later than on a link that loses nothing, and is slower by as much as this one loses, the
 * first n are all there, in the mean.
 */
static double prefix_delay_ms(const struct world *w, const struct world *clean, double loss)
{
	uint64_t at = 0, clean_at = 0;
	double sum = 0;

	for (uint32_t i = 0; i < w->nobjects; i++) {
		uint64_t t = w->objects[i].verified_ns - w->t0_ns;
		uint64_t c = clean->objects[i].verified_ns - clean->t0_ns;

		at = t > at ? t : at;
		clean_at = c > clean_at ? c : clean_at;
		sum += (double)at - (double)clean_at / (1 - loss);
	}
	return sum / w->nobjects / MS;
}

static struct world *run(uint64_t seed, double loss)
{
	struct world_config cfg = small_config(seed);
	struct world *w;

	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = loss;
	w = world_open(&cfg, NULL);
	order(w, OBJECTS, BYTES);
	finish_open(w, 30 * S);
	return w;
}

static void objects_end_in_their_order_without_loss(void **state)
{
	struct world *w = run(1, 0);

	(void)state;
	assert_int_equal(worst_inversion_ns(w), 0);
	world_destroy(w);
}

static void loss_delays_a_prefix_by_a_round_trip_and_no_more(void **state)
{
	static const double losses[] = { 0.001, 0.01, 0.05 };
	/* A round trip is 20 ms. A symbol is sent again one and a half after it was lost. */
	static const double inversion_ms[] = { 70, 90, 120 }, delay_ms[] = { 20, 40, 60 };

	(void)state;
	for (size_t l = 0; l < COUNT(losses); l++) {
		uint64_t worst = 0;
		double delay = 0;

		for (uint64_t seed = 1; seed <= 10; seed++) {
			struct world *clean = run(seed, 0), *w = run(seed, losses[l]);
			uint64_t ns = worst_inversion_ns(w);

			worst = ns > worst ? ns : worst;
			delay += prefix_delay_ms(w, clean, losses[l]) / 10;
			world_destroy(clean);
			world_destroy(w);
		}
		print_message("loss %.3f: an object ends up to %.1f ms after one behind it, a "
			      "prefix %.1f ms later than without loss\n",
			losses[l], (double)worst / MS, delay);
		assert_true((double)worst / MS < inversion_ms[l]);
		assert_true(delay < delay_ms[l]);
	}
}

/* A burst takes symbols of many blocks: those of the first are sent again first. */
struct burst {
	uint64_t from_ns, to_ns;
	uint32_t last_block;
	unsigned int resent, backward;
	uint8_t seen[64][32]; /* symbols lost in the burst, by block */
};

static enum world_pass lose_burst(struct world *w, enum world_side side, const uint8_t *packet,
	size_t len, void *user)
{
	struct burst *b = user;
	uint64_t now = w->now_ns - w->t0_ns;
	uint32_t block = packet_u32(packet, STRAIT_OFF_BLOCK);
	uint8_t esi = packet[STRAIT_OFF_ESI];

	(void)len;
	if (side != WORLD_SOURCE || packet_type(packet) != STRAIT_PACKET_DATA || block >= 64)
		return WORLD_PASS;
	if (now >= b->from_ns && now < b->to_ns) {
		b->seen[block][esi / 8] |= (uint8_t)(1 << esi % 8);
		return WORLD_LOSE;
	}
	if (!(b->seen[block][esi / 8] >> esi % 8 & 1))
		return WORLD_PASS;
	b->seen[block][esi / 8] &= (uint8_t) ~(1 << esi % 8);
	b->resent++;
	b->backward += block < b->last_block;
	b->last_block = block;
	return WORLD_PASS;
}

static void lost_blocks_are_repaired_from_the_first_on(void **state)
{
	struct burst b = { .from_ns = 200 * MS, .to_ns = 260 * MS };
	struct world_hooks hooks = { .user = &b, .on_send = lose_burst };
	struct world_config cfg = small_config(3);
	struct world *w = world_open(&cfg, &hooks);

	(void)state;
	order(w, OBJECTS, BYTES);
	finish_open(w, 30 * S);
	assert_true(b.resent > 300);
	/* One step back a block at most: a block whose end was not known to be lost at first. */
	if (b.backward > 4)
		fail_msg("%u of %u symbols were sent again after one of a later block", b.backward,
			b.resent);
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_end_in_their_order_without_loss),
		cmocka_unit_test(loss_delays_a_prefix_by_a_round_trip_and_no_more),
		cmocka_unit_test(lost_blocks_are_repaired_from_the_first_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
